// SPDX-License-Identifier: Apache-2.0

package classifier

// The writes of a change: the place of each new rule and node is allocated when the change is prepared, so that lack of
// space is known before anything happens.

import (
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
)

// draft contains allocated blocks that are not written yet.
type draft struct {
	b      *blocks
	taken  []run
	rules  []*rule
	nodes  []*node
	trees  []*tree
	hashes []freshHash
	forest uint32
	all    []tree
	full   bool
}

// draft allocates blocks for rules and trees that have none; nil if there is no room, and then nothing is allocated.
func (b *blocks) draft(trees []tree, fresh []*rule) *draft {
	d := &draft{b: b, all: trees}
	for _, r := range fresh {
		if r.at = d.take(r.size()); d.full {
			break
		}
		d.rules = append(d.rules, r)
	}
	for i := range trees {
		if t := &trees[i]; t.at == 0 && !d.full {
			d.node(t.root)
			t.at = d.take(1)
			d.trees = append(d.trees, t)
		}
	}
	if d.forest = d.forestBlock(); d.full {
		d.cancel()
		return nil
	}
	return d
}

// take returns a run, or 0 if there is none or an earlier call failed.
func (d *draft) take(count int) uint32 {
	if d.full {
		return 0
	}
	at := d.b.space.take(count)
	if at == 0 {
		d.full = true
		return 0
	}
	d.taken = append(d.taken, run{at, count})
	return at
}

// forestBlock allocates the block of a forest, and if rules match sets of addresses, the one before it.
func (d *draft) forestBlock() uint32 {
	if len(d.b.uses.sets) == 0 {
		return d.take(1)
	}
	return d.take(2) + 1
}

// node allocates blocks for everything below a node.
func (d *draft) node(n *node) {
	if n.at != 0 || d.full {
		return
	}
	if n.hash != nil {
		d.hash(n)
		return
	}
	for _, k := range n.kids {
		d.node(k)
	}
	count := n.run()
	if count == 0 {
		return
	}
	d.nodes = append(d.nodes, n)
	if n.kids == nil && n.group == nil {
		n.at = d.take(min(count, shortRun))
		for count -= shortRun; count > 0; count -= shortRun {
			n.more = append(n.more, d.take(min(count, shortRun)))
		}
		return
	}
	n.at = d.take(count)
	columns := n.searched()
	for i := range columns {
		columns[i].at = d.take(columns[i].run())
	}
}

// cancel frees the blocks, before anything in them was published.
func (d *draft) cancel() {
	for _, r := range d.taken {
		d.b.space.give(r.at, r.count)
	}
	for _, r := range d.rules {
		r.at = 0
	}
	for _, n := range d.nodes {
		n.at, n.more = 0, nil
	}
	for _, t := range d.trees {
		t.at = 0
	}
	for i := range d.hashes {
		d.hashes[i].cancel()
	}
	d.taken, d.rules, d.nodes, d.trees, d.hashes = nil, nil, nil, nil, nil
}

// write writes the blocks. Packets see none of them before the forest is published.
func (d *draft) write() {
	for _, r := range d.rules {
		d.b.rule(r)
	}
	for _, n := range d.nodes {
		d.b.node(n)
	}
	for i := range d.hashes {
		d.b.hash(&d.hashes[i])
	}
	for _, t := range d.trees {
		d.b.header(t.at, t.root)
	}
	d.b.forest(d.forest, d.all)
}

// blocksOf returns the number of blocks that trees and rules without blocks need, including the forest and the block before it.
func blocksOf(trees []tree, fresh []*rule) int {
	sum := 2 + ruleBlocks(fresh)
	for _, t := range trees {
		if t.at == 0 {
			sum += 1 + t.root.blocks()
		}
	}
	return sum
}

// spare is the space that edits need until blocks are free again, so that none has to rebuild all trees. One edit may
// create many groups.
func spare(need int, trees []tree) int {
	if len(trees) == 0 {
		return unit / 2 // a cube may have many sets, and no rules in most of them
	}
	for _, t := range trees {
		if t.root.hasGroup() {
			return need/2 + 1<<14
		}
	}
	return need/2 + 64
}

// blocks returns the number of blocks of a node and its descendants, without its first block.
func (n *node) blocks() int {
	if n.at != 0 {
		return 0
	}
	if n.hash != nil {
		return n.hashBlocks()
	}
	sum := n.run()
	for _, c := range n.searched() {
		sum += c.run()
	}
	for _, k := range n.kids {
		sum += k.blocks()
	}
	return sum
}

// run returns the number of blocks of a node without its first block and the columns of a group. Only those of a group
// or a branch must be consecutive.
func (n *node) run() int {
	switch {
	case n.kids != nil:
		return len(n.kids)
	case n.group != nil:
		return lists(len(n.rules))
	}
	return max(0, lists(len(n.rules))-1)
}

// runs returns the blocks of a node without its first, unless that is by itself.
func (n *node) runs(yield func(run)) {
	if n.head != 0 {
		yield(run{n.head, 1})
	}
	if n.hash != nil {
		n.hashRuns(yield)
		return
	}
	if n.at == 0 {
		return
	}
	count := n.run()
	if n.kids == nil && n.group == nil {
		yield(run{n.at, min(count, shortRun)})
		for _, at := range n.more {
			count -= shortRun
			yield(run{at, min(count, shortRun)})
		}
		return
	}
	yield(run{n.at, count})
	for _, c := range n.searched() {
		yield(run{c.at, c.run()})
	}
}

// lists returns the number of blocks of a leaf whose rules are tested one by one.
func lists(rules int) int { return (rules + blockRules - 1) / blockRules }

// ruleBlocks returns the number of blocks of rules, without the nodes that lead to them.
func ruleBlocks(rules []*rule) (sum int) {
	for _, r := range rules {
		sum += r.size()
	}
	return sum
}

// settle writes rules and trees to separate memory.
func settle(memory func(blocks int) (home, error), size int, trees []tree, rules []*rule, uses *used) (state, error) {
	home, err := memory(size)
	if err != nil {
		return state{}, err
	}
	is := state{rules: byOrders(rules), trees: trees, home: home, blocks: newBlocks(home.memory(), home.base()), uses: uses}
	is.blocks.uses = uses
	d := is.blocks.draft(trees, rules)
	if d == nil {
		return state{}, errors.Join(fmt.Errorf("%d rules exceed their memory: %w", len(rules), cube.ErrFull), home.close())
	}
	d.write()
	is.forest = d.forest
	return is, nil
}

func byOrders(rules []*rule) map[uint32]*rule {
	out := make(map[uint32]*rule, len(rules))
	for _, r := range rules {
		out[r.order] = r
	}
	return out
}
