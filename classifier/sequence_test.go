// SPDX-License-Identifier: Apache-2.0

package classifier

// Sequences of groups: rules on wide ranges of ports, which no branch divides. Which groups a packet searches depends
// on the boxes around their rules.

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/polycube/polycube/test/repeat"
)

// wide returns a rule on ranges of both ports, which contain the middle.
func wide(rng *rand.Rand) Match {
	var m Match
	for _, set := range []func(first, last uint16) error{m.SourcePorts, m.DestinationPorts} {
		if err := set(uint16(rng.IntN(1<<15)), 1<<15+uint16(rng.IntN(1<<15))); err != nil {
			panic(err)
		}
	}
	return m
}

// corner returns a packet whose ports are near the ends, so that few rules match.
func corner(rng *rand.Rand) *Key {
	port := func() uint64 {
		p := uint64(1<<rng.IntN(16)) + rng.Uint64N(1<<rng.IntN(16))
		if rng.IntN(2) == 0 {
			p = 0xffff - p
		}
		return p & 0xffff
	}
	return &Key{wordLink: 0x0800<<16 | kindIP | kindProtocol | kindPorts, wordPorts: port()<<48 | port()<<32}
}

// sequence returns the longest sequence, and the block with its header.
func (l *lab) sequence() (longest *node, at uint32) {
	l.t.Helper()
	var walk func(n *node, block uint32)
	walk = func(n *node, block uint32) {
		if n.sequence && (longest == nil || len(n.kids) > len(longest.kids)) {
			longest, at = n, block
		}
		for i, k := range n.kids {
			walk(k, n.at+uint32(i))
		}
	}
	for _, t := range l.set.trees {
		walk(t.root, t.at)
	}
	if longest == nil {
		l.t.Fatalf("%d rules have no sequence", len(l.rules))
	}
	return longest, at
}

// covered checks that a packet at the edge of any rule searches the group of that rule.
func (l *lab) covered(rng *rand.Rand) {
	l.t.Helper()
	b, _ := l.heap.where()
	n, at := l.sequence()
	edge := func(p ports) uint64 { return uint64([]uint16{p.first, p.last}[rng.IntN(2)]) }
	for i, kid := range n.kids {
		for _, r := range kid.rules {
			k := corner(rng)
			k[wordPorts] = edge(r.source)<<48 | edge(r.destination)<<32
			if !b.mayContain(b.at(at), k, uint32(i)) {
				l.t.Fatalf("packet %x does not search group %d of %d, which has a rule for it", k[wordPorts], i, len(n.kids))
			}
		}
	}
}

func TestASequenceOfAnyLengthFindsWhatALinearSearchFinds(t *testing.T) {
	seed := repeat.Seed(t)
	// The last one has more groups than there are bits.
	sizes := []struct{ rules, bits int }{{600, 4}, {10_000, 4}, {14_000, 2}, {26_000, 1}, {60_000, 1}}
	for _, size := range sizes {
		t.Run(fmt.Sprint(size.rules), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, uint64(size.rules)))
			l := newLab(t)
			var all []Change
			for i := range size.rules {
				all = append(all, Change{Order: uint32(i), Rule: &Rule{Match: wide(rng), Result: uint32(i)}})
			}
			l.apply(all)
			n, _ := l.sequence()
			if bits := 1 << n.bitShift(); bits != size.bits {
				t.Errorf("%d groups have %d bits each, not %d", len(n.kids), bits, size.bits)
			}
			for range 10 {
				l.apply(l.edits(rng, 1, func() Match { return wide(rng) }))
				if err := l.tight(); err != nil {
					t.Fatal(err)
				}
				for range 20 {
					l.check(corner(rng))
				}
			}
			l.covered(rng)
		})
	}
}

// TestAPacketSearchesFewGroups counts the groups that packets without a match search.
func TestAPacketSearchesFewGroups(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	l := newLab(t)
	var all []Change
	for i := range 10_000 {
		all = append(all, Change{Order: uint32(i), Rule: &Rule{Match: wide(rng), Result: uint32(i)}})
	}
	l.apply(all)
	b, _ := l.heap.where()
	n, at := l.sequence()
	packets, sum := 0, 0
	for packets < 100 {
		k := corner(rng)
		if _, _, ok := l.find(k); ok {
			continue
		}
		packets++
		for i := range n.kids {
			if b.mayContain(b.at(at), k, uint32(i)) {
				sum++
			}
		}
	}
	if sum > 20*packets {
		t.Errorf("a packet without a match searches %d of %d groups on average, more than 20", sum/packets, len(n.kids))
	}
}

func TestASequenceThatLosesItsRulesMatchesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	l := newLab(t)
	var all []Change
	for i := range 600 {
		all = append(all, Change{Order: uint32(i), Rule: &Rule{Match: wide(rng), Result: uint32(i)}})
	}
	l.apply(all)
	l.sequence()
	for i := range 600 {
		l.apply([]Change{{Order: uint32(i)}})
		l.check(corner(rng))
		l.check(&Key{wordLink: 0x0800<<16 | kindIP | kindProtocol | kindPorts, wordPorts: 1<<63 | 1<<47})
	}
	if err := l.tight(); err != nil {
		t.Error(err)
	}
}

func TestAnEmptySequenceIsAnEmptyLeaf(t *testing.T) {
	r := &rule{Rule: &Rule{}, order: 1, box: everything()}
	var e edit
	left := e.without(&node{sequence: true, kids: []*node{{rules: []*rule{r}}}}, r)
	if left.sequence || left.kids != nil || left.rules != nil {
		t.Errorf("what is left is %+v", left)
	}
}

// TestAColumnIsNoDeeperThanASearch has as many ranges as 256 rules can make.
func TestAColumnIsNoDeeperThanASearch(t *testing.T) {
	rules := make([]*rule, groupRules)
	for i := range rules {
		var m Match
		if err := m.SourcePorts(uint16(i+1), uint16(65534-i)); err != nil {
			t.Fatal(err)
		}
		rules[i] = &rule{Rule: &Rule{Match: m}, order: uint32(i), box: m.box()}
	}
	g := newGroup(rules)
	if len(g.columns) == 0 {
		t.Fatal("there are no columns")
	}
	for _, c := range g.columns {
		if levels := len(c.levels()); levels > columnDepth {
			t.Errorf("%d ranges have %d levels, more than the %d of a search", len(c.ends)+1, levels, columnDepth)
		}
	}
}

// FuzzSequence edits rules of which most are wide, so that there is a sequence, and others change the boxes of its groups.
func FuzzSequence(f *testing.F) {
	f.Add(uint64(1), uint16(300), []byte("some rules"))
	f.Add(uint64(2), uint16(700), []byte("\x03\x60\xff\x7f"))
	f.Fuzz(func(t *testing.T, seed uint64, rules uint16, data []byte) {
		rng := rand.New(rand.NewPCG(seed, 0))
		l := newLab(t)
		next := func() Match {
			if len(data) > 0 && rng.IntN(8) == 0 {
				return fuzzedWithout(&data, rng, 0)
			}
			return wide(rng)
		}
		l.apply(l.edits(rng, int(rules%1000), next))
		for range 4 {
			l.apply(l.edits(rng, 1+rng.IntN(20), next))
			if err := l.tight(); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				l.check(corner(rng))
				k := keyIn(l, rng)
				l.check(&k)
			}
		}
	})
}
