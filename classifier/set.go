// SPDX-License-Identifier: Apache-2.0

// Package classifier compiles ordered rules over the fields of packets into what the fast path searches
// (pcn/classify.h): the first rule that matches wins. Rules are data. A change of some rules adds blocks beside those in
// use and then turns one pointer, so a packet sees the rules before the change or those after it.
//
//	s.rules = classifier.New(env, "rules")              // PCN_CLASSIFIER(rules) in C
//	plan, err := s.rules.Prepare([]classifier.Change{{Order: 7, Rule: &classifier.Rule{Match: m, Result: 3}}})
package classifier

import (
	"errors"
	"fmt"
	"slices"

	"github.com/polycube/polycube/cube"
)

// Rule is what is looked for, and what the program gets when it is found.
type Rule struct {
	Match
	// Result is read when the rule is committed.
	Result uint32
}

// Change is a rule that comes, changes or, without Rule, goes. Rules with a lower order come first.
type Change struct {
	Order uint32
	Rule  *Rule
}

// MaxOrder is the highest order that a rule can have.
const MaxOrder = none - 1

// rebuildShare: a change of more than one rule of so many makes all trees anew.
const rebuildShare = 8

// Set is an ordered set of rules of a cube. Its methods are called in turn, like those of the cube.
type Set struct {
	store store
	state
	// stale says that the next commit may do away with old, and with what is in other places.
	stale bool
	old   home
	// making are trees that are being made beside the work, in a set of at least so many rules.
	making *making
	beside int
}

// manyRules are so many that to make their trees takes longer than an edit may.
const manyRules = 2000

// allRules are so many that all is read that a rule can look at: an edit then never links programs.
const allRules = 1000

// state is what a change replaces.
type state struct {
	rules map[uint32]*rule
	trees []tree
	// forest is the block that packets begin with, blocks where it is: nil before the first commit.
	forest uint32
	blocks *blocks
	home   home
	place  place
	// edits counts the rules that were changed since the trees were built.
	edits int
}

// place is where a set is, and what its programs read: constants of the programs.
type place struct{ size, slot, reads uint32 }

// store makes memory for sets: the maps of a cube.
type store interface {
	// name is that of PCN_CLASSIFIER.
	name() string
	// make returns memory that no packet sees yet.
	make(size uint32) (home, error)
	// clear takes away what is in other places than one.
	clear(keep place) error
}

// home is where the blocks of a set are.
type home interface {
	memory() []byte
	// put lets packets that look at a slot see the memory; when it returns, none sees what was there before, nor what
	// was in the memory before.
	put(slot uint32) error
	close() error
}

// maxBlocks is the size of the largest map.
const maxBlocks = 1 << 18

// sizes are those of the maps, in blocks.
var sizes = [...]int{1 << 10, 1 << 13, 1 << 16, maxBlocks}

// New returns the set that PCN_CLASSIFIER(name) declares. It touches no map before the first commit.
func New(env cube.Env, name string) *Set { return newSet(&maps{env: env, prefix: name}) }

func newSet(s store) *Set {
	return &Set{store: s, state: state{rules: map[uint32]*rule{}}, beside: manyRules}
}

// Len is the number of rules.
func (s *Set) Len() int { return len(s.rules) }

// next is a change that is prepared.
type next struct {
	s       *Set
	changes []Change
	was     state // what undo goes back to
	fresh   []*rule
	gone    []*rule
	trees   []tree
	free    []run
	place   place
	rebuild bool
	adopted bool // its trees were made beside the work
	taken   []run
}

// Prepare checks changes and returns what carries them out; the constants of the plan are those of the program. No two
// changes may be of the same order.
func (s *Set) Prepare(changes []Change) (cube.Plan, error) {
	n := &next{s: s, changes: changes, place: s.place}
	if err := n.check(); err != nil {
		return cube.Plan{}, err
	}
	reads := s.place.reads
	for _, r := range n.fresh {
		reads |= r.reads()
	}
	n.rebuild = s.blocks == nil || reads != s.place.reads || len(changes)*rebuildShare > len(s.rules)+64 ||
		s.worn() && len(s.rules) < s.beside
	if !n.rebuild {
		if m := s.ready(); m != nil {
			n.adopt(m)
		} else {
			n.edit()
		}
	}
	if n.rebuild {
		if err := n.build(); err != nil {
			return cube.Plan{}, err
		}
	}
	name := s.store.name()
	return cube.Plan{
		Constants: map[string]any{name + "_size": n.place.size, name + "_slot": n.place.slot, name + "_fields": n.place.reads},
		Commit:    n.commit, Undo: n.undo,
	}, nil
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

// edit changes the trees that there are, or leaves it to build where there is no room.
func (n *next) edit() {
	e := edit{trees: slices.Clone(n.s.trees)}
	for _, r := range n.gone {
		e.remove(r)
		e.free = append(e.free, run{r.at, r.size()})
	}
	for _, r := range n.fresh {
		e.add(r)
	}
	e.free = append(e.free, run{n.s.forest, 1})
	slices.SortFunc(e.trees, func(x, y tree) int { return int(int64(x.order) - int64(y.order)) })
	if fits, _ := n.s.blocks.fits(needs(e.trees, n.fresh)); !fits {
		n.rebuild = true
		return
	}
	n.trees, n.free = e.trees, e.free
}

// build makes all trees anew, if there are none yet, and finds room for them.
func (n *next) build() error {
	if !n.adopted {
		all := n.after()
		for i, r := range all {
			// Blocks of a rule that stays are those of the old set as long as that is in use.
			all[i] = r.unwritten()
		}
		n.fresh, n.trees = all, forest(all, maxBlocks-ruleBlocks(all), nil)
		if len(all) > 0 && n.trees == nil {
			return n.tooMany()
		}
	}
	n.place.reads = 0
	for _, r := range n.fresh {
		n.place.reads |= r.reads()
	}
	if len(n.fresh) > allRules {
		n.place.reads = readAll
	}
	slices.SortFunc(n.trees, func(x, y tree) int { return int(int64(x.order) - int64(y.order)) })
	need := total(needs(n.trees, n.fresh)) + 1
	size := 0
	for size < len(sizes)-1 && need+spare(need, n.trees) > sizes[size] {
		size++
	}
	if need > sizes[size] {
		return n.tooMany()
	}
	n.place.size = uint32(size)
	if n.s.blocks != nil {
		n.place.slot = n.s.place.slot
		if n.place != n.s.place {
			n.place.slot ^= 1
		}
	}
	return nil
}

// spare is what edits need until blocks are free again, so that none has to make all trees anew. One may make many groups.
func spare(need int, trees []tree) int {
	for _, t := range trees {
		if t.root.hasGroup() {
			return need/2 + 1<<14
		}
	}
	return need/2 + 64
}

// tooMany says that there is no room, and what can be done.
func (n *next) tooMany() error {
	return fmt.Errorf("%d rules take more than the %d MB that there are for searching them, which have room for 75000 to 100000 "+
		"of most kinds: join rules by prefixes and ranges, or divide them between cubes: %w", len(n.fresh), maxBlocks*blockSize>>20, cube.ErrFull)
}

// after are the rules of the set after the change, in their order.
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
	if err := s.tidy(); err != nil {
		return err
	}
	n.was = s.state
	if n.rebuild {
		return n.replace()
	}
	return n.change()
}

// tidy does away with what the last change left for its undo.
func (s *Set) tidy() error {
	if !s.stale {
		return nil
	}
	if s.old != nil {
		if err := s.old.close(); err != nil {
			return err
		}
		s.old = nil
	}
	s.stale = false
	return s.store.clear(s.place)
}

// change writes what is new beside what is in use.
func (n *next) change() error {
	s := n.s
	if _, settle := s.blocks.fits(needs(n.trees, n.fresh)); settle {
		if err := s.home.put(s.place.slot); err != nil {
			return err
		}
		s.blocks.settle()
	}
	s.blocks.taken = nil
	forest, err := s.blocks.write(n.trees, n.fresh)
	n.taken = s.blocks.taken
	if err != nil {
		s.blocks.used = append(s.blocks.used, n.taken...)
		return err
	}
	for _, r := range n.gone {
		delete(s.rules, r.order)
	}
	for _, r := range n.fresh {
		s.rules[r.order] = r
	}
	s.trees, s.forest = n.trees, forest
	s.edits += len(n.changes)
	s.blocks.used = append(s.blocks.used, n.free...)
	s.blocks.publish(forest)
	s.begin()
	return nil
}

// replace puts a set of its own in place.
func (n *next) replace() error {
	s := n.s
	home, err := s.store.make(n.place.size)
	if err != nil {
		return err
	}
	is := state{rules: make(map[uint32]*rule, len(n.fresh)), trees: n.trees, home: home, place: n.place}
	is.blocks = newBlocks(home.memory())
	if is.forest, err = is.blocks.write(n.trees, n.fresh); err == nil {
		is.blocks.publish(is.forest)
		err = home.put(n.place.slot)
	}
	if err != nil {
		return errors.Join(err, home.close())
	}
	for _, r := range n.fresh {
		is.rules[r.order] = r
	}
	s.state, s.old, s.stale = is, n.was.home, true
	return nil
}

func (n *next) undo() error {
	s := n.s
	if n.rebuild {
		return n.putBack()
	}
	for _, r := range n.fresh {
		delete(s.rules, r.order)
	}
	for _, r := range n.gone {
		s.rules[r.order] = r
	}
	s.blocks.publish(n.was.forest)
	s.blocks.used = append(s.blocks.used[:len(s.blocks.used)-len(n.free)], n.taken...)
	s.state = n.was
	return nil
}

// putBack puts the set from before in place.
func (n *next) putBack() error {
	s, fresh := n.s, n.s.home
	if n.was.home != nil {
		if err := n.was.home.put(n.was.place.slot); err != nil {
			return err
		}
	}
	s.state, s.old, s.stale = n.was, nil, n.was.home != nil
	return fresh.close()
}

// Close gives up the memory; packets go on seeing it.
func (s *Set) Close() error {
	s.end()
	var errs []error
	for _, h := range []home{s.home, s.old} {
		if h != nil {
			errs = append(errs, h.close())
		}
	}
	s.home, s.old = nil, nil
	return errors.Join(errs...)
}
