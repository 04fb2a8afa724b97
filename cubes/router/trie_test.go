// SPDX-License-Identifier: Apache-2.0

package router

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/repeat"
)

// reference is a table of routes that is looked through from the longest prefix on.
type reference map[netip.Prefix]uint32

func (r reference) parent(p netip.Prefix) (netip.Prefix, uint32) {
	for bits := p.Bits() - 1; bits >= 0; bits-- {
		shorter := netip.PrefixFrom(p.Addr(), bits).Masked()
		if hop, ok := r[shorter]; ok {
			return shorter, hop
		}
	}
	return netip.Prefix{}, 0
}

func (r reference) lookup(a netip.Addr) uint32 {
	if hop, ok := r[netip.PrefixFrom(a, a.BitLen())]; ok {
		return hop
	}
	_, hop := r.parent(netip.PrefixFrom(a, a.BitLen()))
	return hop
}

// memoryStore keeps the state that packets see, and refuses writes when told to.
type memoryStore struct {
	root, chunks map[uint32]chunkEntry
	fail         bool
}

func (m *memoryStore) put(into map[uint32]chunkEntry, numbers []uint32, chunks []chunkEntry) error {
	for i, n := range numbers {
		if m.fail {
			return cube.ErrFull
		}
		into[n] = chunks[i]
	}
	return nil
}

func (m *memoryStore) writeRoot(numbers []uint32, chunks []chunkEntry) error {
	return m.put(m.root, numbers, chunks)
}

func (m *memoryStore) writeChunks(numbers []uint32, chunks []chunkEntry) error {
	return m.put(m.chunks, numbers, chunks)
}

// lookup is that of the program.
func (m *memoryStore) lookup(a netip.Addr) uint32 {
	b := a.As4()
	x := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	e := m.root[x>>20].Entry[x>>16&15]
	for shift := 12; e&follows != 0; shift -= 4 {
		e = m.chunks[e&^follows].Entry[x>>shift&15]
	}
	if e == 0 {
		e = m.root[rootChunks].Entry[0]
	}
	return e
}

// boundary returns the addresses at the ends of a prefix and next to them.
func boundary(p netip.Prefix) []netip.Addr {
	last := p.Addr()
	if p.Addr().Is4() {
		last = broadcast(p)
	}
	out := []netip.Addr{p.Addr(), last}
	if a := p.Addr().Prev(); a.IsValid() {
		out = append(out, a)
	}
	if a := last.Next(); a.IsValid() {
		out = append(out, a)
	}
	return out
}

// randomPrefix returns a prefix of few values, so that prefixes are nested.
func randomPrefix(rnd *rand.Rand) netip.Prefix {
	a := [4]byte{byte(10 + rnd.IntN(2)), byte(rnd.IntN(3)), byte(rnd.IntN(4) * 0x55), byte(rnd.IntN(256))}
	return netip.PrefixFrom(netip.AddrFrom4(a), rnd.IntN(33)).Masked()
}

func TestTheTrieFindsTheLongestPrefix(t *testing.T) {
	seed := repeat.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	tr, store, want := newTrie(), &memoryStore{root: map[uint32]chunkEntry{}, chunks: map[uint32]chunkEntry{}}, reference{}
	tr.store = store
	var known []netip.Prefix
	for i := range 4000 {
		p := randomPrefix(rnd)
		if rnd.IntN(3) > 0 || len(known) == 0 {
			hop := uint32(1 + rnd.IntN(9))
			want[p] = hop
			known = append(known, p)
			if err := tr.set(p, hop); err != nil {
				t.Fatal(err)
			}
		} else {
			p = known[rnd.IntN(len(known))]
			if _, ok := want[p]; !ok {
				continue
			}
			delete(want, p)
			parent, hop := want.parent(p)
			tr.unset(p, parent, hop)
		}
		if store.fail = rnd.IntN(10) == 0; store.fail {
			if err := tr.flush(); err != nil && !errors.Is(err, cube.ErrFull) {
				t.Fatal(err)
			}
			store.fail = false
		}
		if err := tr.flush(); err != nil {
			t.Fatal(err)
		}
		for _, a := range append(boundary(p), boundary(randomPrefix(rnd))...) {
			if got := store.lookup(a); got != want.lookup(a) || tr.lookup(a) != got {
				t.Fatalf("change %d, %s: %s leads to %d and %d, want %d", i, p, a, got, tr.lookup(a), want.lookup(a))
			}
		}
	}
	for p := range want {
		delete(want, p)
		parent, hop := want.parent(p)
		tr.unset(p, parent, hop)
	}
	if err := tr.flush(); err != nil || tr.size() != 0 {
		t.Errorf("%d chunks are left without routes, %v", tr.size(), err)
	}
	for _, c := range store.root {
		if c != (chunkEntry{}) {
			t.Fatalf("the root has %v without routes", c)
		}
	}
}

// While chunks are written one by one, packets see the route before or the one after.
func TestAChangeIsSeenBeforeOrAfter(t *testing.T) {
	tr, store := newTrie(), &memoryStore{root: map[uint32]chunkEntry{}, chunks: map[uint32]chunkEntry{}}
	watched := netip.MustParseAddr("10.1.2.3")
	var allowed map[uint32]bool
	tr.store = watcher{store, func() {
		if got := store.lookup(watched); !allowed[got] {
			t.Fatalf("a packet finds %d, want one of %v", got, allowed)
		}
	}}
	want := reference{}
	for _, step := range []struct {
		prefix string
		hop    uint32
	}{
		{"10.0.0.0/8", 1}, {"10.1.2.3/32", 2}, {"10.1.2.0/24", 3}, {"10.1.0.0/16", 4}, {"10.1.2.3/32", 0}, {"10.1.2.0/25", 5},
		{"10.1.2.0/24", 0}, {"10.1.2.0/25", 0}, {"10.1.0.0/16", 0}, {"0.0.0.0/0", 6}, {"10.0.0.0/8", 0}, {"0.0.0.0/0", 0},
	} {
		p := netip.MustParsePrefix(step.prefix)
		before := want.lookup(watched)
		want[p] = step.hop
		if step.hop == 0 {
			delete(want, p)
		}
		allowed = map[uint32]bool{before: true, want.lookup(watched): true}
		if step.hop != 0 {
			if err := tr.set(p, step.hop); err != nil {
				t.Fatal(err)
			}
		} else {
			parent, hop := want.parent(p)
			tr.unset(p, parent, hop)
		}
		if err := tr.flush(); err != nil {
			t.Fatal(err)
		}
		if got := store.lookup(watched); got != want.lookup(watched) {
			t.Fatalf("after %s it leads to %d, want %d", step.prefix, got, want.lookup(watched))
		}
	}
}

// watcher is called after each chunk is written.
type watcher struct {
	*memoryStore
	look func()
}

func (w watcher) writeRoot(numbers []uint32, chunks []chunkEntry) error {
	for i := range numbers {
		_ = w.memoryStore.writeRoot(numbers[i:i+1], chunks[i:i+1])
		w.look()
	}
	return nil
}

func (w watcher) writeChunks(numbers []uint32, chunks []chunkEntry) error {
	for i := range numbers {
		_ = w.memoryStore.writeChunks(numbers[i:i+1], chunks[i:i+1])
		w.look()
	}
	return nil
}
