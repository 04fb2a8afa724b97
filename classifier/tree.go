// SPDX-License-Identifier: Apache-2.0

package classifier

// Search trees over rules, which are boxes in the space of all fields. A branch divides a field's values into up to
// eight ranges, as HyperCuts (Singh et al., 2003) and HyperSplit (Qi et al., 2009) do, at boundaries of rules. If a
// field divides most rules of a node but many span the division, these move to the next tree, as in EffiCuts (Vamanan
// et al., 2010) and CutSplit (Li et al., 2018): each tree then has rules that constrain similar fields.

import (
	"cmp"
	"math"
	"slices"
	"sync/atomic"
)

// Limits of the fast path: those of classify.h.
const (
	maxBranches = 8
	blockRules  = 3 // rules in a leaf block
	maxTrees    = 7
	maxDepth    = 12
)

// Parameters of trees.
const (
	leafTarget    = 6 // rules with which a node is not divided; in a small set, where memory does not matter
	smallLeaf     = 4
	leafMost      = 15 // the same for an edit
	smallSet      = 128
	straightMost  = 64 // rules of a set that may be a list; edits may extend it to straightLater
	straightLater = 80
	groupFrom     = 40 // rules that may be a group; edits may reduce it to groupLeast
	groupLeast    = 24
	groupFill     = 192          // rules of a group where there are several, which leaves room for edits
	wideNode      = 32           // below this, rules across a branch stay
	acrossMax     = 6            // rules that may span most ranges of a branch
	sample        = 64           // rules that are examined to choose a field
	builtTrees    = maxTrees - 1 // the last one is for rules added later that would be everywhere in the others
)

// rule is a rule in a set.
type rule struct {
	*Rule
	order uint32
	box   *box
	at    uint32 // its first block
	left  bool   // the tree that is being built, for the next one
}

// node is a branch or a leaf. Nodes are immutable once a set uses them: an edit creates new ones on the path to the
// root.
type node struct {
	// A branch has kids, by ranges of a field that end with values.
	field  int
	values []uint64
	kids   []*node
	// A sequence has kids that are leaves, in the order of their rules, and columns that tell which of them may have a
	// rule that matches.
	sequence bool
	columns  []column
	// A leaf has rules in order.
	rules []*rule
	// group is set for a large leaf whose rules are searched by columns.
	group *group
	// hash is set for a table, which is the root of a tree: its kids are leaves, each with its first block at head.
	hash *hash
	head uint32
	// at is the first block of the kids, or of a leaf except for its first block; 0 until it is allocated. A long
	// leaf that is no group continues at more.
	at   uint32
	more []uint32
}

// kid returns the index of the branch for a value.
func (n *node) kid(value uint64) int {
	i := 0
	for _, v := range n.values {
		if value > v {
			i++
		}
	}
	return i
}

// reach returns the first and the last kid that contain a rule, or should.
func (n *node) reach(r *rule) (first, last int) {
	if n.sequence {
		at, found := slices.BinarySearchFunc(n.kids, r.order, func(k *node, order uint32) int { return byOrder(k.rules[0], order) })
		if !found {
			at = max(0, at-1)
		}
		return at, at
	}
	return n.kid(r.box.lo[n.field]), n.kid(r.box.hi[n.field])
}

// builder builds one tree.
type builder struct {
	spill   bool    // rules that span a branch may move to the next tree
	spilled []*rule // those that moved
	room    int     // references to rules that may still be created; below 0, leaves stay large
	ends    []uint64
	groups  bool // leaves may be groups
	stop    *atomic.Bool
	target  int // rules with which a node is not divided
	trees   int // how many there may be; 0: builtTrees
	// frugal branches only if that divides rules well: an edit must not make a tree much larger.
	frugal bool
}

// forest builds trees of ordered rules: the cheapest of the forms that fit; nil if none fits, or when stopped.
func forest(rules []*rule, room int, stop *atomic.Bool) []tree {
	var best []tree
	least := math.Inf(1)
	for _, how := range forms {
		if room <= 0 || least < how.from || how.most > 0 && len(rules) > how.most {
			continue
		}
		trees, cost := how.make(rules, stop)
		if stop != nil && stop.Load() {
			return nil
		}
		if cost < least && blocksOf(trees, nil) <= room {
			best, least = trees, cost
		}
	}
	return best
}

// forms are the search structures for a set.
var forms = []struct {
	make func(rules []*rule, stop *atomic.Bool) ([]tree, float64)
	most int     // rules; 0: any number
	from float64 // nanoseconds: if another form costs less, this one is not tried
}{{list, straightMost, 0}, {hashed, 0, nsTree + nsHash}, {branched, 0, 15}, {compact, 0, 100}, {sequences, 0, 100}}

// list tests rules one after the other.
func list(rules []*rule, _ *atomic.Bool) ([]tree, float64) {
	return single(&node{rules: slices.Clone(rules)}), nsHalf * listCost(len(rules))
}

// branched builds trees, if they divide the rules.
func branched(rules []*rule, stop *atomic.Bool) ([]tree, float64) {
	return trees(rules, builder{groups: true, stop: stop})
}

// compact builds trees that take little room.
func compact(rules []*rule, stop *atomic.Bool) ([]tree, float64) {
	return trees(rules, builder{groups: true, stop: stop, frugal: true})
}

// sequences are groups, searched one after the other.
func sequences(rules []*rule, _ *atomic.Bool) ([]tree, float64) {
	b := builder{groups: true}
	root := b.leaf(rules)
	return single(root), root.cost()
}

// single returns a tree of all rules, if there are any.
func single(root *node) []tree {
	count := root.weight()
	if count == 0 {
		return nil
	}
	return []tree{{root: root, rules: count, order: root.best()}}
}

// trees builds trees of rules as a builder does.
func trees(rules []*rule, how builder) ([]tree, float64) {
	var out []tree
	cost := 0.0
	how.target = leafTarget
	most := cmp.Or(how.trees, builtTrees)
	if len(rules) <= smallSet {
		how.target = smallLeaf
	}
	for len(rules) > 0 {
		b := how
		b.spill, b.room = len(out) < most-1, 24*len(rules)+4096
		root := b.node(rules, everything(), 0)
		if len(b.spilled) > 0 {
			root.removeMoved()
		}
		out = append(out, tree{root: root, rules: len(rules) - len(b.spilled), order: root.best()})
		cost += nsTree + root.cost()
		for _, r := range b.spilled {
			r.left = false
		}
		slices.SortFunc(b.spilled, func(x, y *rule) int { return byOrder(x, y.order) })
		rules = b.spilled
	}
	return out, cost
}

// removeMoved removes rules that moved at another node: a rule is in all leaves of a tree that it reaches, or in none.
func (n *node) removeMoved() {
	if n.sequence {
		*n = *(&builder{groups: true}).leaf(n.all())
	}
	before := len(n.rules)
	n.rules = slices.DeleteFunc(n.rules, func(r *rule) bool { return r.left })
	if n.group != nil && len(n.rules) != before {
		n.regroup()
	}
	if n.sequence {
		return
	}
	for _, k := range n.kids {
		k.removeMoved()
	}
}

// all returns the rules of a sequence that have not moved.
func (n *node) all() (rules []*rule) {
	for _, k := range n.kids {
		for _, r := range k.rules {
			if !r.left {
				rules = append(rules, r)
			}
		}
	}
	return rules
}

// tree is a tree of a set.
type tree struct {
	root  *node
	at    uint32 // the block of the root
	order uint32 // no rule in it precedes it
	rules int
}

// best returns the lowest order of the rules below a node.
func (n *node) best() uint32 {
	if n.kids == nil {
		if len(n.rules) == 0 {
			return none
		}
		return n.rules[0].order
	}
	best := uint32(none)
	for _, k := range n.kids {
		best = min(best, k.best())
	}
	return best
}

// node builds the tree of the rules in a box.
func (b *builder) node(rules []*rule, in *box, depth int) *node {
	if b.stop != nil && b.stop.Load() {
		return &node{rules: rules} // not needed any more
	}
	if len(rules) <= b.target || depth >= maxDepth || b.room < 0 {
		return b.leaf(rules)
	}
	n := b.choose(rules, in)
	if n == nil {
		return b.leaf(rules)
	}
	if b.mayMove(rules) {
		if stay := b.leave(n, rules); len(stay) < len(rules) {
			return b.node(stay, in, depth)
		}
	}
	parts := make([][]*rule, len(n.values)+1)
	for _, r := range rules {
		first, last := n.reach(r)
		for i := first; i <= last; i++ {
			parts[i] = append(parts[i], r)
		}
	}
	lo, hi := in.lo[n.field], in.hi[n.field]
	for i, part := range parts {
		if i > 0 {
			in.lo[n.field] = n.values[i-1] + 1
		}
		in.hi[n.field] = hi
		if i < len(n.values) {
			in.hi[n.field] = n.values[i]
		}
		n.kids = append(n.kids, b.node(part, in, depth+1))
	}
	in.lo[n.field], in.hi[n.field] = lo, hi
	if b.groups && len(rules) > groupFrom && len(rules) <= groupRules && n.cost() > nsColumns {
		if flat := b.leaf(rules); flat.cost() <= n.cost() {
			return flat
		}
	}
	return n
}

// leaf returns a leaf, a leaf whose rules are a group, or a sequence of these.
func (b *builder) leaf(rules []*rule) *node {
	b.room -= len(rules)
	n := &node{rules: slices.Clone(rules)}
	if !b.groups || len(rules) <= groupFrom {
		return n
	}
	if len(rules) <= groupRules {
		if g := newGroup(rules); g.cost < listCost(len(rules)) {
			n.group = g
		}
		return n
	}
	return grouped(rules)
}

// mayMove reports whether rules of a node may move: a few of them can as well be tested one by one.
func (b *builder) mayMove(rules []*rule) bool { return b.spill && len(rules) > wideNode }

// across reports whether a rule spans more than half of a branch's ranges.
func (n *node) across(r *rule) bool {
	first, last := n.reach(r)
	return last > first && 2*(last-first+1) > len(n.values)+1
}

// leave removes the rules that span a branch, if they are many, and returns the others.
func (b *builder) leave(n *node, rules []*rule) []*rule {
	count := 0
	for _, r := range rules {
		if n.across(r) {
			count++
		}
	}
	if count <= acrossMax || count == len(rules) {
		return rules
	}
	stay := make([]*rule, 0, len(rules)-count)
	for _, r := range rules {
		switch {
		case !n.across(r):
			stay = append(stay, r)
		case !r.left:
			r.left = true
			b.spilled = append(b.spilled, r)
		}
	}
	return stay
}

// choose finds the field, and its values, that divide rules best: nil if none does.
func (b *builder) choose(rules []*rule, in *box) *node {
	if len(rules) > sample {
		if n := b.chooseOf(thin(rules), in, b.mayMove(rules)); n != nil {
			return n
		}
	}
	return b.chooseOf(rules, in, b.mayMove(rules))
}

// thin returns an evenly spaced sample.
func thin(rules []*rule) []*rule {
	out := make([]*rule, sample)
	for i := range out {
		out[i] = rules[i*len(rules)/sample]
	}
	return out
}

func (b *builder) chooseOf(rules []*rule, in *box, spill bool) *node {
	var best *node
	least, grow := float64(len(rules))*0.9, 4 // below this, a branch is not worth it
	if b.frugal {
		least, grow = float64(len(rules))*0.6, 2
	}
	for f := range fields {
		values := b.divide(rules, in, f)
		if len(values) == 0 {
			continue
		}
		n := &node{field: f, values: values}
		if c := n.found(rules, spill, grow); c < least {
			least, best = c, n
		}
	}
	return best
}

// found returns the expected number of rules after a branch, which may multiply them by up to grow. If rules that span
// it move, they cost a separate search, as if half of them were found.
func (n *node) found(rules []*rule, spill bool, grow int) float64 {
	var steps, wide [maxBranches + 1]int
	across := 0
	for _, r := range rules {
		first, last := n.reach(r)
		at := &steps
		if last > first && 2*(last-first+1) > len(n.values)+1 {
			at = &wide
			across++
		}
		at[first]++
		at[last+1]--
	}
	leave := spill && across*sample > acrossMax*len(rules) && across < len(rules)
	part, sum, squares := 0, 0, 0
	for i := range len(n.values) + 1 {
		part += steps[i]
		if !leave {
			part += wide[i]
		}
		sum += part
		squares += part * part
	}
	cost := float64(squares) / float64(max(sum, 1))
	switch {
	case leave:
		return cost + float64(across)/2
	case sum > grow*len(rules):
		return float64(len(rules))
	}
	return cost
}

// divide finds up to seven values of a field, each the last of a range, so that each range has about the same number of
// rule boundaries.
func (b *builder) divide(rules []*rule, in *box, f int) []uint64 {
	lo, hi := in.lo[f], in.hi[f]
	ends := b.ends[:0]
	for _, r := range rules {
		if l := r.box.lo[f]; l > lo {
			ends = append(ends, l-1)
		}
		if h := r.box.hi[f]; h < hi {
			ends = append(ends, h)
		}
	}
	b.ends = ends
	if len(ends)*8 < len(rules) {
		return nil
	}
	slices.Sort(ends)
	var values []uint64
	for i, v := range ends {
		if i == 0 || v > ends[i-1] {
			if values = append(values, v); len(values) == maxBranches {
				break
			}
		}
	}
	if len(values) < maxBranches {
		return values
	}
	values = values[:0]
	for i := 1; i < maxBranches; i++ {
		v := ends[i*len(ends)/maxBranches]
		if len(values) == 0 || v > values[len(values)-1] {
			values = append(values, v)
		}
	}
	return values
}
