// SPDX-License-Identifier: Apache-2.0

package classifier

// Hash tables: rules that all match the same bits, such as addresses, protocol and port of services or of single hosts, are
// found by a hash of these bits, in small leaves. It is tuple space search (Srinivasan et al., 1999) for the tuples that
// have many rules; the others are in trees.

import (
	"cmp"
	"math/bits"
	"slices"
	"sync/atomic"
)

// Parameters of hash tables.
const (
	hashWords = 6 // PCN_CLASSIFY_HASH_WORDS
	hashLeast = 8 // rules of a table
	// hashShare: a table has at least one in so many of the rules that are in no other.
	hashShare  = 4
	hashTables = 3
	// leastBits and mostBits limit the slots; pageBits those of a page.
	leastBits, mostBits, pageBits = 5, 17, 8
	// crowded is how many rules for each slot make an edit enlarge the table.
	crowded = 2
	// references is the number of references in a block.
	references = blockSize / 4
)

// hash is the table of a node, whose kids are the leaves that have rules, in the order of their slots.
type hash struct {
	mask  tuple
	bits  int
	slots []uint32 // of the kids
	pages []uint32 // first blocks; 0: not allocated yet
	empty uint32   // a leaf without rules
}

// tuple is a mask for each of the first words.
type tuple [hashWords]uint64

// tuple returns the bits of the first words that a rule compares with single values.
func (r *rule) tuple() tuple {
	t := tuple(r.mask[:hashWords])
	t[wordPorts] = 0
	for i, p := range []ports{r.source, r.destination} {
		if p.set && p.first == p.last {
			t[wordPorts] |= 0xffff << (48 - 16*i)
		}
	}
	return t
}

// within reports whether a tuple has no bits but those of another one.
func (t tuple) within(other tuple) bool {
	for w := range t {
		if t[w]&^other[w] != 0 {
			return false
		}
	}
	return true
}

// slot returns that of a rule.
func (h *hash) slot(r *rule) uint32 {
	words := tuple(r.value[:hashWords])
	words[wordPorts] = uint64(r.source.first)<<48 | uint64(r.destination.first)<<32
	return slotOf(&words, &h.mask, 64-h.bits)
}

// slotOf hashes the bits of a mask to a slot: pcn_classify_hashed.
func slotOf(words, mask *tuple, shift int) uint32 {
	var sum uint64
	for w, factor := range [...]uint64{0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 0xd6e8feb86659fd93,
		0xa0761d6478bd642f, 0x8ebc6af09c88c6e3, 0x589965cc75374cc3} {
		sum += words[w] & mask[w] * factor
	}
	return uint32((sum ^ sum>>32) * 0xe7037ed1a0b428db >> shift)
}

// find returns the kid for a rule, or where it would be.
func (h *hash) find(r *rule) (kid int, ok bool) { return slices.BinarySearch(h.slots, h.slot(r)) }

// newHash returns a table of rules, which match all bits of a mask.
func newHash(mask tuple, rules []*rule) *node {
	h := &hash{mask: mask, bits: min(max(bits.Len(uint(2*len(rules)-1)), leastBits), mostBits)}
	h.pages = make([]uint32, max(1, 1<<h.bits>>pageBits))
	of := map[uint32][]*rule{}
	for _, r := range rules {
		slot := h.slot(r)
		of[slot] = append(of[slot], r)
	}
	n := &node{hash: h}
	for slot := range of {
		h.slots = append(h.slots, slot)
	}
	slices.Sort(h.slots)
	for _, slot := range h.slots {
		n.kids = append(n.kids, &node{rules: of[slot]})
	}
	return n
}

// hashed builds tables for the tuples with most rules, and trees of the rest.
func hashed(rules []*rule, stop *atomic.Bool) ([]tree, float64) {
	var out []tree
	cost := 0.0
	for len(out) < hashTables {
		mask, in, rest := fullest(rules)
		if len(in) < max(hashLeast, len(rules)/hashShare) {
			break
		}
		root := newHash(mask, in)
		if root.cost() > nsHash+listCost(leafMost) {
			break // many rules have the same values
		}
		out = append(out, tree{root: root, rules: len(in), order: in[0].order})
		cost += nsTree + root.cost()
		rules = rest
	}
	if len(out) == 0 {
		return nil, none
	}
	if len(rules) == 0 {
		return out, cost
	}
	if len(rules) <= straightMost && nsHalf*listCost(len(rules)) < nsColumns {
		return append(out, single(&node{rules: rules})...), cost + nsTree + nsHalf*listCost(len(rules))
	}
	more, rest := trees(rules, builder{groups: true, stop: stop, trees: builtTrees - len(out)})
	return append(out, more...), cost + rest
}

// fullest divides rules by whether a table of the tuple with most rules can have them.
func fullest(rules []*rule) (mask tuple, in, rest []*rule) {
	count := map[tuple]int{}
	for _, r := range rules {
		count[r.tuple()]++
	}
	most := 0
	for t, n := range count {
		if n > most || n == most && slices.Compare(t[:], mask[:]) > 0 {
			mask, most = t, n
		}
	}
	for _, r := range rules {
		if mask.within(r.tuple()) {
			in = append(in, r)
		} else {
			rest = append(rest, r)
		}
	}
	return mask, in, rest
}

// insertHashed adds a rule to a table, which has its tuple.
func (e *edit) insertHashed(n *node, r *rule) *node {
	if n.weight() >= crowded<<n.hash.bits && n.hash.bits < mostBits {
		e.drop(n)
		return newHash(n.hash.mask, with(n.allRules(), r))
	}
	out := e.changed(n, r)
	at, ok := out.hash.find(r)
	if !ok {
		out.hash.slots = slices.Insert(out.hash.slots, at, out.hash.slot(r))
		out.kids = slices.Insert(out.kids, at, &node{rules: []*rule{r}})
		return out
	}
	e.drop(out.kids[at])
	out.kids[at] = &node{rules: with(out.kids[at].rules, r)}
	return out
}

// removeHashed removes a rule from a table.
func (e *edit) removeHashed(n *node, r *rule) *node {
	out := e.changed(n, r)
	at, _ := out.hash.find(r)
	e.drop(out.kids[at])
	rules := slices.DeleteFunc(slices.Clone(out.kids[at].rules), func(x *rule) bool { return x == r })
	if len(rules) > 0 {
		out.kids[at] = &node{rules: rules}
		return out
	}
	out.hash.slots = slices.Delete(out.hash.slots, at, at+1)
	out.kids = slices.Delete(out.kids, at, at+1)
	return out
}

// changed returns a copy of a table that gets another leaf for a rule.
func (e *edit) changed(n *node, r *rule) *node {
	h := *n.hash
	h.slots, h.pages = slices.Clone(h.slots), slices.Clone(h.pages)
	page := &h.pages[h.slot(r)>>h.pageBits()]
	for _, r := range []run{{n.at, h.pagesRun()}, {*page, h.pageRun()}} {
		if r.at != 0 {
			e.free = append(e.free, r)
		}
	}
	*page = 0
	return &node{hash: &h, kids: slices.Clone(n.kids)}
}

// allRules returns the rules of a table in order.
func (n *node) allRules() (rules []*rule) {
	for _, k := range n.kids {
		rules = append(rules, k.rules...)
	}
	slices.SortFunc(rules, func(x, y *rule) int { return cmp.Compare(x.order, y.order) })
	return rules
}

// pageBits is the binary logarithm of the slots of a page, pageRun the number of its blocks.
func (h *hash) pageBits() int { return min(h.bits, pageBits) }
func (h *hash) pageRun() int  { return 1 << h.pageBits() / references }

// pagesRun is the number of blocks of the references to pages.
func (h *hash) pagesRun() int { return (len(h.pages) + references - 1) / references }

// hashRuns returns the blocks that only a table has: the references to pages, the empty leaf, and pages.
func (n *node) hashRuns(yield func(run)) {
	h := n.hash
	all := []run{{n.at, h.pagesRun()}, {h.empty, 1}}
	for _, at := range h.pages {
		all = append(all, run{at, h.pageRun()})
	}
	for _, r := range all {
		if r.at != 0 {
			yield(r)
		}
	}
}

// hash allocates the blocks of a table that it does not have yet.
func (d *draft) hash(n *node) {
	h := n.hash
	f := freshHash{of: n, empty: h.empty == 0}
	for _, k := range n.kids {
		if k.head == 0 {
			d.node(k)
			k.head = d.take(1)
			f.leaves = append(f.leaves, k)
		}
	}
	for i, at := range h.pages {
		if at == 0 {
			h.pages[i] = d.take(h.pageRun())
			f.pages = append(f.pages, i)
		}
	}
	if f.empty {
		h.empty = d.take(1)
	}
	n.at = d.take(h.pagesRun())
	d.hashes = append(d.hashes, f)
}

// freshHash is what a draft has allocated of a table.
type freshHash struct {
	of     *node
	leaves []*node
	pages  []int
	empty  bool
}

// cancel forgets the blocks.
func (f *freshHash) cancel() {
	f.of.at = 0
	for _, k := range f.leaves {
		k.head = 0
	}
	for _, i := range f.pages {
		f.of.hash.pages[i] = 0
	}
	if f.empty {
		f.of.hash.empty = 0
	}
}

// hash writes what is new of a table, except for its header and what follows the first blocks of leaves.
func (b *blocks) hash(f *freshHash) {
	n, h := f.of, f.of.hash
	for _, k := range f.leaves {
		b.header(k.head, k)
	}
	if f.empty {
		b.leaf(h.empty, nil, 0)
	}
	for _, i := range f.pages {
		slot := uint32(i) << h.pageBits()
		at, _ := slices.BinarySearch(h.slots, slot)
		for s := range uint32(1) << h.pageBits() {
			leaf := h.empty
			if at < len(h.slots) && h.slots[at] == slot+s {
				leaf = n.kids[at].head
				at++
			}
			b.refer(h.pages[i], int(s), leaf)
		}
	}
	for i, at := range h.pages {
		b.refer(n.at, i, at)
	}
}

// refer writes the i-th of the references in blocks from one on.
func (b *blocks) refer(from uint32, i int, to uint32) {
	native.PutUint32(b.at(from + uint32(i/references))[i%references*4:], to)
}

// hashHeader writes the first block of a table.
func (b *blocks) hashHeader(at uint32, n *node) {
	block := b.at(at)
	clear(block)
	native.PutUint32(block, n.at)
	copy(block[4:], []byte{isHash, byte(64 - n.hash.bits), byte(n.hash.pageBits())})
	for w, mask := range n.hash.mask {
		native.PutUint64(block[8+8*w:], mask)
	}
}

// hashBlocks is the number of blocks of a table that are not allocated.
func (n *node) hashBlocks() int {
	h := n.hash
	sum := h.pagesRun()
	if h.empty == 0 {
		sum++
	}
	for _, at := range h.pages {
		if at == 0 {
			sum += h.pageRun()
		}
	}
	for _, k := range n.kids {
		if k.head == 0 {
			sum += 1 + k.blocks()
		}
	}
	return sum
}
