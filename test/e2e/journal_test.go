// SPDX-License-Identifier: Apache-2.0

// The journal of a real daemon, damaged: the next one has a configuration that existed once, complete, and frames
// follow it, whatever the pins of the last daemon contain.

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/polycube/polycube/test/e2e/model"
)

// moment is the state at some size of the journal.
type moment struct {
	size  int64
	world *model.World
}

func TestADamagedJournalOfARealDaemon(t *testing.T) {
	t.Parallel()
	length, damages := 40, 5
	if soak {
		length, damages = 150, 1000
	}
	seed, repeat := seedFor(t)
	if repeat > 0 {
		length = repeat
	}
	t.Logf("POLYCUBE_SEED=%d/%d", seed, length)
	r := rand.New(rand.NewPCG(seed, 3))
	g := &model.Generator{Rand: r, Types: types, Standard: 7, Transparent: 5}
	s := newSite(t)
	var past []moment
	journal := s.journal()
	note := func() {
		info, err := os.Stat(journal)
		if err != nil {
			t.Fatal(err)
		}
		past = append(past, moment{info.Size(), s.world.Clone()})
	}
	note()
	for len(past) < length {
		g.Building = len(past) < length/2
		if o := g.Next(s.world); !o.OnDaemon() && !o.OnNetdev() {
			s.do(o)
			note()
		}
	}
	s.d.Kill9()
	if now := s.journal(); now != journal {
		t.Fatalf("the journal was %s and is %s", journal, now)
	}
	whole, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.CopyFS(kept, os.DirFS(filepath.Dir(journal))); err != nil {
		t.Fatal(err)
	}
	for range damages {
		at, flip := r.IntN(len(whole)), byte(1+r.IntN(255))
		damaged := slices.Clone(whole[:at])
		if r.IntN(2) == 0 {
			damaged = slices.Clone(whole)
			damaged[at] ^= flip
		}
		s.putBack(kept, journal, damaged)
		s.revived(past, int64(at), fmt.Sprintf("byte %d of %d, %d are left", at, len(whole), len(damaged)))
	}
}

// putBack restores the store, with another journal.
func (s *site) putBack(kept, journal string, damaged []byte) {
	s.t.Helper()
	dir := filepath.Dir(journal)
	old, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range old {
		if err := os.RemoveAll(name); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := os.CopyFS(dir, os.DirFS(kept)); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(journal, damaged, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// revived starts a daemon on a journal with a damaged byte, which has the state before it, and kills it.
func (s *site) revived(past []moment, at int64, what string) {
	s.t.Helper()
	want := past[0]
	for _, m := range past {
		if m.size <= at {
			want = m
		}
	}
	s.world = want.world.Clone()
	s.d = s.machine.Start(s.args...)
	status, text, err := s.Request(http.MethodGet, "/cubes", "")
	if err != nil || status != http.StatusOK {
		s.t.Fatalf("%s: GET /cubes: status %d, %v", what, status, err)
	}
	got, err := flatten(text)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := differ(got, s.wanted()); err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
	s.probeAnew()
	if s.t.Failed() {
		s.t.Fatal(what)
	}
	s.d.Kill9()
}
