// SPDX-License-Identifier: Apache-2.0

// Package classifier compiles ordered rules over packet fields into structures that the fast path searches
// (pcn/classify.h): the first matching rule wins. Rules are data. A change of some rules adds blocks next to those in
// use and then replaces one pointer, so a packet sees either the rules before the change or those after it.
//
//	s.rules = classifier.New(env, 0)                    // pcn_classify_set(md, 0) in C
//	plan, err := s.rules.Prepare([]classifier.Change{{Order: 7, Rule: &classifier.Rule{Match: m, Result: 3}}})
package classifier

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
)

// Rule contains the conditions of a rule, and the result that the program gets for it.
type Rule struct {
	Match
	// Result is read when the rule is committed.
	Result uint32
}

// SetResult sets the result, if it is known only when the rule is committed.
func (r *Rule) SetResult(result uint32) { r.Result = result }

// Change is a rule that is added, changed or, without Rule, removed. Rules with a lower order come first.
type Change struct {
	Order uint32
	Rule  *Rule
}

// MaxOrder is the highest order of a rule.
const MaxOrder = none - 1

// rebuildShare: a change of more than one rule in this many rebuilds all trees.
const rebuildShare = 8

// Set is an ordered set of rules of a cube. Its methods are called one at a time, like those of the cube.
type Set struct {
	store store
	state
	// prepared is the change that may be committed next.
	prepared *next
	// stale says that old can be freed: no packet uses it.
	stale bool
	old   home
	// making contains trees that are being rebuilt in the background, in a set of at least rebuildFrom rules; left
	// are discarded ones.
	making      *making
	left        []*making
	rebuildFrom int
}

// manyRules is the number of rules from which rebuilding takes longer than an edit should.
const manyRules = 256

// state is the state that a change replaces.
type state struct {
	rules map[uint32]*rule
	trees []tree
	// forest is the root block, blocks its memory: nil before the first commit.
	forest uint32
	blocks *blocks
	home   home
	// uses are the sets of addresses that programs look up.
	uses *used
	// reads are the fields that rules match, or have matched since the trees were built.
	reads uint32
	// edits counts the rules changed since the trees were built.
	edits int
}

// store is where packets find a set, and its memory.
type store interface {
	// maker returns a function that allocates memory for a number of blocks, which no packet sees yet. It may be
	// called in the background.
	maker() (func(blocks int) (home, error), error)
	// root is where packets find the set, publish replaces it by one store. The rest may only be called after maker.
	root() uint64
	publish(root uint64)
	// fields are the fields that packets are read for.
	fields() uint32
	setFields(fields uint32)
	// refer returns the numbers of sets of addresses, which are kept until unrefer names others.
	refer(names []string) ([]uint32, error)
	unrefer(but []string)
	// wait returns when no packet uses a root or fields that were replaced before.
	wait() error
	// settle says that packets use the set's own memory, not that of an earlier daemon.
	settle() error
	// close ends the use; packets may go on reading the memory that the set has.
	close(used []home) error
}

// home is the memory of a set.
type home interface {
	memory() []byte
	// base is the number of the first block.
	base() uint32
	// root is what to publish for a forest in a block.
	root(block uint32) uint64
	// close frees the memory, which no packet reads any more.
	close() error
}

// maxBlocks is the number of blocks in the largest memory.
const maxBlocks = partBlocks - unit

// sizes are the sizes of memory, in blocks.
var sizes = [...]int{unit, 1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 15, 1 << 16, 1 << 17, maxBlocks}

// New returns the set of a cube with a number, below eight. It uses no map before the steps of the first plan.
func New(env cube.Env, number uint32) *Set { return newSet(&pooled{env: env, number: number}) }

func newSet(s store) *Set {
	return &Set{store: s, state: state{rules: map[uint32]*rule{}, uses: &used{}}, rebuildFrom: manyRules}
}

// Len returns the number of rules.
func (s *Set) Len() int { return len(s.rules) }

// next is a prepared change.
type next struct {
	s       *Set
	changes []Change
	was     state // the state that undo restores
	fresh   []*rule
	gone    []*rule
	wasRoot uint64
	trees   []tree
	free    []run
	size    int // of rebuilt trees
	reads   uint32
	uses    *used
	draft   *draft  // new blocks in the current set, or a rebuilt one
	making  *making // its trees were built in the background
}

// Prepare checks changes and returns the steps that apply them. No two changes may have the same order. A previously
// prepared change cannot be committed any more.
func (s *Set) Prepare(changes []Change) (cube.Plan, error) {
	s.forget()
	if err := s.begin(); err != nil {
		return cube.Plan{}, err
	}
	n := &next{s: s, changes: changes}
	if err := n.check(); err != nil {
		return cube.Plan{}, err
	}
	n.uses = s.uses.with(n.fresh)
	if n.needsRebuild() || !n.adopt() && !n.edit() {
		if err := n.build(); err != nil {
			return cube.Plan{}, err
		}
	}
	s.prepared = n
	return cube.Plan{
		Before: []cube.Step{cube.Effect(func() (func() error, error) { return n.undo, n.commit() })},
		After:  []cube.Step{cube.Effect(func() (func() error, error) { return nil, s.freeUnused() })},
	}, nil
}

// forget discards a change that was prepared and not committed.
func (s *Set) forget() {
	if n := s.prepared; n != nil && n.draft != nil {
		n.draft.cancel()
	}
	s.prepared = nil
}

// needsRebuild reports whether a change rebuilds all trees while its request waits: there are none yet, they are few, or
// most of them change.
func (n *next) needsRebuild() bool {
	s := n.s
	return s.blocks == nil || n.uses == nil || len(n.changes)*rebuildShare > len(s.rules)+64 || s.isWornOut() && len(s.rules) < s.rebuildFrom
}

func (n *next) check() error {
	seen := make(map[uint32]bool, len(n.changes))
	for _, c := range n.changes {
		was := n.s.rules[c.Order]
		switch {
		case seen[c.Order]:
			return fmt.Errorf("rule %d: changed twice: %w", c.Order, cube.ErrExists)
		case c.Order > MaxOrder:
			return fmt.Errorf("rule %d: orders end at %d: %w", c.Order, uint32(MaxOrder), cube.ErrInvalid)
		case c.Rule == nil && was == nil:
			return fmt.Errorf("rule %d: %w", c.Order, cube.ErrNotFound)
		}
		seen[c.Order] = true
		if was != nil {
			n.gone = append(n.gone, was)
		}
		if c.Rule != nil {
			n.fresh = append(n.fresh, &rule{Rule: c.Rule, order: c.Order, box: c.Rule.box()})
		}
	}
	return nil
}

// edit changes the current trees; false if there is no room.
func (n *next) edit() bool {
	s := n.s
	e := edit{trees: slices.Clone(s.trees)}
	e.carry(n.gone, n.fresh)
	n.trees, n.free, n.reads = e.trees, append(e.free, s.uses.forest(s.forest)), s.reads|readsOf(n.fresh)
	s.blocks.uses = n.uses
	if s.blocks.usedCount < s.blocks.count()/8 {
		n.draft = s.blocks.draft(n.trees, n.fresh)
	}
	if n.draft == nil && s.store.wait() == nil {
		s.blocks.settle()
		n.draft = s.blocks.draft(n.trees, n.fresh)
	}
	return n.draft != nil
}

// adopt applies the change to trees that were built in the background, which replace the current ones; false if none
// are ready.
func (n *next) adopt() bool {
	m := n.s.ready(len(n.changes))
	if m == nil {
		return false
	}
	e := edit{trees: slices.Clone(m.trees)}
	gone := make([]*rule, len(n.gone))
	for i, r := range n.gone {
		gone[i] = m.copies[r]
	}
	e.carry(gone, n.fresh)
	m.blocks.uses = n.uses
	n.draft = m.blocks.draft(e.trees, n.fresh)
	if n.draft == nil {
		n.s.abandon()
		return false
	}
	n.making, n.trees, n.free, n.reads = m, e.trees, append(e.free, m.uses.forest(m.forest)), m.reads|readsOf(n.fresh)
	return true
}

// build rebuilds all trees and allocates memory for them.
func (n *next) build() error {
	all := n.after()
	for i, r := range all {
		// Blocks of a rule that stays belong to the old set as long as that is in use.
		all[i] = r.unwritten()
	}
	n.fresh, n.draft, n.making = all, nil, nil
	if n.uses = (&used{}).with(all); n.uses == nil {
		return tooManySets()
	}
	trees, size, ok := compile(all, nil)
	if !ok {
		return n.tooMany()
	}
	n.trees, n.size, n.reads = trees, size, readsOf(all)
	return nil
}

// readsOf returns the fields that rules match.
func readsOf(rules []*rule) (reads uint32) {
	for _, r := range rules {
		reads |= r.reads()
	}
	return reads
}

// compile builds trees of rules in order, and returns the blocks of memory for them; false if there is no room, or stop
// reports that they are not needed any more. Half of the largest memory is reserved for edits, if possible.
func compile(rules []*rule, stop *atomic.Bool) (trees []tree, size int, ok bool) {
	for _, room := range [...]int{maxBlocks / 2, maxBlocks} {
		if trees = forest(rules, room-ruleBlocks(rules), stop); trees != nil || len(rules) == 0 {
			break
		}
	}
	slices.SortFunc(trees, byBest)
	need := blocksOf(trees, rules) + 1
	at := 0
	for at < len(sizes)-1 && need+spare(need, trees) > sizes[at] {
		at++
	}
	return trees, sizes[at], need <= sizes[at] && (trees != nil || len(rules) == 0)
}

// byBest orders trees in the order of search.
func byBest(x, y tree) int { return int(int64(x.order) - int64(y.order)) }

// tooMany returns the error that there is no room, with the remedy.
func (n *next) tooMany() error {
	return fmt.Errorf("%d rules need more than the %d MB available for searching them, which are enough for 75000 to 100000 "+
		"rules of most kinds: join rules by prefixes and ranges, or divide them between cubes: %w", len(n.fresh), maxBlocks*blockSize>>20, cube.ErrFull)
}

// after returns the rules of the set after the change, in order.
func (n *next) after() []*rule {
	rules := make([]*rule, 0, len(n.s.rules)+len(n.fresh))
	changed := make(map[uint32]bool, len(n.changes))
	for _, c := range n.changes {
		changed[c.Order] = true
	}
	for _, r := range n.s.rules {
		if !changed[r.order] {
			rules = append(rules, r)
		}
	}
	rules = append(rules, n.fresh...)
	slices.SortFunc(rules, func(x, y *rule) int { return int(int64(x.order) - int64(y.order)) })
	return rules
}

func (n *next) commit() error {
	s := n.s
	if s.prepared != n {
		return fmt.Errorf("rules: another change was prepared after this one: %w", cube.ErrInvalid)
	}
	memory, err := s.store.maker()
	if err != nil {
		return err
	}
	n.was, n.wasRoot = s.state, s.store.root()
	if n.uses.numbers == nil {
		if n.uses.numbers, err = s.store.refer(n.uses.names()); err != nil {
			return err
		}
	}
	if err := s.read(n.reads); err != nil {
		return err
	}
	switch {
	case n.making != nil:
		return n.take()
	case n.draft == nil:
		return n.replace(memory)
	}
	n.write()
	s.publish()
	s.prepared = nil
	if s.making != nil {
		s.making.note(n.gone, n.fresh)
	}
	return nil
}

// read adds fields to those that packets are read for, before rules match them.
func (s *Set) read(fields uint32) error {
	was := s.store.fields()
	if was|fields == was {
		return nil
	}
	s.store.setFields(was | fields)
	if s.store.root() == 0 {
		return nil // packets search nothing yet
	}
	return s.store.wait()
}

// publish makes the current trees visible to packets.
func (s *Set) publish() {
	root := s.home.root(s.forest)
	if len(s.uses.sets) > 0 {
		root |= hasUsed
	}
	s.store.publish(root)
}

// freeUnused frees what the last change kept for its undo, and discarded trees.
func (s *Set) freeUnused() error {
	if err := s.sweep(false); err != nil || !s.stale {
		return err
	}
	if s.old != nil {
		if err := s.old.close(); err != nil {
			return err
		}
		s.old = nil
	}
	s.stale = false
	s.store.unrefer(s.uses.names())
	s.store.setFields(s.reads)
	return s.store.settle()
}

// write writes new blocks next to those in use.
func (n *next) write() {
	s := n.s
	n.draft.write()
	for _, r := range n.gone {
		delete(s.rules, r.order)
	}
	for _, r := range n.fresh {
		s.rules[r.order] = r
	}
	s.trees, s.forest, s.reads, s.uses = n.trees, n.draft.forest, n.reads, n.uses
	s.edits += len(n.changes)
	s.blocks.retire(n.free)
}

// take replaces the trees by those built in the background.
func (n *next) take() error {
	s, m := n.s, n.making
	s.state = state{rules: m.rules, blocks: m.blocks, home: m.home}
	n.write()
	s.edits = 0
	s.making = nil
	return n.switchOver()
}

// replace replaces the set by a new one.
func (n *next) replace(memory func(blocks int) (home, error)) error {
	s := n.s
	is, err := settle(memory, n.size, n.trees, n.fresh, n.uses)
	if err != nil {
		return err
	}
	s.abandon()
	is.reads = n.reads
	s.state = is
	return n.switchOver()
}

// switchOver makes new memory visible, and the old one unused.
func (n *next) switchOver() error {
	s := n.s
	s.publish()
	s.prepared = nil
	if n.was.home == nil {
		s.stale = true
		return nil
	}
	if err := s.store.wait(); err != nil {
		s.store.publish(n.wasRoot) // a packet may still read the new memory, so that stays allocated
		s.state = n.was
		return err
	}
	s.old, s.stale = n.was.home, true
	return nil
}

func (n *next) undo() error {
	s := n.s
	if n.draft == nil || n.making != nil {
		return n.switchBack()
	}
	for _, r := range n.fresh {
		delete(s.rules, r.order)
	}
	for _, r := range n.gone {
		s.rules[r.order] = r
	}
	s.store.publish(n.wasRoot)
	s.blocks.revive(n.draft.taken)
	s.state = n.was
	if s.making != nil {
		s.making.note(n.fresh, n.gone)
	}
	return nil
}

// switchBack restores the previous set.
func (n *next) switchBack() error {
	s, fresh := n.s, n.s.home
	s.store.publish(n.wasRoot)
	s.state, s.old, s.stale = n.was, nil, n.was.home != nil
	if err := s.store.wait(); err != nil {
		return err
	}
	return fresh.close()
}

// Close ends the use of the set; packets can still search it.
func (s *Set) Close() error {
	s.forget()
	s.abandon()
	err := s.sweep(true)
	var used []home
	for _, h := range []home{s.home, s.old} {
		if h != nil {
			used = append(used, h)
		}
	}
	s.home, s.old = nil, nil
	return errors.Join(err, s.store.close(used))
}
