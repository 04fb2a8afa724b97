// SPDX-License-Identifier: Apache-2.0

package classifier

// What the tests outside of the package use: they make rules with test/rulesets, which imports this package.

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

type Lab struct{ *lab }

func NewLab(t testing.TB) Lab { return Lab{newLab(t)} }

func (l Lab) Apply(c []Change) { l.t.Helper(); l.apply(c) }

func (l Lab) Edits(rng *rand.Rand, n int, fresh func() Match) []Change {
	return l.edits(rng, n, fresh)
}

// ApplyAndUndo is a transaction that fails behind this cube.
func (l Lab) ApplyAndUndo(c []Change) {
	l.t.Helper()
	plan, err := l.set.Prepare(c)
	if err == nil {
		err = plan.Commit()
	}
	if err == nil {
		err = plan.Undo()
	}
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

// Describe says how trees are.
func (l Lab) Describe() string {
	out := fmt.Sprintf("%6d blocks, %d trees:", l.set.blocks.next, len(l.set.trees))
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
