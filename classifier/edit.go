// SPDX-License-Identifier: Apache-2.0

package classifier

// Adding and removing single rules in trees that are in use: the nodes from the affected leaves to the root are
// replaced, everything else stays.

import (
	"slices"
)

// How many leaves an edit should change; a rule that is in more leaves of every tree gets its own tree.
const (
	fewLeaves  = 16
	manyLeaves = 512
	// groupLeaves is the number of leaves that takes as long as a group.
	groupLeaves = 32
)

// edit is a change of trees: nodes that are new, and blocks that become unused.
type edit struct {
	trees []tree
	free  []run
}

// carry removes rules and adds others.
func (e *edit) carry(gone, fresh []*rule) {
	for _, r := range gone {
		e.remove(r)
		if r.at != 0 {
			e.free = append(e.free, run{r.at, r.size()})
		}
	}
	for _, r := range fresh {
		e.add(r)
	}
	slices.SortFunc(e.trees, byBest)
}

// run is a number of consecutive blocks.
type run struct {
	at    uint32
	count int
}

// leaves counts the leaves that contain a rule, or would, up to a limit.
func (n *node) leaves(r *rule, limit int) int {
	switch {
	case n.hash != nil:
		return manyLeaves // it does not fit
	case n.group != nil:
		return groupLeaves
	case n.kids == nil:
		return 1
	}
	first, last := n.reach(r)
	count := 0
	for i := first; i <= last && count < limit; i++ {
		count += n.kids[i].leaves(r, limit-count)
	}
	return count
}

// add adds a rule to the tree where it costs least.
func (e *edit) add(r *rule) {
	best := e.cheapest(r)
	if best < 0 && len(e.trees) < maxTrees {
		e.trees = append(e.trees, tree{root: &node{rules: []*rule{r}}, order: r.order, rules: 1})
		return
	}
	if best < 0 {
		best = e.smallest()
	}
	t := &e.trees[best]
	e.release(t)
	t.root = e.insert(t.root, r, everything(), 0)
	t.order = min(t.order, r.order)
	t.rules++
}

// cheapest returns the tree where a rule changes the fewest leaves, or few of them; a table that it fits into, if there is
// one; -1 if it changes too many in all.
func (e *edit) cheapest(r *rule) int {
	for i := range e.trees {
		if h := e.trees[i].root.hash; h != nil && h.mask.within(r.tuple()) {
			return i
		}
	}
	best, least := -1, manyLeaves
	for i := range e.trees {
		c := e.trees[i].root.leaves(r, least)
		if c < least {
			best, least = i, c
		}
		if least <= fewLeaves {
			break
		}
	}
	return best
}

// smallest returns the tree with the fewest rules that may have any rule.
func (e *edit) smallest() int {
	at := -1
	for i := range e.trees {
		if e.trees[i].root.hash == nil && (at < 0 || e.trees[i].rules < e.trees[at].rules) {
			at = i
		}
	}
	return at
}

// release frees the block of a tree's root.
func (e *edit) release(t *tree) {
	if t.at != 0 {
		e.free = append(e.free, run{t.at, 1})
		t.at = 0
	}
}

// replaced frees the blocks of a node that was replaced.
func (e *edit) replaced(n *node) {
	n.runs(func(r run) { e.free = append(e.free, r) })
}

func (e *edit) insert(n *node, r *rule, in *box, depth int) *node {
	if n.hash != nil {
		return e.insertHashed(n, r)
	}
	e.replaced(n)
	if n.kids == nil {
		return e.grow(n, r, in, depth)
	}
	out := &node{field: n.field, values: n.values, sequence: n.sequence, kids: slices.Clone(n.kids)}
	first, last := n.reach(r)
	if n.sequence {
		e.replaced(n.kids[first])
		kid := grouped(with(n.kids[first].rules, r))
		if kid.sequence {
			out.kids = slices.Replace(out.kids, first, first+1, kid.kids...)
		} else {
			out.kids[first] = kid
		}
		out.columns = columnsOf(out.boxes())
		return out
	}
	lo, hi := in.lo[n.field], in.hi[n.field]
	for i := first; i <= last; i++ {
		in.lo[n.field], in.hi[n.field] = lo, hi
		if i > 0 {
			in.lo[n.field] = n.values[i-1] + 1
		}
		if i < len(n.values) {
			in.hi[n.field] = n.values[i]
		}
		out.kids[i] = e.insert(n.kids[i], r, in, depth+1)
	}
	in.lo[n.field], in.hi[n.field] = lo, hi
	return out
}

// grow adds a rule to a leaf. A leaf that is a whole tree may be longer: it is converted to branches later than in a
// new set.
func (e *edit) grow(n *node, r *rule, in *box, depth int) *node {
	rules := with(n.rules, r)
	switch {
	case n.group != nil:
		return grouped(rules)
	case len(rules) <= leafMost || depth == 0 && len(rules) <= straightLater:
		return &node{rules: rules}
	}
	b := builder{target: leafTarget, room: 8 * len(rules), frugal: true, groups: true}
	return b.node(rules, in, depth)
}

// with returns rules and one more.
func with(rules []*rule, r *rule) []*rule {
	at, _ := slices.BinarySearchFunc(rules, r.order, byOrder)
	return slices.Insert(slices.Clone(rules), at, r)
}

func byOrder(r *rule, order uint32) int { return int(int64(r.order) - int64(order)) }

// remove removes a rule from its tree.
func (e *edit) remove(r *rule) {
	for i := range e.trees {
		t := &e.trees[i]
		if !t.root.has(r) {
			continue
		}
		e.release(t)
		t.rules--
		if t.rules == 0 {
			e.drop(t.root)
			e.trees = slices.Delete(e.trees, i, i+1)
			return
		}
		t.root = e.without(t.root, r)
		return
	}
}

// has reports whether a rule is below a node: if so, it is in all leaves that it reaches.
func (n *node) has(r *rule) bool {
	if n.hash != nil {
		kid, ok := n.hash.find(r)
		return ok && n.hash.mask.within(r.tuple()) && n.kids[kid].has(r)
	}
	for n.kids != nil {
		first, _ := n.reach(r)
		n = n.kids[first]
	}
	at, ok := slices.BinarySearchFunc(n.rules, r.order, byOrder)
	return ok && n.rules[at] == r
}

func (e *edit) without(n *node, r *rule) *node {
	if n.hash != nil {
		return e.removeHashed(n, r)
	}
	e.replaced(n)
	if n.kids == nil {
		out := &node{rules: slices.DeleteFunc(slices.Clone(n.rules), func(x *rule) bool { return x == r })}
		if n.group != nil {
			out.regroup()
		}
		return out
	}
	out := &node{field: n.field, values: n.values, sequence: n.sequence, kids: slices.Clone(n.kids)}
	first, last := n.reach(r)
	for i := first; i <= last; i++ {
		out.kids[i] = e.without(n.kids[i], r)
	}
	if !n.sequence {
		return out
	}
	if len(out.kids[first].rules) == 0 {
		out.kids = slices.Delete(out.kids, first, first+1)
	}
	if len(out.kids) == 0 {
		return &node{}
	}
	out.columns = columnsOf(out.boxes())
	return out
}

// drop frees everything below a node.
func (e *edit) drop(n *node) {
	e.replaced(n)
	for _, k := range n.kids {
		e.drop(k)
	}
}
