// SPDX-License-Identifier: Apache-2.0

package classifier_test

// Ten thousand rules, edited one by one for long: the cost of an edit is limited for every shape, even after long use
// of the memory and during rebuilds.

import (
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/test/rulesets"
)

const (
	manyRules = 10000
	// longestEdit is the promised limit of one edit among that many rules.
	longestEdit = 50 * time.Millisecond
	// mostBlocks is an eighth of the largest memory: the limit of an edit's writes.
	mostBlocks = 1 << 18 / 8
)

// editor changes rules at random places, around a number of them.
type editor struct {
	*rand.Rand
	classifier.Lab
	shape   string
	matches []classifier.Match
	orders  []uint32
	used    map[uint32]bool
}

// newEditor is a set of a shape's rules, wide ones among them, and edits of it.
func newEditor(t testing.TB, shape string, seed uint64) *editor {
	e := &editor{Rand: rand.New(rand.NewPCG(seed, 2)), Lab: classifier.NewLab(t), shape: shape, used: map[uint32]bool{}}
	for _, r := range rulesets.Make(shape, 2*manyRules, seed) {
		e.matches = append(e.matches, r.Match())
	}
	var all []classifier.Change
	for range manyRules {
		all = append(all, e.fresh(e.order()))
	}
	e.Apply(all)
	return e
}

// order is a new place among the rules.
func (e *editor) order() uint32 {
	at := e.Uint32()
	for at > classifier.MaxOrder || e.used[at] {
		at = e.Uint32()
	}
	e.used[at] = true
	e.orders = append(e.orders, at)
	return at
}

// fresh is a rule at a place: one of the shape or, now and then, one on nearly all packets.
func (e *editor) fresh(order uint32) classifier.Change {
	m := e.matches[e.IntN(len(e.matches))]
	if e.IntN(500) == 0 {
		m = classifier.Match{}
		m.Protocol(uint8(e.IntN(20)))
		if err := m.SourcePorts(uint16(e.IntN(1000)), 65535); err != nil {
			panic(err)
		}
	}
	return classifier.Change{Order: order, Rule: &classifier.Rule{Match: m, Result: e.Uint32()}}
}

// next is a rule that is added, changed or removed.
func (e *editor) next() classifier.Change {
	at := e.IntN(len(e.orders))
	order := e.orders[at]
	switch what := e.IntN(3); {
	case len(e.orders) > manyRules+100, what == 0 && len(e.orders) > manyRules-100:
		last := len(e.orders) - 1
		e.orders[at] = e.orders[last]
		e.orders = e.orders[:last]
		delete(e.used, order)
		return classifier.Change{Order: order}
	case what == 1:
		return e.fresh(order)
	}
	return e.fresh(e.order())
}

func TestNoEditAmongManyRulesMakesAllAnew(t *testing.T) {
	seed := repeat.Seed(t)
	edits := 1500
	if os.Getenv("POLYCUBE_SOAK") != "" {
		edits = 100000
	}
	for _, shape := range rulesets.Shapes {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			e := newEditor(t, shape, seed)
			defer e.Close()
			e.WearOut(max(0, manyRules/2-edits/3)) // rebuilt trees are activated in between
			packets := rulesets.NewPackets(rulesets.Make(shape, 100, seed), 4, seed)
			taken := 0
			for i := range edits {
				took := e.Edit(e.next())
				if took.Anew {
					t.Fatalf("edit %d makes all anew", i)
				}
				if took.Blocks > mostBlocks {
					t.Errorf("edit %d writes %d blocks, more than %d", i, took.Blocks, mostBlocks)
				}
				if took.Taken {
					taken++
				}
				if i%50 == 49 {
					e.Await()
				}
				if i%(edits/8) == 0 {
					e.Tight()
					for range 10 {
						p := packets.Next()
						e.CheckFrame(p.InPort, p.Frame)
					}
				}
			}
			e.Tight()
			if taken == 0 {
				t.Error("no trees were made beside the work")
			}
		})
	}
}

// TestTimedEveryEditAmongManyRulesIsShort compares the thread's computing time for each edit with the promised limit.
// If the machine takes the CPU away for a while, a run of edits looks long: it is repeated with the same rules.
func TestTimedEveryEditAmongManyRulesIsShort(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	edits := 2500
	if os.Getenv("POLYCUBE_SOAK") != "" {
		edits = 50000
	}
	for _, shape := range rulesets.Shapes {
		var longest time.Duration
		for attempt := range 3 {
			if longest = longestOf(t, shape, edits); longest <= longestEdit {
				break
			}
			t.Logf("%s: attempt %d: the longest of %d edits takes %v", shape, attempt, edits, longest)
		}
		if longest > longestEdit {
			t.Errorf("%s: the longest of %d edits takes %v, more than %v, each time", shape, edits, longest, longestEdit)
		}
	}
}

func longestOf(t *testing.T, shape string, edits int) (longest time.Duration) {
	e := newEditor(t, shape, 1)
	defer e.Close()
	e.WearOut(max(0, manyRules/2-edits/3))
	var sum time.Duration
	taken := 0
	for i := range edits {
		if i == edits/2 {
			e.Await()
		}
		took := e.Edit(e.next())
		if took.Anew {
			t.Errorf("%s: edit %d makes all anew", shape, i)
		}
		longest = max(longest, took.CPU)
		sum += took.CPU
		if took.Taken {
			taken++
		}
	}
	t.Logf("%s: %d edits take %v on the average, %v at most; new trees came %d times", shape, edits, sum/time.Duration(edits), longest, taken)
	return longest
}
