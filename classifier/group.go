// SPDX-License-Identifier: Apache-2.0

package classifier

// Groups: rules that branches do not divide well, as bit vectors (Lakshman and Stiliadis, 1998). A column divides one
// field into ranges at the boundaries of rules, each with a bit for every rule of the group in that range. The rules
// that remain after intersecting a packet's columns are tested in order, so columns need not be exact.

import "slices"

// The limits of classify_tree.h.
const (
	groupRules  = 256
	maxColumns  = 6
	columnDepth = 3
	// columnRanges is the maximum number of ranges of a column: maxBranches to the power of columnDepth.
	columnRanges = maxBranches * maxBranches * maxBranches
	rowSize      = groupRules / 8
	// groupParts is the maximum number of bits of a group in the columns of a sequence.
	groupParts = 4
)

// group is the search structure for the rules of a leaf.
type group struct {
	columns []column
	cost    float64
	parts   [groupParts]box
}

// column contains the ranges of a field, as the last values of all but the last one.
type column struct {
	field int
	ends  []uint64
	at    uint32 // its first block
}

// grouped returns a leaf whose rules are a group, or a sequence of groups.
func grouped(rules []*rule) *node {
	if len(rules) <= groupRules {
		return &node{rules: slices.Clone(rules), group: newGroup(rules)}
	}
	n := &node{sequence: true}
	fill := min(groupFill, (len(rules)+1)/2)
	for part := range slices.Chunk(rules, fill) {
		n.kids = append(n.kids, grouped(part))
	}
	n.columns = columnsOf(n.boxes())
	return n
}

// boxes are what the bits of columns are for: the rules of a group; for a sequence, the boxes around parts of each kid's
// rules.
func (n *node) boxes() []*rule {
	if !n.sequence {
		return n.rules
	}
	each := 1 << n.bitShift()
	boxes := make([]*rule, 0, len(n.kids)*each)
	for _, k := range n.kids {
		parts := k.parts()
		for i := range each {
			one := parts[i*groupParts/each]
			for _, other := range parts[i*groupParts/each+1 : (i+1)*groupParts/each] {
				one.extend(&other)
			}
			boxes = append(boxes, &rule{box: &one})
		}
	}
	return boxes
}

// bitShift is the binary logarithm of the number of bits of each kid in the columns of a sequence. Kids share bits if
// they are more than there are bits.
func (n *node) bitShift() int {
	shift := 0
	for 2<<shift <= groupParts && len(n.kids)*2<<shift <= groupRules {
		shift++
	}
	return shift
}

// columnsOf returns the columns of a sequence.
func columnsOf(boxes []*rule) []column {
	columns, _ := choose(boxes, nsGroup)
	return columns
}

// parts returns the boxes around parts of the rules of a leaf.
func (n *node) parts() *[groupParts]box {
	if n.group != nil {
		return &n.group.parts
	}
	parts := partsOf(n.rules)
	return &parts
}

// partsOf divides rules, and returns the box around each part, of at least one rule.
func partsOf(rules []*rule) (parts [groupParts]box) {
	for i := range parts {
		first, end := i*len(rules)/groupParts, (i+1)*len(rules)/groupParts
		parts[i] = *rules[first].box
		for _, r := range rules[first:max(first, end)] {
			parts[i].extend(r.box)
		}
	}
	return parts
}

// extend makes a box contain another one.
func (b *box) extend(other *box) {
	for f := range fields {
		b.lo[f], b.hi[f] = min(b.lo[f], other.lo[f]), max(b.hi[f], other.hi[f])
	}
}

// hasGroup reports whether there is a group below a node.
func (n *node) hasGroup() bool {
	return n.group != nil || slices.ContainsFunc(n.kids, (*node).hasGroup)
}

// regroup rebuilds the group of a leaf with fewer rules, if there are still enough.
func (n *node) regroup() {
	n.group = nil
	if len(n.rules) >= groupLeast {
		n.group = newGroup(n.rules)
	}
}

func newGroup(rules []*rule) *group {
	g := &group{cost: nsGroup, parts: partsOf(rules)}
	var left float64
	g.columns, left = choose(rules, nsTry)
	for i := range g.columns {
		g.cost += g.columns[i].cost()
	}
	if g.cost += left * nsTry; left > groupTries {
		g.cost += float64(len(rules)) * nsLoopRule
	}
	return g
}

// choose returns the most selective columns, as long as each is worth its cost, and how many rules remain on average.
// Each rule that it excludes saves some nanoseconds.
func choose(rules []*rule, saves float64) (columns []column, left float64) {
	type choice struct {
		column
		share float64
	}
	var all []choice
	for f := range fields {
		ends := endsOf(rules, f)
		if len(ends) > 0 {
			c := column{field: f, ends: ends}
			all = append(all, choice{c, c.share(rules)})
		}
	}
	slices.SortStableFunc(all, func(x, y choice) int {
		switch {
		case x.share < y.share:
			return -1
		case x.share > y.share:
			return 1
		}
		return 0
	})
	left = float64(len(rules))
	for _, c := range all {
		if len(columns) == maxColumns || left*(1-c.share)*saves < c.cost() {
			break
		}
		columns = append(columns, c.column)
		left *= c.share
	}
	return columns, left
}

// endsOf returns the boundaries of rules in a field: the last value of each range but the last.
func endsOf(rules []*rule, f int) []uint64 {
	var ends []uint64
	last := fields[f].cut(^uint64(0))
	for _, r := range rules {
		if l := r.box.lo[f]; l > 0 {
			ends = append(ends, l-1)
		}
		if h := r.box.hi[f]; h < last {
			ends = append(ends, h)
		}
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	// If there are too many, ranges are wider: a rule's bit is set in all that contain a part of it.
	for len(ends) >= columnRanges {
		for i := range len(ends) / 2 {
			ends[i] = ends[2*i]
		}
		ends = ends[:len(ends)/2]
	}
	return ends
}

// share returns the average fraction of rules in the range of a rule.
func (c *column) share(rules []*rule) float64 {
	steps := make([]int, len(c.ends)+2)
	for _, r := range rules {
		first, last := c.reach(r)
		steps[first]++
		steps[last+1]--
	}
	at, sum, squares := 0, 0, 0
	for _, s := range steps {
		at += s
		sum += at
		squares += at * at
	}
	return float64(squares) / float64(max(sum, 1)) / float64(len(rules))
}

// reach returns the first and the last range that contain a rule.
func (c *column) reach(r *rule) (first, last int) {
	first, _ = slices.BinarySearch(c.ends, r.box.lo[c.field])
	last, _ = slices.BinarySearch(c.ends, r.box.hi[c.field])
	return first, last
}

// levels returns the numbers of branches per level, from the root.
func (c *column) levels() []int {
	var out []int
	for count := len(c.ends) + 1; len(out) == 0 || out[0] > 1; {
		count = (count + maxBranches - 1) / maxBranches
		out = slices.Insert(out, 0, count)
	}
	return out
}

// run returns the number of blocks of a column.
func (c *column) run() int {
	count := len(c.ends)/2 + 1 // half a block of bits for each range
	for _, n := range c.levels() {
		count += n
	}
	return count
}

func (c *column) cost() float64 { return nsColumn + nsVisit*float64(len(c.levels())) }

// searched returns the columns of a group or a sequence.
func (n *node) searched() []column {
	switch {
	case n.sequence:
		return n.columns
	case n.group != nil:
		return n.group.columns
	}
	return nil
}

// allColumns writes the columns of a group or a sequence.
func (b *blocks) allColumns(n *node) {
	boxes := n.boxes()
	for i := range n.searched() {
		c := &n.searched()[i]
		b.column(c.at, c, boxes)
	}
}

// groupHeader writes the first block of a group.
func (b *blocks) groupHeader(at uint32, n *node) {
	block := b.columnHeader(at, n)
	native.PutUint32(block, n.rules[0].order)
	block[4] = isGroup
	native.PutUint16(block[6:], uint16(len(n.rules)))
	native.PutUint32(block[8:], n.at)
}

// columnHeader writes what the first blocks of groups and sequences have in common.
func (b *blocks) columnHeader(at uint32, n *node) []byte {
	block, columns := b.at(at), n.searched()
	clear(block)
	block[5] = byte(len(columns))
	for i := range columns {
		native.PutUint32(block[12+4*i:], columns[i].at)
	}
	return block
}

// sequenceHeader writes the first block of a sequence.
func (b *blocks) sequenceHeader(at uint32, n *node) {
	block := b.columnHeader(at, n)
	native.PutUint32(block, n.at)
	block[4] = isSequence
	native.PutUint32(block[8:], uint32(len(n.kids)))
	native.PutUint32(block[36:], uint32(n.bitShift()))
	if len(n.columns) > 0 {
		native.PutUint32(block[40:], 1<<(1<<n.bitShift())-1)
	}
}

// column writes the branches of a column, level by level, and then the bits.
func (b *blocks) column(at uint32, c *column, rules []*rule) {
	levels := c.levels()
	span := 1 // ranges below one kid of a branch
	for range len(levels) - 1 {
		span *= maxBranches
	}
	for i, count := range levels {
		last := i == len(levels)-1
		for j := range count {
			var values []uint64
			for k := 1; k < maxBranches; k++ {
				if end := (j*maxBranches+k)*span - 1; end < len(c.ends) {
					values = append(values, c.ends[end])
				}
			}
			first := at + uint32(count)
			if last {
				first *= 2
			}
			b.branch(at+uint32(j), first+uint32(j*maxBranches), fields[c.field], values, last)
		}
		at += uint32(count)
		span /= maxBranches
	}
	rows := b.mem[int(at-b.base)*blockSize:][:(len(c.ends)/2+1)*blockSize]
	clear(rows)
	for i, r := range rules {
		first, last := c.reach(r)
		for j := first; j <= last; j++ {
			rows[j*rowSize+i%groupRules/8^bigEndian] |= 1 << (i % 8)
		}
	}
}

// bigEndian is 7 if the first byte of a number is the most significant.
var bigEndian = func() int {
	if native.Uint16([]byte{1, 0}) == 1 {
		return 0
	}
	return 7
}()
