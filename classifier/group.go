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
	rowSize     = groupRules / 8
)

// group is the search structure for the rules of a leaf.
type group struct {
	columns []column
	cost    float64
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
	return n
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

// newGroup chooses the most selective columns, as long as each is worth its cost.
func newGroup(rules []*rule) *group {
	g := &group{cost: nsGroup}
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
	left := float64(len(rules))
	for _, c := range all {
		if len(g.columns) == maxColumns || left*(1-c.share)*nsTry < c.cost() {
			break
		}
		g.columns = append(g.columns, c.column)
		g.cost += c.cost()
		left *= c.share
	}
	if g.cost += left * nsTry; left > groupTries {
		g.cost += float64(len(rules)) * nsLoopRule
	}
	return g
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
	return slices.Compact(ends)
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

// group writes a group except for its header.
func (b *blocks) group(n *node) {
	b.list(n.at, n.rules, 0)
	for i := range n.group.columns {
		c := &n.group.columns[i]
		b.column(c.at, c, n.rules)
	}
}

// groupHeader writes the first block of a group.
func (b *blocks) groupHeader(at uint32, n *node) {
	block := b.at(at)
	clear(block)
	native.PutUint32(block, n.rules[0].order)
	block[4], block[5] = isGroup, byte(len(n.group.columns))
	native.PutUint16(block[6:], uint16(len(n.rules)))
	native.PutUint32(block[8:], n.at)
	for i := range n.group.columns {
		native.PutUint32(block[12+4*i:], n.group.columns[i].at)
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
			rows[j*rowSize+i/8^bigEndian] |= 1 << (i % 8)
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
