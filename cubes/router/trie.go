// SPDX-License-Identifier: Apache-2.0

package router

// The IPv4 routes in the fast path: a trie of 16 bits, then four and four, in arrays. A packet needs one load per
// existing level, where the kernel's LPM trie has a node for each bit or two. An entry contains the result for its
// addresses, so a lookup never backtracks; the result of a short prefix is also written to the gaps between longer
// ones. Packets see an entry before or after a change, and never an incomplete chunk.

import (
	"net/netip"
	"time"
)

const (
	chunkEntries = 16
	rootChunks   = 4096
	// follows marks an entry that is the number of a chunk: ROUTER_CHUNK_FOLLOWS.
	follows uint32 = 1 << 31
	// pageChunks is the number of chunks per page, maxPages the maximum number of pages.
	pageChunks = 4096
	maxPages   = 1024
)

// chunkEntry is struct router_chunk.
type chunkEntry struct{ Entry [chunkEntries]uint32 }

// chunk is a chunk in memory. lengths are the lengths of the prefixes that entries come from, plus 1; 0: no prefix.
type chunk struct {
	chunkEntry
	lengths [chunkEntries]uint8
}

// trieStore is the storage of chunks for packets.
type trieStore interface {
	// writeRoot and writeChunks write chunks by number; the root's last one has the default route.
	writeRoot(numbers []uint32, chunks []chunkEntry) error
	writeChunks(numbers []uint32, chunks []chunkEntry) error
}

// trie is the whole trie.
type trie struct {
	store    trieStore
	root     []chunk
	chunks   []*chunk
	ids      ids
	fallback uint32
	// fresh chunks are in use and not written yet, dirty ones have changed; freed ones are no longer in use.
	fresh, dirty, dirtyRoot map[uint32]bool
	freed                   []uint32
	// held prevents writing, until everything that a previous run of the cube knew is known again.
	held bool
}

func newTrie() *trie {
	return &trie{
		root: make([]chunk, rootChunks+1), ids: ids{what: "parts of the table of routes", limit: pageChunks * maxPages, now: time.Now},
		fresh: map[uint32]bool{}, dirty: map[uint32]bool{}, dirtyRoot: map[uint32]bool{},
	}
}

// spot is a position in the trie: an entry of a chunk, and the number of bits that lead there.
type spot struct {
	c      *chunk
	number uint32
	root   bool
	at     int
	bits   int
}

func (t *trie) touch(s spot) {
	switch {
	case s.root:
		t.dirtyRoot[s.number] = true
	case !t.fresh[s.number]:
		t.dirty[s.number] = true
	}
}

// below returns the chunk that an entry refers to, or nil.
func (t *trie) below(s spot) (*chunk, uint32) {
	e := s.c.Entry[s.at]
	if e&follows == 0 {
		return nil, 0
	}
	return t.chunks[e&^follows], e &^ follows
}

// grow inserts a chunk below an entry, with the entry's value in all of its own.
func (t *trie) grow(s spot) error {
	n, err := t.ids.take()
	if err != nil {
		return err
	}
	c := &chunk{}
	for i := range c.Entry {
		c.Entry[i], c.lengths[i] = s.c.Entry[s.at], s.c.lengths[s.at]
	}
	for int(n) >= len(t.chunks) {
		t.chunks = append(t.chunks, nil)
	}
	t.chunks[n] = c
	t.fresh[n] = true
	s.c.Entry[s.at], s.c.lengths[s.at] = follows|n, 0
	t.touch(s)
	return nil
}

// covered calls fn with the entries of a prefix, and those above them, uppermost first. Missing chunks are created if
// make is set.
func (t *trie) covered(p netip.Prefix, make bool, fn func(s spot)) (way []spot, err error) {
	b := p.Addr().As4()
	a := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	if p.Bits() <= 16 {
		first := a >> 16
		for i := first; i < first+1<<(16-p.Bits()); i++ {
			fn(spot{&t.root[i>>4], i >> 4, true, int(i & 15), 16})
		}
		return nil, nil
	}
	s := spot{&t.root[a>>20], a >> 20, true, int(a >> 16 & 15), 16}
	for s.bits < p.Bits() {
		way = append(way, s)
		c, n := t.below(s)
		if c == nil {
			if !make {
				return way[:len(way)-1], nil
			}
			if err := t.grow(s); err != nil {
				return nil, err
			}
			c, n = t.below(s)
		}
		s = spot{c, n, false, int(a >> (28 - s.bits) & 15), s.bits + 4}
	}
	for i := range 1 << (s.bits - p.Bits()) {
		fn(spot{s.c, s.number, false, s.at + i, s.bits})
	}
	return way, nil
}

// leaves calls fn for an entry, or for those below it.
func (t *trie) leaves(s spot, fn func(s spot)) {
	c, n := t.below(s)
	if c == nil {
		fn(s)
		return
	}
	for i := range chunkEntries {
		t.leaves(spot{c, n, false, i, s.bits + 4}, fn)
	}
}

// set maps a prefix to a next hop.
func (t *trie) set(p netip.Prefix, hop uint32) error {
	if p.Bits() == 0 {
		t.setFallback(hop)
		return nil
	}
	length := uint8(p.Bits()) + 1
	_, err := t.covered(p, true, func(s spot) {
		t.leaves(s, func(s spot) {
			if s.c.lengths[s.at] > length || s.c.lengths[s.at] == length && s.c.Entry[s.at] == hop {
				return
			}
			s.c.Entry[s.at], s.c.lengths[s.at] = hop, length
			t.touch(s)
		})
	})
	return err
}

func (t *trie) setFallback(hop uint32) {
	t.fallback = hop
	t.root[rootChunks].Entry[0] = hop
	t.dirtyRoot[rootChunks] = true
}

// unset removes a prefix. Its addresses get the result of parent, the next shorter prefix, if there is one other than
// the default route.
func (t *trie) unset(p netip.Prefix, parent netip.Prefix, hop uint32) {
	if p.Bits() == 0 {
		t.setFallback(0)
		return
	}
	length, shorter := uint8(p.Bits())+1, uint8(0)
	if parent.IsValid() && parent.Bits() > 0 {
		shorter = uint8(parent.Bits()) + 1
	} else {
		hop = 0
	}
	way, _ := t.covered(p, false, func(s spot) { // nothing is created, so nothing can fail
		t.leaves(s, func(s spot) {
			if s.c.lengths[s.at] == length {
				s.c.Entry[s.at], s.c.lengths[s.at] = hop, shorter
				t.touch(s)
			}
		})
	})
	for i := len(way) - 1; i >= 0; i-- {
		if !t.prune(way[i]) {
			return
		}
	}
}

// prune removes the chunk below an entry if no prefix is longer than the entry.
func (t *trie) prune(s spot) bool {
	c, n := t.below(s)
	if c == nil {
		return true
	}
	for i := range chunkEntries {
		if c.Entry[i]&follows != 0 || c.lengths[i] != c.lengths[0] || int(c.lengths[i]) > s.bits+1 {
			return false
		}
	}
	s.c.Entry[s.at], s.c.lengths[s.at] = c.Entry[0], c.lengths[0]
	t.touch(s)
	t.chunks[n] = nil
	delete(t.dirty, n)
	if t.fresh[n] {
		delete(t.fresh, n)
	}
	t.freed = append(t.freed, n)
	return true
}

// flush writes changes: first entries that packets cannot reach yet. If it fails, the rest is written the next time.
func (t *trie) flush() error {
	if t.held {
		return nil
	}
	for _, set := range []map[uint32]bool{t.fresh, t.dirty} {
		if err := t.write(set, t.store.writeChunks, func(n uint32) *chunk { return t.chunks[n] }); err != nil {
			return err
		}
	}
	if err := t.write(t.dirtyRoot, t.store.writeRoot, func(n uint32) *chunk { return &t.root[n] }); err != nil {
		return err
	}
	for _, n := range t.freed {
		t.ids.give(n)
	}
	t.freed = t.freed[:0]
	return nil
}

func (t *trie) write(set map[uint32]bool, to func([]uint32, []chunkEntry) error, get func(uint32) *chunk) error {
	if len(set) == 0 {
		return nil
	}
	numbers := make([]uint32, 0, len(set))
	chunks := make([]chunkEntry, 0, len(set))
	for n := range set {
		numbers = append(numbers, n)
		chunks = append(chunks, get(n).chunkEntry)
	}
	if err := to(numbers, chunks); err != nil {
		return err
	}
	clear(set)
	return nil
}

// release writes all of a held trie.
func (t *trie) release() error {
	t.held = false
	for n := range t.root {
		t.dirtyRoot[uint32(n)] = true
	}
	return t.flush()
}

// lookup returns the result that a packet gets, for tests and the slow path.
func (t *trie) lookup(a netip.Addr) uint32 {
	b := a.As4()
	x := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	e := t.root[x>>20].Entry[x>>16&15]
	for shift := 12; e&follows != 0; shift -= 4 {
		e = t.chunks[e&^follows].Entry[x>>shift&15]
	}
	if e == 0 {
		return t.fallback
	}
	return e
}

// size returns the number of chunks in use below the root.
func (t *trie) size() (n int) {
	for _, c := range t.chunks {
		if c != nil {
			n++
		}
	}
	return n
}
