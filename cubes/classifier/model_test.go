// SPDX-License-Identifier: Apache-2.0

package classifier

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/polycube/polycube/sdf"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
	"github.com/polycube/polycube/test/repeat"
)

func TestModelAndCodeSayTheSame(t *testing.T) {
	modeltest.Match(t, modeltest.Load(t, modeltest.Service(t, files).Model), Config{})
}

func TestMapsAreLaidOutAsInC(t *testing.T) {
	for _, name := range []string{"classifier.tc.o", "classifier.xdp.o"} {
		object, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bpftest.Layout(t, object, "rules", row{})
		bpftest.Layout(t, object, "subscribers4", subscriber{})
		bpftest.Layout(t, object, "lists", sdf.List{})
	}
}

func TestExamplesOfTheReadme(t *testing.T) { bpftest.Readme(t, "README.md") }

// TestNumbersAreInTheOrderOfTheirRules, whatever comes and goes.
func TestNumbersAreInTheOrderOfTheirRules(t *testing.T) {
	r := rand.New(rand.NewPCG(repeat.Seed(t), 0))
	was, there := newRanks(), map[position]bool{}
	for round := range 200 {
		is := was.copied()
		for p := range there {
			if r.IntN(4) == 0 {
				is.of.Delete(p)
				delete(there, p)
			}
		}
		var fresh []position
		priority := r.Uint32N(3) * (math.MaxUint32 / 2)
		for range r.IntN(200) {
			p := positionOf(priority, uint32(round)<<10+r.Uint32N(1<<10))
			if !there[p] {
				fresh, there[p] = append(fresh, p), true
			}
		}
		numbers := map[position]uint32{}
		for _, p := range was.of.Keys() {
			numbers[p] = was.number(p)
		}
		moved := is.put(fresh)
		var last int64 = -1
		for _, p := range is.of.Keys() {
			n := is.number(p)
			if int64(n) <= last {
				t.Fatalf("round %d: %d follows %d", round, n, last)
			}
			if old, had := numbers[p]; had && old != n && !moved {
				t.Fatalf("round %d: %x moved from %d to %d", round, p, old, n)
			}
			last = int64(n)
		}
		if got := is.of.Len(); got != len(there) {
			t.Fatalf("round %d: %d positions, want %d", round, got, len(there))
		}
		for _, p := range was.of.Keys() {
			if was.number(p) != numbers[p] {
				t.Fatalf("round %d: the ranks before the change have changed", round)
			}
		}
		was = is
	}
}

// TestRulesAtOnePlaceFindRoom: each comes right before the one that was added last, until all have to move.
func TestRulesAtOnePlaceFindRoom(t *testing.T) {
	r, moves := newRanks(), 0
	r.put([]position{0, 1000})
	for p := position(999); p > 900; p-- {
		if r.put([]position{p}) {
			moves++
		}
	}
	keys := r.of.Keys()
	if moves < 1 || moves > 10 || !slices.IsSortedFunc(keys, func(a, b position) int { return int(int64(r.number(a)) - int64(r.number(b))) }) {
		t.Errorf("%d moves", moves)
	}
}
