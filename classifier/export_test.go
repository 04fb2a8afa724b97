// SPDX-License-Identifier: Apache-2.0

package classifier

// Used by tests outside of the package: they create rules with test/rulesets, which imports this package.

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

type Lab struct{ *lab }

func NewLab(t testing.TB) Lab { return Lab{newLab(t)} }

func (l Lab) Apply(c []Change) { l.t.Helper(); l.apply(c) }

func (l Lab) Edits(rng *rand.Rand, n int, fresh func() Match) []Change {
	return l.edits(rng, n, fresh)
}

// ApplyAndUndo is a transaction that fails after this cube.
func (l Lab) ApplyAndUndo(c []Change) {
	l.t.Helper()
	plan, err := l.prepare(c)
	var done cube.Undo
	if err == nil {
		err = cube.Carry(plan.Before, &done)
	}
	if err == nil {
		err = done.Run()
	}
	l.after = nil
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l Lab) CheckFrame(inPort uint16, frame []byte) {
	l.t.Helper()
	k, ok := KeyOf(frame, inPort, 0)
	if !ok {
		l.t.Fatalf("frame %x has no key", frame)
	}
	l.check(&k)
}

func (l Lab) Tight() {
	l.t.Helper()
	if err := l.tight(); err != nil {
		l.t.Fatal(err)
	}
}

// Describe returns properties of the trees.
func (l Lab) Describe() string {
	out := fmt.Sprintf("%6d blocks, %d trees:", l.set.blocks.count()-l.set.blocks.left(), len(l.set.trees))
	for _, t := range l.set.trees {
		var leaves, refs, deep, most, weight int
		var walk func(n *node, depth int)
		walk = func(n *node, depth int) {
			if n.kids == nil {
				leaves++
				refs += len(n.rules)
				weight += len(n.rules) * len(n.rules)
				deep, most = max(deep, depth), max(most, len(n.rules))
			}
			for _, k := range n.kids {
				walk(k, depth+1)
			}
		}
		walk(t.root, 0)
		out += fmt.Sprintf(" [%d rules, %d refs in %d leaves, at most %d, mean %.1f, depth %d]", t.rules, refs, leaves, most, float64(weight)/float64(max(refs, 1)), deep)
	}
	return out
}

// Work is about how many rules and branches a packet of a rule meets: the mean over rules and trees.
func (l Lab) Work() (branches, rules, most float64) {
	for _, t := range l.set.trees {
		var refs, depths, weight float64
		var walk func(n *node, depth int)
		walk = func(n *node, depth int) {
			if n.kids == nil {
				refs += float64(len(n.rules))
				depths += float64(depth * len(n.rules))
				weight += float64(len(n.rules) * len(n.rules))
				most = max(most, float64(len(n.rules)))
			}
			for _, k := range n.kids {
				walk(k, depth+1)
			}
		}
		walk(t.root, 0)
		branches += depths / max(refs, 1)
		rules += weight / max(refs, 1)
	}
	return branches, rules, most
}

// Edited contains the costs of one edit.
type Edited struct {
	CPU    time.Duration // of this thread, in the compiler
	Blocks int           // that were written
	Anew   bool          // all was compiled while the request waited
	Taken  bool          // trees rebuilt in the background replaced the others
}

// Edit carries one change out and measures it. It is for a goroutine that is locked to its thread.
func (l Lab) Edit(c Change) Edited {
	l.t.Helper()
	m, was := l.set.making, l.set.home
	begin := cpuTime(l.t)
	plan, err := l.prepare([]Change{c})
	n := l.set.prepared
	if err == nil {
		err = cube.Carry(plan.Before, nil)
	}
	took := Edited{CPU: cpuTime(l.t) - begin}
	if err != nil {
		l.t.Fatal(err)
	}
	if n.draft != nil {
		took.Blocks = sum(n.draft.taken)
	}
	took.Taken = l.set.home != was && m != nil && l.set.home == m.home
	took.Anew = l.set.home != was && !took.Taken
	if c.Rule == nil {
		delete(l.rules, c.Order)
	} else {
		l.rules[c.Order] = *c.Rule
	}
	return took
}

// WearOut makes the trees look as if many rules had been edited, so that they are rebuilt soon.
func (l Lab) WearOut(edits int) { l.set.edits += edits }

// Await waits until no background rebuild is running.
func (l Lab) Await() {
	if l.set.making != nil {
		<-l.set.making.done
	}
}

// Close frees the memory.
func (l Lab) Close() {
	l.t.Helper()
	if err := l.set.Close(); err != nil {
		l.t.Error(err)
	}
	if open := l.heap.open.Load(); open != 0 {
		l.t.Errorf("%d memories are open after Close", open)
	}
}

func cpuTime(t testing.TB) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}
