// SPDX-License-Identifier: Apache-2.0

package nat

// Random packets and changes at TC and at native XDP, compared with an oracle: each packet has exactly the required
// fate, and the tables match the existing sessions. A sequence that fails is shortened as far as possible.

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/repeat"
)

// fuzzing is the amount of testing.
type fuzzing struct {
	sequences, length int
	until             time.Time
	forShrinking      time.Duration
}

func howMuch() fuzzing {
	switch {
	case os.Getenv("POLYCUBE_SOAK") != "":
		return fuzzing{math.MaxInt, 1500, time.Now().Add(time.Hour), 10 * time.Minute}
	case pace.Slow():
		return fuzzing{1, 150, time.Now().Add(time.Hour), time.Minute}
	}
	return fuzzing{5, 400, time.Now().Add(time.Hour), 30 * time.Second}
}

// rigs are where each sequence is done.
var rigs = []struct {
	typ  cube.Type
	live bool
}{{cube.TypeTC, false}, {cube.TypeXDPDRV, false}, {cube.TypeXDPDRV, true}}

func TestRandomPackets(t *testing.T) {
	t.Parallel()
	much, seed := howMuch(), repeat.Seed(t)
	all := make([]*rig, len(rigs))
	for i, where := range rigs {
		all[i] = newRig(t, where.typ, where.live)
	}
	alike := 0
	for n := 0; n < much.sequences && time.Now().Before(much.until); n++ {
		ops, start := drawOps(seed+uint64(n), much.length), drawBehaviour(seed+uint64(n))
		errs := make([]error, len(all))
		var doing sync.WaitGroup
		for i, r := range all {
			doing.Go(func() { errs[i] = r.run(start, ops) })
		}
		doing.Wait()
		for i, err := range errs {
			if err != nil {
				t.Fatalf("%s=%d: %v\n\n%s", repeat.Variable, seed+uint64(n), err, all[i].shrink(start, ops, time.Now().Add(much.forShrinking)))
			}
		}
		for _, r := range all[1:] {
			n, err := compareTrails(all[0], r)
			if alike += n; err != nil {
				t.Fatalf("%s=%d: %v", repeat.Variable, seed+uint64(n), err)
			}
		}
	}
	packets := 0
	for _, r := range all {
		t.Logf("%s:\n%s", r.name, r.summary())
		packets = max(packets, r.packets(""))
		if changed := r.packets("translated") + r.packets("opened"); changed < r.packets("")/4 {
			t.Errorf("%s: %d packets were translated: too few to prove anything", r.name, changed)
		}
	}
	t.Logf("%d packets were compared", alike)
	if alike < packets {
		t.Errorf("of %d packets, %d were compared with others of two: the hooks differ too much to prove anything", packets, alike)
	}
}

// shrink shortens a failing sequence, and returns its result.
func (r *rig) shrink(start Behaviour, ops []op, until time.Time) string {
	ops = ops[:slices.IndexFunc(ops, func(o op) bool { return o.id == r.doing.id })+1]
	err := r.run(start, ops)
	if err == nil {
		return "it did not happen again"
	}
	ops = slices.DeleteFunc(ops, func(o op) bool { // it referred to a packet that did not come out
		return slices.Contains(packets, o.verb) && !slices.ContainsFunc(r.trail, func(e trace) bool { return e.id == o.id })
	})
	short := repeat.Shrink(ops, until, func(some []op) bool { return r.run(start, some) != nil })
	if again := r.run(start, short); again != nil {
		err = again
	}
	lines := []string{fmt.Sprintf("%d of %d operations are enough, from %s on:", len(short), len(ops), start.body())}
	for _, o := range short {
		at := slices.IndexFunc(r.trail, func(e trace) bool { return e.id == o.id })
		if at < 0 {
			lines = append(lines, o.String())
		} else {
			lines = append(lines, r.trail[at].String())
		}
	}
	return strings.Join(lines, "\n") + "\nthey end with: " + err.Error()
}

// compareTrails compares the results of two rigs for the same frames, where both had to give the same. It returns the
// number of these frames.
func compareTrails(a, b *rig) (alike int, err error) {
	find := func(e trace) int {
		return slices.IndexFunc(b.trail, func(f trace) bool { return f.id == e.id && bytes.Equal(f.frame, e.frame) && f.want == e.want })
	}
	for _, e := range a.trail {
		at := find(e)
		if at < 0 {
			continue
		}
		alike++
		if f := b.trail[at]; f.fate != e.fate || !bytes.Equal(f.got, e.got) && e.fate[:2] == "f:" {
			return alike, fmt.Errorf("%s and %s do not do the same:\n%s\n%s", a.name, b.name, e, f)
		}
	}
	return alike, nil
}

// packets is the number of packets with this fate.
func (r *rig) packets(end string) (all int) {
	for how, n := range r.ends {
		if strings.HasPrefix(how, end) {
			all += n
		}
	}
	return all
}

// summary returns the number of packets by fate.
func (r *rig) summary() string {
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(r.ends)) {
		lines = append(lines, fmt.Sprintf("%7d %s", r.ends[k], k))
	}
	return strings.Join(lines, "\n")
}
