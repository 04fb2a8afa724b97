// SPDX-License-Identifier: Apache-2.0

package classifier

// Tries of prefixes, walked as classify_addresses.h walks them, against a list of prefixes.

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/polycube/polycube/test/repeat"
)

// trieLab is a trie in ordinary memory, and its expected content.
type trieLab struct {
	t        testing.TB
	six      bool
	trie     *trieNode
	edits    uint64
	blocks   map[uint32][]byte // that packets may read
	next     uint32
	prefixes map[netip.Prefix]bool
}

func newTrieLab(t testing.TB, six bool) *trieLab {
	return &trieLab{t: t, six: six, blocks: map[uint32][]byte{}, prefixes: map[netip.Prefix]bool{}}
}

// change adds prefixes that are not in the set, and removes those that are, all in one edit.
func (l *trieLab) change(all ...netip.Prefix) {
	l.t.Helper()
	l.edits++
	e := &trieEdit{number: l.edits}
	trie := l.trie
	for _, p := range all {
		is, six, err := prefixOf(p)
		if err != nil || six != l.six {
			l.t.Fatalf("%s: IPv6 is %v, want %v: %v", p, six, l.six, err)
		}
		do, other := e.add, e.remove
		if l.prefixes[p] {
			do, other = e.remove, e.add
		}
		if same, ok := other(trie, is); ok || same != trie {
			l.t.Fatalf("%s, which is in the set: %v: the opposite change of it is possible", p, l.prefixes[p])
		}
		var ok bool
		if trie, ok = do(trie, is); !ok {
			l.t.Fatalf("%s, which is in the set: %v: it cannot be changed", p, l.prefixes[p])
		}
		if l.prefixes[p] {
			delete(l.prefixes, p)
		} else {
			l.prefixes[p] = true
		}
	}
	made := 0
	trie.madeBy(e.number, func(n *trieNode) { l.next++; n.at = l.next; made++ })
	trie.madeBy(e.number, func(n *trieNode) {
		l.blocks[n.at] = slices.Repeat([]byte{0xa5}, blockSize)
		n.write(l.blocks[n.at])
	})
	if made != e.made {
		l.t.Fatalf("%d nodes are new, %d were counted", made, e.made)
	}
	l.trie = trie
	l.sound(e.gone)
}

// sound checks the form of the trie, and that every node of the one before is in this one, or was given back.
func (l *trieLab) sound(gone []uint32) {
	l.t.Helper()
	seen := map[uint32]bool{}
	var prefixes, nodes int
	var walk func(n *trieNode)
	walk = func(n *trieNode) {
		if n == nil {
			return
		}
		if seen[n.at] || n.at == 0 {
			l.t.Fatalf("block %d is in use twice, or none", n.at)
		}
		seen[n.at] = true
		if n.kids == nil {
			prefixes++
			return
		}
		nodes++
		below := len(n.ends)
		for _, x := range n.ends {
			walk(x)
		}
		for _, k := range n.kids {
			if walk(k); k != nil {
				below++
			}
		}
		if below < 2 {
			l.t.Fatalf("a node distinguishes %d prefixes", below)
		}
	}
	walk(l.trie)
	if prefixes != len(l.prefixes) || nodes >= max(prefixes, 1) {
		l.t.Fatalf("the trie has %d nodes for %d prefixes, want less than one for each of %d", nodes, prefixes, len(l.prefixes))
	}
	for _, at := range gone {
		if seen[at] || l.blocks[at] == nil {
			l.t.Fatalf("block %d was given back, but is in use: %v", at, seen[at])
		}
		delete(l.blocks, at)
	}
	for at := range l.blocks {
		if !seen[at] {
			l.t.Fatalf("block %d is lost", at)
		}
	}
}

// contains is pcn_classify_in_trie.
func (l *trieLab) contains(a netip.Addr) bool {
	p, _, _ := prefixOf(netip.PrefixFrom(a, a.BitLen()))
	reference := l.trie.reference()
	for range 32 {
		if reference&nodeReference == 0 {
			break
		}
		at := reference & (partBlocks - 1)
		reference = native.Uint32(l.blocks[at][4*p.value(uint8(reference>>nibbleShift&31)):])
	}
	if reference == 0 {
		return false
	}
	b := l.blocks[reference]
	return p.high&native.Uint64(b[16:]) == native.Uint64(b) && p.low&native.Uint64(b[24:]) == native.Uint64(b[8:])
}

// check compares the trie with the list, for addresses in prefixes, next to them, and others.
func (l *trieLab) check(rng *rand.Rand, addresses int) {
	l.t.Helper()
	all := slices.SortedFunc(maps.Keys(l.prefixes), func(a, b netip.Prefix) int { return a.Compare(b) })
	for range addresses {
		a := randomPrefix(rng, l.six).Addr()
		if len(all) > 0 && rng.IntN(8) > 0 {
			p := all[rng.IntN(len(all))]
			a = addressIn(rng, p)
		}
		switch rng.IntN(4) {
		case 0:
			if next := a.Next(); next.IsValid() {
				a = next
			}
		case 1:
			if prev := a.Prev(); prev.IsValid() {
				a = prev
			}
		}
		want := slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(a) })
		if got := l.contains(a); got != want {
			l.t.Fatalf("%s is in the trie: %v, want %v; the prefixes are %v", a, got, want, all)
		}
	}
}

// addressIn is the first address of a prefix, the last, or any.
func addressIn(rng *rand.Rand, p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	how := rng.IntN(3)
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		if how == 1 || how == 2 && rng.IntN(2) == 0 {
			b[bit/8] |= 0x80 >> (bit % 8)
		}
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// randomPrefix is a prefix of any length, with few different bits, so that prefixes contain others and share nibbles.
func randomPrefix(rng *rand.Rand, six bool) netip.Prefix {
	b := make([]byte, 4)
	if six {
		b = make([]byte, 16)
	}
	for range rng.IntN(4) {
		b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
	}
	if rng.IntN(3) == 0 {
		binary.NativeEndian.PutUint32(b[len(b)-4:], rng.Uint32())
	}
	a, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(a, rng.IntN(len(b)*8+1)).Masked()
}

func TestATrieContainsWhatItsPrefixesContain(t *testing.T) {
	seed := repeat.Seed(t)
	for _, six := range []bool{false, true} {
		t.Run(fmt.Sprintf("IPv6 %v", six), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			l := newTrieLab(t, six)
			l.check(rng, 10)
			for range 1500 {
				var some []netip.Prefix
				for range 1 + rng.IntN(6)*rng.IntN(6) {
					some = append(some, randomPrefix(rng, six))
				}
				l.change(some...)
				l.check(rng, 10)
				if len(l.prefixes) > 300 {
					l.change(slices.Collect(maps.Keys(l.prefixes))[:280]...)
				}
			}
			l.change(slices.Collect(maps.Keys(l.prefixes))...)
			if l.trie != nil || len(l.blocks) != 0 {
				t.Errorf("an empty set has %d blocks", len(l.blocks))
			}
		})
	}
}

func TestInvalidPrefixesAreRefused(t *testing.T) {
	s := NewAddresses(nil, "s")
	for _, p := range []netip.Prefix{{}, netip.MustParsePrefix("10.0.0.1/8"), netip.MustParsePrefix("::ffff:10.0.0.0/120"),
		netip.PrefixFrom(netip.MustParseAddr("10.0.0.1"), 33)} {
		if _, err := s.Prepare([]AddressChange{{Prefix: p}}); err == nil {
			t.Errorf("%s is accepted", p)
		}
	}
	if s.Len() != 0 {
		t.Errorf("the set has %d prefixes, want none", s.Len())
	}
}

// FuzzPrefixes derives changes of a trie from bytes.
func FuzzPrefixes(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 8, 10, 0, 0, 0}, uint64(1), false)
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, uint64(2), true)
	f.Fuzz(func(t *testing.T, data []byte, seed uint64, six bool) {
		rng := rand.New(rand.NewPCG(seed, 0))
		l := newTrieLab(t, six)
		for len(data) >= 6 {
			b := make([]byte, map[bool]int{false: 4, true: 16}[six])
			copy(b, data[2:6])
			b[len(b)-1] ^= data[2] & 3
			a, _ := netip.AddrFromSlice(b)
			l.change(netip.PrefixFrom(a, int(data[1])%(len(b)*8+1)).Masked())
			l.check(rng, 6)
			data = data[6:]
		}
	})
}
