// SPDX-License-Identifier: Apache-2.0

package classifier

// Search trees in the form that the fast path reads: blocks of 64 bytes with the layout of struct pcn_classify_block.

import (
	"encoding/binary"
	"math/bits"
)

const (
	blockSize = 64
	// none is an order after those of all rules.
	none = 1<<32 - 1
	// long is the bit in the reference to a rule that has further blocks; a reference has reference bits.
	long          = 1 << 20
	referenceBits = 21
	// longBlocks is the number of blocks of such a rule, and of an exception.
	longBlocks = 3
	// isLeaf and the others are used instead of a branch's word.
	isLeaf, isGroup, isSequence, isHash = words, words + 1, words + 2, words + 3
	// maxTelling is after the words that a leaf can compare first.
	maxTelling = 8
	// never is a value that is at least as large as any field.
	never = 1<<63 - 1
)

// blocks is the memory of a set, with its free space. Its first block has the number base.
type blocks struct {
	mem   []byte
	base  uint32
	space *space
	// uses are the sets of addresses that rules which are written match.
	uses *used
	// used are freed runs that packets in flight may still read; last those that the last change freed, which its
	// undo needs. usedCount and lastCount are their numbers of blocks.
	used, last           []run
	usedCount, lastCount int
}

func newBlocks(mem []byte, base uint32) *blocks {
	return &blocks{mem: mem, base: base, uses: &used{}, space: newSpace(len(mem)/blockSize, base)}
}

// count is the total number of blocks.
func (b *blocks) count() int { return len(b.mem) / blockSize }

// left returns how many blocks are free, or will be when no packet reads them any more.
func (b *blocks) left() int { return b.space.left + b.usedCount + b.lastCount }

// retire frees the blocks that only the previous trees used: undo may need them until the next change.
func (b *blocks) retire(runs []run) {
	b.used, b.usedCount = append(b.used, b.last...), b.usedCount+b.lastCount
	b.last, b.lastCount = runs, sum(runs)
}

// revive marks the blocks that the last change freed as in use again, and frees those that it allocated.
func (b *blocks) revive(made []run) {
	b.last, b.lastCount = nil, 0
	b.used, b.usedCount = append(b.used, made...), b.usedCount+sum(made)
}

// settle frees the blocks released before the last change: no packet reads them any more.
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

func (b *blocks) at(i uint32) []byte { return b.mem[int(i-b.base)*blockSize:][:blockSize] }

var native = binary.NativeEndian

// node writes a node except for its first block.
func (b *blocks) node(n *node) {
	for i, k := range n.kids {
		b.header(n.at+uint32(i), k)
	}
	switch {
	case n.kids != nil:
		b.allColumns(n)
	case n.group != nil:
		b.list(n.at, n.rules, 0)
		b.allColumns(n)
	default:
		rest, at := n.rules[blockRules:], n.at
		for _, next := range n.more {
			b.list(at, rest[:shortRun*blockRules], next)
			rest, at = rest[shortRun*blockRules:], next
		}
		b.list(at, rest, 0)
	}
}

// list writes consecutive blocks; after them, the search continues at a block.
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

// header writes the first block of a node: a branch, or the first block of a leaf.
func (b *blocks) header(at uint32, n *node) {
	switch {
	case n.hash != nil:
		b.hashHeader(at, n)
	case n.sequence:
		b.sequenceHeader(at, n)
	case n.kids != nil:
		b.branch(at, n.at, fields[n.field], n.values, false)
	case n.group != nil:
		b.groupHeader(at, n)
	default:
		b.leaf(at, n.rules[:min(len(n.rules), blockRules)], n.at)
	}
}

// branch writes a branch to consecutive blocks starting at first.
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

// leaf writes a block of a leaf. Unused entries match nothing.
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

// reference returns the reference to a rule in leaf blocks.
func (r *rule) reference() uint64 {
	if r.isLong() {
		return uint64(r.at) | long
	}
	return uint64(r.at)
}

// telling returns the most selective word of a rule: the one with most bits that are not equal in all neighbouring
// rules.
func telling(r *rule, siblings []*rule) int {
	best, most := wordLink, -1
	for w := range maxTelling {
		alike := ^uint64(0)
		for _, x := range siblings {
			alike &= x.mask[w] & ^(x.value[w] ^ r.value[w])
		}
		mask := r.mask[w]
		if w == wordLink {
			mask &^= 0xffff00ff // equal in most packets
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

// size returns the number of blocks of a rule.
func (r *rule) size() int {
	if r.isLong() {
		return longBlocks * (1 + r.exceptionCount())
	}
	return 1
}

// rule writes a rule, and its exceptions in the same form after it.
func (b *blocks) rule(r *rule) {
	at := r.at
	b.conditions(at, &r.conditions, r.isLong())
	block := b.at(at)
	native.PutUint32(block[56:], r.order)
	native.PutUint32(block[60:], r.Result)
	if !r.isLong() {
		return
	}
	for e := range r.exceptions {
		native.PutUint64(b.at(at + longBlocks - 1)[48:], uint64(at+longBlocks))
		at += longBlocks
		b.conditions(at, e, true)
	}
}

// conditions writes conditions to one block, or to longBlocks.
func (b *blocks) conditions(at uint32, c *conditions, isLong bool) {
	block := b.at(at)
	for w := range 3 {
		native.PutUint64(block[8*w:], c.value[w])
		native.PutUint64(block[24+8*w:], c.mask[w])
	}
	for i, p := range []ports{c.source, c.destination} {
		first, more := p.span()
		native.PutUint16(block[48+4*i:], first)
		native.PutUint16(block[50+4*i:], more)
	}
	native.PutUint64(block[56:], 0)
	for i := 1; isLong && i < longBlocks; i++ {
		block := b.at(at + uint32(i))
		clear(block)
		for w := range 3 {
			native.PutUint64(block[8*w:], c.value[3*i+w])
			native.PutUint64(block[24+8*w:], c.mask[3*i+w])
		}
	}
	if value, mask := b.uses.bits(c); value != 0 {
		last := b.at(at + longBlocks - 1)
		native.PutUint64(last[16:], c.value[wordMark]|value)
		native.PutUint64(last[40:], c.mask[wordMark]|mask)
	}
}

// forest writes the block that contains trees, and the one before it; for a single leaf or table, it writes that.
func (b *blocks) forest(at uint32, trees []tree) {
	if len(b.uses.sets) > 0 {
		b.uses.write(b.at(at - 1))
	}
	if len(trees) == 1 && (trees[0].root.kids == nil || trees[0].root.hash != nil) {
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
