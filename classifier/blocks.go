// SPDX-License-Identifier: Apache-2.0

package classifier

// Trees as the fast path walks them: blocks of 64 bytes, laid out as struct pcn_classify_block.

import (
	"encoding/binary"
	"math/bits"
	"sync/atomic"
	"unsafe"
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

// blocks is the memory of a set, and what of it is free.
type blocks struct {
	mem   []byte
	space *space
	// used are runs that were given back, but that packets under way may still read; last those that the last change gave
	// back, which its undo needs. They are so many blocks.
	used, last           []run
	usedCount, lastCount int
}

func newBlocks(mem []byte) *blocks {
	native.PutUint32(mem[4:], none)
	return &blocks{mem: mem, space: newSpace(len(mem) / blockSize)}
}

// count is how many blocks there are.
func (b *blocks) count() int { return len(b.mem) / blockSize }

// left is how many blocks are free, or will be when no packet sees them any more.
func (b *blocks) left() int { return b.space.left + b.usedCount + b.lastCount }

// retire gives up what the trees of before had alone: undo may want it until the next change.
func (b *blocks) retire(runs []run) {
	b.used, b.usedCount = append(b.used, b.last...), b.usedCount+b.lastCount
	b.last, b.lastCount = runs, sum(runs)
}

// revive takes what the last change gave up as in use again, and gives up what that change had made.
func (b *blocks) revive(made []run) {
	b.last, b.lastCount = nil, 0
	b.used, b.usedCount = append(b.used, made...), b.usedCount+sum(made)
}

// settle makes what was given back before the last change free: no packet reads it any more.
func (b *blocks) settle() {
	for _, r := range b.used {
		b.space.give(r.at, r.count)
	}
	b.used, b.usedCount = b.used[:0], 0
}

func sum(runs []run) (count int) {
	for _, r := range runs {
		count += r.count
	}
	return count
}

func (b *blocks) at(i uint32) []byte { return b.mem[int(i)*blockSize:][:blockSize] }

// publish makes a forest the one that packets see. All its blocks are written before.
func (b *blocks) publish(forest uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&b.mem[0])), forest)
}

var native = binary.NativeEndian

// node writes what a node has beside its first block.
func (b *blocks) node(n *node) {
	for i, k := range n.kids {
		b.header(n.at+uint32(i), k)
	}
	switch {
	case n.kids != nil:
	case n.group != nil:
		b.group(n)
	default:
		rest, at := n.rules[blockRules:], n.at
		for _, next := range n.more {
			b.list(at, rest[:shortRun*blockRules], next)
			rest, at = rest[shortRun*blockRules:], next
		}
		b.list(at, rest, 0)
	}
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
func telling(r *rule, siblings []*rule) int {
	best, most := wordLink, -1
	for w := range maxTelling {
		alike := ^uint64(0)
		for _, x := range siblings {
			alike &= x.mask[w] & ^(x.value[w] ^ r.value[w])
		}
		mask := r.mask[w]
		if w == wordLink {
			mask &^= 0xffff00ff // which most packets have alike
		}
		score := bits.OnesCount64(mask)
		if len(siblings) > 1 {
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
func (b *blocks) rule(r *rule) {
	at := r.at
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
}

// forest writes the block that has trees: of one that is a leaf, that leaf.
func (b *blocks) forest(at uint32, trees []tree) {
	if len(trees) == 1 && trees[0].root.kids == nil {
		b.header(at, trees[0].root)
		return
	}
	block := b.at(at)
	clear(block)
	native.PutUint32(block, uint32(len(trees)))
	for i, t := range trees {
		native.PutUint32(block[8+8*i:], t.at)
		native.PutUint32(block[12+8*i:], t.order)
	}
}
