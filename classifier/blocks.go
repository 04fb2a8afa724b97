// SPDX-License-Identifier: Apache-2.0

package classifier

// Trees as the fast path walks them: blocks of 64 bytes, laid out as struct pcn_classify_block.

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/polycube/polycube/cube"
)

const (
	blockSize = 64
	// none is a place behind those of all rules.
	none = 1<<32 - 1
	// long is the bit in the reference to a rule that has further blocks; a reference has so many bits.
	long          = 1 << 20
	referenceBits = 21
	// longBlocks is how many such a rule has.
	longBlocks = 3
	// isLeaf and the others are in place of a branch's word.
	isLeaf, isGroup, isSequence = words, words + 1, words + 2
	// maxTelling is behind the words that a leaf can compare first.
	maxTelling = 8
	// never is a value that no field is above.
	never = 1<<63 - 1
)

// blocks is the memory of a set: runs of blocks that are taken and given back.
type blocks struct {
	mem  []byte
	next uint32           // from here on all are free
	free map[int][]uint32 // runs by length
	// used are runs that were given back, but that packets under way may still read.
	used []run
	// taken are the runs of the change that is being written.
	taken []run
}

func newBlocks(mem []byte) *blocks {
	native.PutUint32(mem[4:], none)
	return &blocks{mem: mem, next: 1, free: map[int][]uint32{}}
}

// count is how many blocks there are.
func (b *blocks) count() int { return len(b.mem) / blockSize }

// take finds room for a run. What fits says was asked before.
func (b *blocks) take(count int) (uint32, error) {
	at, err := b.find(count)
	if err == nil {
		b.taken = append(b.taken, run{at, count})
	}
	return at, err
}

func (b *blocks) find(count int) (uint32, error) {
	if list := b.free[count]; len(list) > 0 {
		b.free[count] = list[:len(list)-1]
		return list[len(list)-1], nil
	}
	if int(b.next)+count > b.count() {
		return 0, fmt.Errorf("%d of %d blocks are used, %d more are wanted: %w", b.next, b.count(), count, cube.ErrFull)
	}
	at := b.next
	b.next += uint32(count)
	return at, nil
}

// settle makes what was given back free: no packet reads it any more.
func (b *blocks) settle() {
	for _, r := range b.used {
		b.free[r.count] = append(b.free[r.count], r.at)
	}
	b.used = nil
}

// fits says whether there is room for runs by their length, and whether that takes blocks that were given back.
func (b *blocks) fits(need map[int]int) (fits, settle bool) {
	returned := map[int]int{}
	for _, r := range b.used {
		returned[r.count]++
	}
	now, later := int(b.next), int(b.next)
	for length, n := range need {
		short := max(0, n-len(b.free[length]))
		now += short * length
		later += max(0, short-returned[length]) * length
	}
	return later <= b.count(), now > b.count()
}

func (b *blocks) at(i uint32) []byte { return b.mem[int(i)*blockSize:][:blockSize] }

// publish makes a forest the one that packets see. All its blocks are written before.
func (b *blocks) publish(forest uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&b.mem[0])), forest)
}

var native = binary.NativeEndian

// node writes what is below a node, and returns an error where there is no room.
func (b *blocks) node(n *node) error {
	if n.at != 0 {
		return nil
	}
	if n.kids == nil {
		return b.rest(n)
	}
	for _, k := range n.kids {
		if err := b.node(k); err != nil {
			return err
		}
	}
	at, err := b.take(len(n.kids))
	if err != nil {
		return err
	}
	n.at = at
	for i, k := range n.kids {
		b.header(at+uint32(i), k)
	}
	return nil
}

// rest writes what a leaf has beside its first block.
func (b *blocks) rest(n *node) error {
	count := n.run()
	if count == 0 {
		return nil
	}
	at, err := b.take(count)
	if err != nil {
		return err
	}
	n.at = at
	if n.group != nil {
		b.group(n)
		return nil
	}
	b.list(at, n.rules[min(len(n.rules), blockRules):], 0)
	return nil
}

// list writes blocks that follow each other; after them, the search goes on at a block.
func (b *blocks) list(at uint32, rules []*rule, then uint32) {
	for ; len(rules) > 0; at++ {
		count, next := min(len(rules), blockRules), at+1
		if count == len(rules) {
			next = then
		}
		b.leaf(at, rules[:count], next)
		rules = rules[count:]
	}
}

// header writes the block of a node: a branch, or the first of a leaf.
func (b *blocks) header(at uint32, n *node) {
	switch {
	case n.sequence:
		block := b.at(at)
		clear(block)
		native.PutUint32(block, n.at)
		block[4] = isSequence
		native.PutUint32(block[8:], uint32(len(n.kids)))
	case n.kids != nil:
		b.branch(at, n.at, fields[n.field], n.values, false)
	case n.group != nil:
		b.groupHeader(at, n)
	default:
		b.leaf(at, n.rules[:min(len(n.rules), blockRules)], n.at)
	}
}

// branch writes a branch to the blocks from first on.
func (b *blocks) branch(at, first uint32, f field, values []uint64, last bool) {
	block := b.at(at)
	native.PutUint32(block, first)
	copy(block[4:], []byte{f.word, f.left, f.right, 0})
	if last {
		block[7] = 1
	}
	for i := range maxBranches - 1 {
		value := uint64(never)
		if i < len(values) {
			value = values[i]
		}
		native.PutUint64(block[8+8*i:], value)
	}
}

// leaf writes a block of a leaf. What it has no rules for matches nothing.
func (b *blocks) leaf(at uint32, rules []*rule, next uint32) {
	block := b.at(at)
	clear(block)
	native.PutUint32(block, next)
	block[4] = isLeaf
	var wordOf, references uint64
	for i := range blockRules {
		if i >= len(rules) {
			native.PutUint64(block[16+8*i:], 1)
			continue
		}
		r := rules[i]
		w := telling(r, rules)
		wordOf |= uint64(w) << (3 * i)
		references |= r.reference() << (referenceBits * i)
		native.PutUint64(block[16+8*i:], r.value[w])
		native.PutUint64(block[40+8*i:], r.mask[w])
	}
	native.PutUint16(block[6:], uint16(wordOf))
	native.PutUint64(block[8:], references)
}

// reference is how blocks of leaves name a rule.
func (r *rule) reference() uint64 {
	if r.isLong() {
		return uint64(r.at) | long
	}
	return uint64(r.at)
}

// telling is the word of a rule by which it is passed by most often: the one with most bits that not all rules beside it
// have alike.
func telling(r *rule, beside []*rule) int {
	best, most := wordLink, -1
	for w := range maxTelling {
		alike := ^uint64(0)
		for _, x := range beside {
			alike &= x.mask[w] & ^(x.value[w] ^ r.value[w])
		}
		mask := r.mask[w]
		if w == wordLink {
			mask &^= 0xffff00ff // which most packets have alike
		}
		score := bits.OnesCount64(mask)
		if len(beside) > 1 {
			score += 64 * bits.OnesCount64(mask&^alike)
		}
		if score > most {
			best, most = w, score
		}
	}
	return best
}

// size is how many blocks a rule takes.
func (r *rule) size() int {
	if r.isLong() {
		return longBlocks
	}
	return 1
}

// rule writes a rule.
func (b *blocks) rule(r *rule) error {
	at, err := b.take(r.size())
	if err != nil {
		return err
	}
	r.at = at
	block := b.at(at)
	for w := range 3 {
		native.PutUint64(block[8*w:], r.value[w])
		native.PutUint64(block[24+8*w:], r.mask[w])
	}
	for i, p := range []ports{r.source, r.destination} {
		first, more := p.span()
		native.PutUint16(block[48+4*i:], first)
		native.PutUint16(block[50+4*i:], more)
	}
	native.PutUint32(block[56:], r.order)
	native.PutUint32(block[60:], r.Result)
	for i := 1; i < r.size(); i++ {
		block := b.at(at + uint32(i))
		clear(block)
		for w := range 3 {
			native.PutUint64(block[8*w:], r.value[3*i+w])
			native.PutUint64(block[24+8*w:], r.mask[3*i+w])
		}
	}
	return nil
}

// write writes rules and trees that are new, and returns the block that a search begins with.
func (b *blocks) write(trees []tree, fresh []*rule) (uint32, error) {
	for _, r := range fresh {
		if err := b.rule(r); err != nil {
			return 0, err
		}
	}
	return b.forest(trees)
}

// forest writes trees, and returns the block that has them: of one that is a leaf, that leaf.
func (b *blocks) forest(trees []tree) (uint32, error) {
	for i := range trees {
		t := &trees[i]
		if t.at != 0 {
			continue
		}
		if err := b.node(t.root); err != nil {
			return 0, err
		}
		at, err := b.take(1)
		if err != nil {
			return 0, err
		}
		t.at = at
		b.header(at, t.root)
	}
	at, err := b.take(1)
	if err != nil {
		return 0, err
	}
	if len(trees) == 1 && trees[0].root.kids == nil {
		b.header(at, trees[0].root)
		return at, nil
	}
	block := b.at(at)
	clear(block)
	native.PutUint32(block, uint32(len(trees)))
	for i, t := range trees {
		native.PutUint32(block[8+8*i:], t.at)
		native.PutUint32(block[12+8*i:], t.order)
	}
	return at, nil
}

// needs adds up the runs that trees take which are not written yet.
func needs(trees []tree, fresh []*rule) map[int]int {
	need := map[int]int{1: 1}
	for _, r := range fresh {
		need[r.size()]++
	}
	for _, t := range trees {
		if t.at == 0 {
			need[1]++
			t.root.needs(need)
		}
	}
	return need
}

func (n *node) needs(need map[int]int) {
	if n.at != 0 {
		return
	}
	if count := n.run(); count > 0 {
		need[count]++
	}
	for _, k := range n.kids {
		k.needs(need)
	}
}

// run is how many blocks a node has beside its first.
func (n *node) run() int {
	switch {
	case n.kids != nil:
		return len(n.kids)
	case n.group != nil:
		return roomy(n.group.run(len(n.rules)))
	}
	return roomy(max(0, lists(len(n.rules))-1))
}

// lists is how many blocks a leaf of rules takes that are looked at one by one.
func lists(rules int) int { return (rules + blockRules - 1) / blockRules }

// roomy rounds the length of a run up, by a quarter at most: so there are few lengths, and runs fit again.
func roomy(count int) int {
	step := 1 << max(0, bits.Len(uint(count))-3)
	return (count + step - 1) / step * step
}

// total is how many blocks runs have together.
func total(need map[int]int) (sum int) {
	for length, n := range need {
		sum += length * n
	}
	return sum
}

// ruleBlocks is how many blocks rules take, without what leads to them.
func ruleBlocks(rules []*rule) (sum int) {
	for _, r := range rules {
		sum += r.size()
	}
	return sum
}
