// SPDX-License-Identifier: Apache-2.0

package classifier

// Sets in ordinary memory, walked as classify.h walks them, against a linear search.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/polycube/polycube/cube"
)

// heap is a store without a kernel.
type heap struct {
	pages map[uint32]*page // by index
	made  uint32
	// at and reads are what packets see.
	at    uint64
	reads uint32
	open  atomic.Int32
	// sets are names of sets of addresses by their numbers, of which 0 is none; kept are those in use.
	sets []string
	kept map[string]bool
	// hold, if set, blocks the rebuild of a set until it is closed.
	hold chan struct{}
	mu   sync.Mutex // guards pages and made
}

// page is a piece of memory, whose first block has a number of its own.
type page struct {
	h     *heap
	index uint32
	first uint32
	mem   []byte
}

func (h *heap) maker() (func(blocks int) (home, error), error) {
	hold := h.hold
	return func(blocks int) (home, error) {
		if hold != nil {
			<-hold
		}
		h.open.Add(1)
		// Odd bytes, so that unwritten memory is detected.
		mem := make([]byte, blocks*blockSize)
		for i := range mem {
			mem[i] = 0xa5
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.made++
		p := &page{h, h.made, h.made % 5 * unit, mem}
		h.pages[p.index] = p
		return p, nil
	}, nil
}

func (h *heap) root() uint64            { return h.at }
func (h *heap) publish(root uint64)     { h.at = root }
func (h *heap) fields() uint32          { return h.reads }
func (h *heap) setFields(fields uint32) { h.reads = fields }
func (h *heap) wait() error             { return nil }
func (h *heap) settle() error           { return nil }

func (h *heap) close(used []home) error {
	var errs []error
	for _, u := range used {
		errs = append(errs, u.close())
	}
	return errors.Join(errs...)
}

func (p *page) memory() []byte { return p.mem }
func (p *page) base() uint32   { return p.first }

func (p *page) root(block uint32) uint64 { return uint64(p.index)<<32 | uint64(block) }

func (p *page) close() error {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	delete(p.h.pages, p.index)
	p.h.open.Add(-1)
	return nil
}

// lab is a set, and its expected content.
type lab struct {
	t     testing.TB
	heap  *heap
	set   *Set
	rules map[uint32]Rule
	// after are the steps of the last change that free unused memory.
	after []cube.Step
}

func newLab(t testing.TB) *lab {
	h := &heap{pages: map[uint32]*page{}, sets: []string{""}, kept: map[string]bool{}}
	return &lab{t: t, heap: h, set: newSet(h), rules: map[uint32]Rule{}}
}

// prepare prepares a change, after the last steps of the one before, as the framework does.
func (l *lab) prepare(changes []Change) (cube.Plan, error) {
	l.t.Helper()
	if err := cube.Carry(l.after, nil); err != nil {
		l.t.Fatal(err)
	}
	plan, err := l.set.Prepare(changes)
	l.after = plan.After
	return plan, err
}

// apply carries changes out.
func (l *lab) apply(changes []Change) {
	l.t.Helper()
	plan, err := l.prepare(changes)
	if err == nil {
		err = cube.Carry(plan.Before, nil)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	for _, c := range changes {
		if c.Rule == nil {
			delete(l.rules, c.Order)
		} else {
			l.rules[c.Order] = *c.Rule
		}
	}
}

// linear returns the rule that a packet must find.
func (l *lab) linear(k *Key) (result, order uint32, ok bool) {
	order = none
	for o, r := range l.rules {
		if o < order && r.MatchesIn(k, contains) {
			order, result = o, r.Result
		}
	}
	return result, order, order != none
}

// find does what pcn_classify does.
func (l *lab) find(k *Key) (result, order uint32, ok bool) {
	b, at := l.heap.where()
	if b == nil {
		return 0, 0, false
	}
	k = limited(k, l.heap.reads)
	k[wordMark] &= 1<<usedShift - 1
	if l.heap.at&hasUsed != 0 && k[wordLink]&kindIP != 0 {
		l.setsOf(b.at(at-1), k)
	}
	return searchFrom(b, at, k)
}

// where is what packets search, and the block where they begin.
func (h *heap) where() (*blocks, uint32) {
	p := h.pages[partOf(h.at)]
	if p == nil {
		return nil, 0
	}
	return newBlocks(p.mem, p.first), uint32(h.at) &^ hasUsed
}

// searchFrom is pcn_classify from a forest, or a leaf, on.
func searchFrom(b *blocks, at uint32, key *Key) (result, order uint32, ok bool) {
	order = none
	forest := b.at(at)
	if forest[4] >= words {
		result, order = b.end(at, key)
		return result, order, order != none
	}
	for i := range native.Uint32(forest) {
		root, best := native.Uint32(forest[8+8*i:]), native.Uint32(forest[12+8*i:])
		if best > order {
			break
		}
		if r, o := b.search(root, key); o < order {
			result, order = r, o
		}
	}
	return result, order, order != none
}

// limited is a key as read by a program that does not read all fields.
func limited(k *Key, reads uint32) *Key {
	out := *k
	if reads&readMAC == 0 {
		out[wordSourceMAC], out[wordDestinationMAC] = 0, 0
	}
	if reads&readIP == 0 {
		out[wordLink] &^= 0xffff
		for _, w := range []int{wordSource, wordDestination, wordSourceLow, wordDestinationLow, wordPorts} {
			out[w] = 0
		}
	}
	return &out
}

func (b *blocks) search(at uint32, k *Key) (result, order uint32) {
	for depth := 0; ; depth++ {
		block := b.at(at)
		if block[4] >= words {
			return b.end(at, k)
		}
		if depth > maxDepth {
			return 0, none
		}
		at = b.branchOf(at, k)
	}
}

// end is the end of pcn_classify_tree_at, and everything that it calls.
func (b *blocks) end(at uint32, k *Key) (result, order uint32) {
	block := b.at(at)
	switch block[4] {
	case isHash:
		return b.scan(b.hashed(block, k), k)
	case isSequence:
		// The first one is searched before the columns.
		first := native.Uint32(block)
		for i := range native.Uint32(block[8:]) {
			if i > 0 && !b.mayContain(block, k, i) {
				continue
			}
			if result, order = b.end(first+i, k); order != none {
				return result, order
			}
		}
		return 0, none
	case isGroup:
		return b.columns(block, k)
	}
	return b.scan(at, k)
}

// columns is pcn_classify_columns.
func (b *blocks) columns(block []byte, k *Key) (result, order uint32) {
	count, first := int(native.Uint16(block[6:])), native.Uint32(block[8:])
	for i := range count {
		all := b.may(block, k, i)
		reference := uint32(native.Uint64(b.at(first + uint32(i/blockRules))[8:]) >> (referenceBits * (i % blockRules)) & (1<<referenceBits - 1))
		if all && b.match(reference, k) {
			r := b.at(reference &^ long)
			return native.Uint32(r[60:]), native.Uint32(r[56:])
		}
	}
	return 0, none
}

// mayContain reports whether an element of a sequence is searched.
func (b *blocks) mayContain(sequence []byte, k *Key, i uint32) bool {
	first, may := int(i<<native.Uint32(sequence[36:])), native.Uint32(sequence[40:]) == 0
	for bit := range 32 {
		if native.Uint32(sequence[40:])>>bit&1 == 1 {
			may = may || b.may(sequence, k, (first+bit)%groupRules)
		}
	}
	return may
}

// may reports whether all columns of a group or a sequence have a bit for a key.
func (b *blocks) may(block []byte, k *Key, bit int) bool {
	for j := range block[5] {
		at, last := native.Uint32(block[12+4*int(j):]), false
		for depth := 0; !last; depth++ {
			if depth >= columnDepth {
				return false
			}
			at, last = b.branchOf(at, k), b.at(at)[7] == 1
		}
		if native.Uint64(b.at(at / 2)[at%2*rowSize+uint32(bit/64*8):])>>(bit%64)&1 == 0 {
			return false
		}
	}
	return true
}

// branchOf is pcn_classify_next.
func (b *blocks) branchOf(at uint32, k *Key) uint32 {
	block := b.at(at)
	value := k[block[4]] << block[5] >> block[6]
	at = native.Uint32(block)
	for i := range maxBranches - 1 {
		if native.Uint64(block[8+8*i:]) < value {
			at++
		}
	}
	return at
}

func (b *blocks) scan(at uint32, k *Key) (result, order uint32) {
	for at != 0 {
		block := b.at(at)
		for i := range blockRules {
			w := native.Uint16(block[6:]) >> (3 * i) & 7
			if k[w]&native.Uint64(block[40+8*i:]) != native.Uint64(block[16+8*i:]) {
				continue
			}
			reference := uint32(native.Uint64(block[8:]) >> (referenceBits * i) & (1<<referenceBits - 1))
			if r := b.at(reference &^ long); b.match(reference, k) {
				return native.Uint32(r[60:]), native.Uint32(r[56:])
			}
		}
		at = native.Uint32(block)
	}
	return 0, none
}

func (b *blocks) match(reference uint32, k *Key) bool {
	at := reference &^ long
	if !b.compare(at, reference&long != 0, k) {
		return false
	}
	for reference&long != 0 {
		if at = uint32(native.Uint64(b.at(at + longBlocks - 1)[48:])); at == 0 {
			break
		}
		if b.compare(at, true, k) {
			return false
		}
	}
	return true
}

// compare is pcn_classify_differs, and pcn_classify_more_differs.
func (b *blocks) compare(at uint32, isLong bool, k *Key) bool {
	block := b.at(at)
	for w := range 3 {
		if k[w]&native.Uint64(block[24+8*w:]) != native.Uint64(block[8*w:]) {
			return false
		}
	}
	for i, port := range []uint16{uint16(k[wordPorts] >> 48), uint16(k[wordPorts] >> 32)} {
		if port-native.Uint16(block[48+4*i:]) > native.Uint16(block[50+4*i:]) {
			return false
		}
	}
	for i := 1; isLong && i < longBlocks; i++ {
		more := b.at(at + uint32(i))
		for w := range 3 {
			if k[3*i+w]&native.Uint64(more[24+8*w:]) != native.Uint64(more[8*w:]) {
				return false
			}
		}
	}
	return true
}

// check compares the set with the linear search on a packet.
func (l *lab) check(k *Key) {
	l.t.Helper()
	result, order, ok := l.find(k)
	wantResult, wantOrder, want := l.linear(k)
	if ok != want || ok && (order != wantOrder || result != wantResult) {
		l.t.Fatalf("key %x: found rule %d with %d (%v), want %d with %d (%v)", k, order, result, ok, wantOrder, wantResult, want)
	}
}

// tight reports whether the used space matches the set: each block is in exactly one place.
func (l *lab) tight() error {
	is := l.set.state
	errs := []error{is.tight()}
	if m := l.set.making; m != nil && !m.busy() && m.err == nil {
		errs = append(errs, m.tight())
	}
	return errors.Join(errs...)
}

func (s *state) tight() error {
	b := s.blocks
	seen := make([]string, b.count())
	seen[0] = "not used"
	var errs []error
	use := func(r run, what string) {
		for i := range r.count {
			at := int(r.at-b.base) + i
			if was := seen[at]; was != "" {
				errs = append(errs, fmt.Errorf("block %d, of %s, is also of %s", at, what, was))
			}
			seen[at] = what
		}
	}
	use(s.uses.forest(s.forest), "the forest")
	for _, r := range s.rules {
		use(run{r.at, r.size()}, "a rule")
	}
	var walk func(n *node)
	walk = func(n *node) {
		n.runs(func(r run) { use(r, "a node") })
		for _, k := range n.kids {
			walk(k)
		}
	}
	for _, t := range s.trees {
		use(run{t.at, 1}, "a root")
		walk(t.root)
	}
	for _, r := range b.used {
		use(r, "what was given back")
	}
	for _, r := range b.last {
		use(r, "what the last change gave back")
	}
	if sum(b.used) != b.usedCount || sum(b.last) != b.lastCount {
		errs = append(errs, fmt.Errorf("%d and %d blocks were given back, counted are %d and %d", sum(b.used), sum(b.last), b.usedCount, b.lastCount))
	}
	errs = append(errs, b.space.sound(func(r run) { use(r, "what is free") }))
	for at, what := range seen {
		if what == "" {
			errs = append(errs, fmt.Errorf("block %d is lost", at))
		}
	}
	return errors.Join(errs...)
}

// sound reports whether lists, lengths and counts of free runs agree, and that no two free runs of a kind are adjacent.
func (s *space) sound(each func(run)) error {
	var errs []error
	free := make([]uint32, len(s.length)) // the run that a block is of
	left := 0
	for _, in := range []*runs{&s.short, &s.long} {
		for list, at := range in.first {
			if some := in.some[list/64]>>(list%64)&1 == 1; some != (at != 0) {
				errs = append(errs, fmt.Errorf("list %d: its bit is %v, its first run at %d", list, some, at))
			}
			for before := uint32(0); at != 0; before, at = at, s.next[at] {
				length := s.length[at]
				count := int(length &^ isShort)
				if s.prev[at] != before || listOf(count) != list || s.length[int(at)+count-1] != length || length&isShort != in.kind {
					return fmt.Errorf("list %d has a run of %d at %d, behind %d, which ends with %d", list, count, at, s.prev[at], s.length[int(at)+count-1])
				}
				if behind := s.length[int(at)+count]; behind != 0 && behind&isShort == in.kind {
					errs = append(errs, fmt.Errorf("a run of %d at %d lies beside another one", count, at))
				}
				each(run{s.base + at, count})
				left += count
				for i := range count {
					free[int(at)+i] = length
				}
			}
		}
	}
	for at, length := range s.length {
		if length != 0 && free[at] == 0 {
			errs = append(errs, fmt.Errorf("block %d begins or ends a free run that is in no list", at))
		}
	}
	if left != s.left {
		errs = append(errs, fmt.Errorf("%d blocks are free, counted are %d", left, s.left))
	}
	return errors.Join(errs...)
}

// orders returns the orders of the existing rules, ascending.
func (l *lab) orders() []uint32 {
	out := make([]uint32, 0, len(l.rules))
	for o := range l.rules {
		out = append(out, o)
	}
	slices.Sort(out)
	return out
}

// edits makes n random changes of rules.
func (l *lab) edits(rng *rand.Rand, n int, fresh func() Match) []Change {
	var out []Change
	orders := l.orders()
	rng.Shuffle(len(orders), func(i, j int) { orders[i], orders[j] = orders[j], orders[i] })
	used := map[uint32]bool{}
	for i := range n {
		c := Change{Order: rng.Uint32N(1 << 20), Rule: &Rule{Match: fresh(), Result: rng.Uint32()}}
		switch {
		case i < len(orders) && rng.IntN(2) == 0:
			c = Change{Order: orders[i]}
		case i < len(orders) && rng.IntN(3) == 0:
			c.Order = orders[i]
		}
		if used[c.Order] {
			continue
		}
		used[c.Order] = true
		out = append(out, c)
	}
	return out
}
