// SPDX-License-Identifier: Apache-2.0

package classifier

// Edits make trees worse little by little, and to make those of ten thousand rules anew takes longer than an edit may. So
// it is done beside the work, in memory of its own, with the rules of one moment. What changes meanwhile is noted and done
// to the new trees, too: most of it beside the work, the rest by edits, a few changes each, so that it ends however fast they
// come. The edit that finds nothing left puts the new memory in place.

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// making is a set that is being made.
type making struct {
	state
	size, reads uint32
	// copies are the rules of the new set by the rules of the set that they are for.
	copies map[*rule]*rule
	// log is what has changed and is not yet done to the new set.
	log      []swap
	rounds   int // that the log was followed beside the work
	patience time.Duration
	err      error
	stop     atomic.Bool
	done     chan struct{} // closed when nothing is done beside the work any more
}

// swap is a rule that went or one that came.
type swap struct{ gone, fresh *rule }

// worn says whether edits were so many that the trees are worth making anew.
func (s *Set) worn() bool { return s.edits > len(s.rules)+1024 }

// fewEdits are worth no new trees, even if memory is short.
const fewEdits = 200

// short says whether memory is: a quarter of it is left, or it is in pieces that a group may find no place in.
func (b *blocks) short() bool {
	return b.left() < b.count()/4 || b.space.longest() < min(longRun, b.count()/16)
}

// longRun is a few times as long as the longest run that there is.
const longRun = 1024

// begin makes a set of the rules that there are now, if it is time to: after many edits, before memory is short, or so that
// all is read that a rule can look at.
func (s *Set) begin() error {
	if s.blocks == nil || s.making != nil || len(s.rules) < s.rebuildFrom {
		return nil
	}
	short := s.edits > fewEdits && s.blocks.short()
	narrow := len(s.rules) > allRules && s.place.reads != readAll
	if !short && !narrow && 2*s.edits <= len(s.rules) {
		return nil
	}
	memory, err := s.store.maker()
	if err != nil {
		return err
	}
	rules := make([]*rule, 0, len(s.rules))
	for _, r := range s.rules {
		rules = append(rules, r)
	}
	m := &making{patience: patience}
	s.making = m
	m.inBackground(func() { m.make(memory, rules) })
	return nil
}

// inBackground does something beside the work.
func (m *making) inBackground(do func()) {
	done := make(chan struct{})
	m.done = done
	go func() {
		defer close(done)
		do()
	}()
}

// busy says whether something is being done beside the work.
func (m *making) busy() bool {
	select {
	case <-m.done:
		return false
	default:
		return true
	}
}

// make makes the set of rules.
func (m *making) make(memory func(size uint32) (home, error), rules []*rule) {
	slices.SortFunc(rules, func(x, y *rule) int { return byOrder(x, y.order) })
	m.copies = make(map[*rule]*rule, len(rules))
	for i, r := range rules {
		rules[i] = r.unwritten()
		m.copies[r] = rules[i]
	}
	trees, size, ok := compile(rules, &m.stop)
	if !ok || m.stop.Load() {
		m.err = errNoRoom
		return
	}
	m.size, m.reads = size, readsOf(rules)
	m.state, m.err = settle(memory, size, trees, rules)
}

// note has changes done to the new set later.
func (m *making) note(gone, fresh []*rule) {
	for _, r := range gone {
		m.log = append(m.log, swap{gone: r})
	}
	for _, r := range fresh {
		m.log = append(m.log, swap{fresh: r})
	}
}

const (
	// manySwaps are followed beside the work, so often at most: then edits do what is left.
	manySwaps = 256
	maxRounds = 4
	// fewSwaps are followed for each rule that a change is about, twice as many as it can add, and more as long as that
	// takes no longer than a making's patience.
	fewSwaps = 4
	patience = 2 * time.Millisecond
)

// ready is the new set if it is made, and what came between is done to it. It is asked for by a change of so many rules.
func (s *Set) ready(changes int) *making {
	m := s.making
	switch {
	case m == nil || m.busy():
		return nil
	case m.err != nil:
		s.abandon()
		return nil
	case len(m.log) > manySwaps && m.rounds < maxRounds:
		m.rounds++
		log := m.log
		m.log = nil
		m.inBackground(func() { m.err = m.follow(log) })
		return nil
	}
	begin, count := time.Now(), 0
	for count < len(m.log) && (count < fewSwaps*changes || time.Since(begin) < m.patience) {
		end := min(count+fewSwaps, len(m.log))
		if m.err = m.follow(m.log[count:end]); m.err != nil {
			s.abandon()
			return nil
		}
		count = end
	}
	if m.log = m.log[count:]; len(m.log) > 0 {
		return nil
	}
	return m
}

// follow does changes to the new set, which no packet sees yet.
func (m *making) follow(log []swap) error {
	e := edit{trees: m.trees}
	var fresh []*rule
	for _, x := range log {
		if m.stop.Load() {
			return nil // nobody will see it
		}
		if r := m.copies[x.gone]; r != nil {
			e.carry([]*rule{r}, nil)
			delete(m.copies, x.gone)
			delete(m.rules, r.order)
			continue
		}
		r := x.fresh.unwritten()
		e.carry(nil, []*rule{r})
		m.copies[x.fresh], m.rules[r.order] = r, r
		m.reads |= r.reads()
		fresh = append(fresh, r)
	}
	for _, r := range append(e.free, run{m.forest, 1}) {
		m.blocks.space.give(r.at, r.count)
	}
	fresh = slices.DeleteFunc(fresh, func(r *rule) bool { return m.rules[r.order] != r })
	d := m.blocks.draft(e.trees, fresh)
	if d == nil {
		return errNoRoom
	}
	d.write()
	m.trees, m.forest = e.trees, d.forest
	return nil
}

// errNoRoom is why a set is not made beside the work.
var errNoRoom = errors.New("there is no room")

// abandon has nobody wait for the new set.
func (s *Set) abandon() {
	if s.making == nil {
		return
	}
	s.making.stop.Store(true)
	s.left = append(s.left, s.making)
	s.making = nil
}

// sweep does away with new sets that nobody waits for; with those that are still being made when they are.
func (s *Set) sweep(wait bool) error {
	var errs []error
	s.left = slices.DeleteFunc(s.left, func(m *making) bool {
		if !wait && m.busy() {
			return false
		}
		<-m.done
		if m.home != nil {
			errs = append(errs, m.home.close())
		}
		return true
	})
	return errors.Join(errs...)
}

// unwritten is a rule for another set of blocks.
func (r *rule) unwritten() *rule { return &rule{Rule: r.Rule, order: r.order, box: r.box} }
