// SPDX-License-Identifier: Apache-2.0

package topology

// Whichever byte of the journal is damaged, a restart restores a whole earlier configuration: the newest one whose record is
// before the damage.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/polycube/polycube/internal/store"
)

// past is a request, with the state after it.
type past struct {
	request, shown string
	// end is the offset of the end of its record in the journal.
	end int64
}

// histories are requests that touch all that is stored: cubes, ports, peers, chains on ports and netdevs, leaves, deletions.
var histories = []string{
	`create toybridge b1 <<< {"type":"TC","ports":[{"name":"p1"},{"name":"p2"}]}`,
	`create toybridge b2 <<< {"type":"TC","ports":[{"name":"p1"}],"fdb":{"aging-time":17}}`,
	`create toyfilter t1 <<< {"type":"TC"}`,
	`create toyfilter t2 <<< {"type":"TC"}`,
	`connect b1:p1 veth1`,
	`connect b1:p2 b2:p1`,
	`attach t1 veth1`,
	`attach t2 b1:p2`,
	`patch b1 <<< {"loglevel":"DEBUG","fdb":{"aging-time":40}}`,
	`post b2 ports p2 <<< {"peer":"veth2"}`,
	`detach t1 veth1`,
	`attach t1 b1:p2 position=first`,
	`disconnect b1:p2 b2:p1`,
	`delete b2`,
	`create toybridge b3 <<< {"type":"TC","ports":[{"name":"p1","peer":"veth2","tcubes":[]}]}`,
	`del b1 ports p2`,
}

// onDisk is a manager on a real store, with a data plane of its own.
type onDisk struct {
	*lab
	store *store.Store
}

func openOnDisk(t *testing.T, dir string) *onDisk {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	s, st, err := store.Open(store.Options{Dir: dir, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, plane: newFakePlane(), devs: newFakeNetdevs("veth1", "veth2"), b: &behaviour{learned: map[string]string{}}}
	l.Manager, err = New(Options{Datapath: l.plane, Store: s, State: st, Services: toyServices(t, l.b), Netdevs: l.devs, Logger: quiet})
	if err != nil {
		t.Fatal(errors.Join(err, s.Close()))
	}
	return &onDisk{l, s}
}

func (o *onDisk) shown() string {
	o.t.Helper()
	text, err := o.Topology(context.Background())
	if err != nil {
		o.t.Fatal(err)
	}
	return string(text)
}

func (o *onDisk) close() {
	o.t.Helper()
	if err := errors.Join(o.Close(context.Background()), o.store.Close()); err != nil {
		o.t.Fatal(err)
	}
}

// lived makes a journal of all requests, and returns the state after each.
func lived(t *testing.T) (dir, journal string, after []past) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	o := openOnDisk(t, dir)
	found, err := filepath.Glob(filepath.Join(dir, "journal-*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("journals %v, %v", found, err)
	}
	for _, request := range append([]string{""}, histories...) {
		if request != "" {
			o.must(request)
		}
		info, err := os.Stat(found[0])
		if err != nil {
			t.Fatal(err)
		}
		after = append(after, past{request, o.shown(), info.Size()})
	}
	o.close()
	return dir, filepath.Base(found[0]), after
}

func TestADamagedJournalGivesTheNewestWholeConfiguration(t *testing.T) {
	dir, name, after := lived(t)
	journal, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	stride := 307 // a prime, so that all kinds of bytes are damaged
	if os.Getenv("POLYCUBE_SOAK") != "" {
		stride = 1
	}
	for n := 0; n < len(journal); n += stride {
		want := after[0]
		for _, p := range after {
			if p.end <= int64(n) {
				want = p
			}
		}
		flipped := append([]byte{}, journal...)
		flipped[n] ^= 0x41
		for what, bytes := range map[string][]byte{"cut": journal[:n], "flipped": flipped} {
			copied := filepath.Join(t.TempDir(), "store")
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Chmod(copied, 0o700), os.WriteFile(filepath.Join(copied, name), bytes, 0o600)); err != nil {
				t.Fatal(err)
			}
			checkRevived(t, copied, fmt.Sprintf("%s at byte %d of %d", what, n, len(journal)), want)
			if err := os.RemoveAll(copied); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// checkRevived starts on a damaged store: the state is the expected one, also after a change and another start.
func checkRevived(t *testing.T, dir, what string, want past) {
	t.Helper()
	o := openOnDisk(t, dir)
	if got := o.shown(); got != want.shown {
		t.Fatalf("%s: the topology is\n%s\nafter %q it was\n%s", what, got, want.request, want.shown)
	}
	o.must(`create toyfilter last <<< {"type":"TC"}`)
	now := o.shown()
	o.close()
	again := openOnDisk(t, dir)
	if got := again.shown(); got != now {
		t.Fatalf("%s, then a change, then a restart: the topology is\n%s\nwas\n%s", what, got, now)
	}
	again.close()
}
