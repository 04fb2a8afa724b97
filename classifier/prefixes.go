// SPDX-License-Identifier: Apache-2.0

package classifier

// The prefixes of a set of addresses as a trie, in which programs find whether one of them contains an address. A node
// distinguishes its prefixes by the first nibble in which they differ. Nodes are never changed: a change of the set
// makes new ones from the root to the changed prefix, next to those that packets use. A set has exactly one trie,
// whatever the order of its changes, so n prefixes have n blocks, and less than n nodes.

import (
	"fmt"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/polycube/polycube/cube"
)

const (
	nibbleBits = 4
	// nodeReference and nibbleShift are those of pcn/classify_addresses.h.
	nodeReference = 1 << 31
	nibbleShift   = 18
)

// prefix is a prefix as halves of an IPv6 address; an IPv4 prefix is at the beginning of the upper half.
type prefix struct {
	high, low uint64
	bits      uint8
}

// trieNode is a prefix or, with kids, a node that distinguishes prefixes by a nibble.
type trieNode struct {
	// prefix has all nibbles of a node's prefixes before the one that it distinguishes them by.
	prefix
	nibble uint8
	// kids are what follows for each value of the nibble; ends are the prefixes that end in the nibble, shortest first.
	kids *[16]*trieNode
	ends []*trieNode
	// at is its block, edit the number of the edit that made it.
	at   uint32
	edit uint64
}

// prefixOf returns a prefix in this form.
func prefixOf(p netip.Prefix) (is prefix, six bool, err error) {
	if !p.IsValid() || p.Addr().Is4In6() || p.Addr().Zone() != "" || p != p.Masked() {
		return is, false, fmt.Errorf("prefix %s: %w", p, cube.ErrInvalid)
	}
	is.bits = uint8(p.Bits())
	if p.Addr().Is4() {
		a := p.Addr().As4()
		is.high = number(a[:]) << 32
		return is, false, nil
	}
	a := p.Addr().As16()
	is.high, is.low = number(a[:8]), number(a[8:])
	return is, true, nil
}

// mask returns the bits that count.
func (p prefix) mask() (high, low uint64) {
	return prefixMask(int(min(p.bits, 64))), prefixMask(int(max(p.bits, 64) - 64))
}

// value returns a nibble.
func (p prefix) value(nibble uint8) uint8 {
	half := p.high
	if nibble >= 16 {
		half = p.low
	}
	return uint8(half >> (60 - nibbleBits*(nibble&15)) & 15)
}

// end is the nibble in which a prefix ends; that of length 0 is treated as if it ended in the first one.
func (p prefix) end() uint8 { return (max(p.bits, 1) - 1) / nibbleBits }

// differs returns the first nibble before a limit in which two prefixes differ, or the limit.
func (p prefix) differs(q prefix, limit uint8) uint8 {
	equal := bits.LeadingZeros64(p.high ^ q.high)
	if equal == 64 {
		equal += bits.LeadingZeros64(p.low ^ q.low)
	}
	return min(uint8(equal/nibbleBits), limit)
}

// covers returns the values of the nibble in which a prefix ends that it contains.
func (p prefix) covers() (first, last uint8) {
	end := p.end()
	free := min((end+1)*nibbleBits-p.bits, nibbleBits)
	return p.value(end), p.value(end) | (1<<free - 1)
}

// trieEdit is a change of tries.
type trieEdit struct {
	// number distinguishes the nodes that the edit made, which no packet sees yet.
	number uint64
	// made is the number of new nodes; gone are the blocks of nodes that are not in the tries any more.
	made int
	gone []uint32
}

// make returns a node of this edit.
func (e *trieEdit) make(n trieNode) *trieNode {
	n.at, n.edit = 0, e.number
	e.made++
	return &n
}

// drop removes a node.
func (e *trieEdit) drop(n *trieNode) {
	if n.edit == e.number {
		e.made--
	} else {
		e.gone = append(e.gone, n.at)
	}
}

// own returns a node that this edit may change: the node itself, or a copy that takes its place.
func (e *trieEdit) own(n *trieNode) *trieNode {
	if n.edit == e.number {
		return n
	}
	e.drop(n)
	return e.copy(n)
}

// copy returns a copy of a node.
func (e *trieEdit) copy(n *trieNode) *trieNode {
	out := e.make(*n)
	if n.kids != nil {
		kids := *n.kids
		out.kids, out.ends = &kids, slices.Clone(n.ends)
	}
	return out
}

// copyAll returns a copy of a trie.
func (e *trieEdit) copyAll(n *trieNode) *trieNode {
	if n == nil {
		return nil
	}
	out := e.copy(n)
	for i, x := range out.ends {
		out.ends[i] = e.copy(x)
	}
	if out.kids != nil {
		for i, k := range out.kids {
			out.kids[i] = e.copyAll(k)
		}
	}
	return out
}

// add adds a prefix to a trie; false if it is there.
func (e *trieEdit) add(n *trieNode, p prefix) (*trieNode, bool) {
	switch {
	case n == nil:
		return e.make(trieNode{prefix: p}), true
	case n.kids == nil:
		if n.prefix == p {
			return n, false
		}
		return e.join(n, e.make(trieNode{prefix: p}), p.differs(n.prefix, min(p.end(), n.end()))), true
	}
	if at := p.differs(n.prefix, min(n.nibble, p.end())); at < n.nibble {
		return e.join(n, e.make(trieNode{prefix: p}), at), true
	}
	if p.end() > n.nibble {
		kid, ok := e.add(n.kids[p.value(n.nibble)], p)
		if ok {
			n = e.own(n)
			n.kids[p.value(n.nibble)] = kid
		}
		return n, ok
	}
	if at, there := n.ending(p); !there {
		n = e.own(n)
		n.ends = slices.Insert(n.ends, at, e.make(trieNode{prefix: p}))
		return n, true
	}
	return n, false
}

// join returns a node that distinguishes two others by a nibble.
func (e *trieEdit) join(a, b *trieNode, nibble uint8) *trieNode {
	out := e.make(trieNode{prefix: a.prefix, nibble: nibble, kids: &[16]*trieNode{}})
	for _, n := range []*trieNode{a, b} {
		if n.kids == nil && n.end() == nibble {
			at, _ := out.ending(n.prefix)
			out.ends = slices.Insert(out.ends, at, n)
		} else {
			out.kids[n.prefix.value(nibble)] = n
		}
	}
	return out
}

// ending finds a prefix that ends in the nibble of the node, or its place.
func (n *trieNode) ending(p prefix) (int, bool) {
	return slices.BinarySearchFunc(n.ends, p, func(x *trieNode, p prefix) int {
		switch {
		case x.bits != p.bits:
			return int(x.bits) - int(p.bits)
		case x.prefix == p:
			return 0
		case x.high < p.high || x.high == p.high && x.low < p.low:
			return -1
		}
		return 1
	})
}

// remove removes a prefix from a trie; false if it is not there.
func (e *trieEdit) remove(n *trieNode, p prefix) (*trieNode, bool) {
	switch {
	case n == nil || n.kids == nil && n.prefix != p:
		return n, false
	case n.kids == nil:
		e.drop(n)
		return nil, true
	case p.differs(n.prefix, min(n.nibble, p.end())) < n.nibble:
		return n, false
	}
	if p.end() > n.nibble {
		kid, ok := e.remove(n.kids[p.value(n.nibble)], p)
		if !ok {
			return n, false
		}
		n = e.own(n)
		n.kids[p.value(n.nibble)] = kid
		return e.collapse(n), true
	}
	at, there := n.ending(p)
	if !there {
		return n, false
	}
	e.drop(n.ends[at])
	n = e.own(n)
	n.ends = slices.Delete(n.ends, at, at+1)
	return e.collapse(n), true
}

// collapse returns what takes the place of a node of this edit: the only one left below it, or the node.
func (e *trieEdit) collapse(n *trieNode) *trieNode {
	only, count := (*trieNode)(nil), len(n.ends)
	if count == 1 {
		only = n.ends[0]
	}
	for _, k := range n.kids {
		if k != nil {
			only = k
			count++
		}
	}
	if count > 1 {
		return n
	}
	e.drop(n)
	return only
}

// madeBy yields the nodes that an edit made: they are at the top of a trie, because it made all nodes above its changes.
func (n *trieNode) madeBy(edit uint64, yield func(*trieNode)) {
	if n == nil || n.edit != edit {
		return
	}
	yield(n)
	for _, x := range n.ends {
		x.madeBy(edit, yield)
	}
	if n.kids != nil {
		for _, k := range n.kids {
			k.madeBy(edit, yield)
		}
	}
}

// reference returns the reference to a node or a prefix.
func (n *trieNode) reference() uint32 {
	switch {
	case n == nil:
		return 0
	case n.kids == nil:
		return n.at
	}
	return nodeReference | uint32(n.nibble)<<nibbleShift | n.at
}

// write writes a node or a prefix, whose kids have blocks, to its block. A prefix hides what is more specific.
func (n *trieNode) write(block []byte) {
	if n.kids == nil {
		high, low := n.mask()
		for i, x := range [...]uint64{n.high, n.low, high, low} {
			native.PutUint64(block[8*i:], x)
		}
		return
	}
	var references [16]uint32
	for i, k := range n.kids {
		references[i] = k.reference()
	}
	for _, x := range slices.Backward(n.ends) {
		first, last := x.covers()
		for i := first; i <= last; i++ {
			references[i] = x.reference()
		}
	}
	for i, r := range references {
		native.PutUint32(block[4*i:], r)
	}
}
