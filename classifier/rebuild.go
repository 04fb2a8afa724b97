// SPDX-License-Identifier: Apache-2.0

package classifier

// Edits gradually make trees worse, and rebuilding the trees of ten thousand rules takes longer than an edit may. So a
// set is rebuilt in the background, in separate memory, from a snapshot of the rules. Changes made meanwhile are
// recorded and applied to the new trees, too: most of them in the background, the rest by edits, a few changes each, so
// that the rebuild finishes at any rate of changes. The edit that applies the last one activates the new memory.

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// making is a set that is being rebuilt.
type making struct {
	state
	// copies are the rules of the new set by the rules of the set that they replace.
	copies map[*rule]*rule
	// log contains the changes that are not yet applied to the new set.
	log      []swap
	rounds   int // how often the log was applied in the background
	patience time.Duration
	err      error
	stop     atomic.Bool
	done     chan struct{} // closed when background work has finished
}

// swap is a rule that was removed or added.
type swap struct{ gone, fresh *rule }

// isWornOut reports whether there were so many edits that the trees should be rebuilt.
func (s *Set) isWornOut() bool { return s.edits > len(s.rules)+1024 }

// fewEdits is the number of edits below which trees are not rebuilt, even if memory is short.
const fewEdits = 200

// short reports whether memory is short: a quarter of it is left, or it is so fragmented that a group may not fit.
func (b *blocks) short() bool {
	return b.left() < b.count()/4 || b.space.longest() < min(longRun, b.count()/16)
}

// longRun is a few times as long as the longest run in use.
const longRun = 1024

// begin starts rebuilding a set of the current rules if it is time: after many edits, or before memory is short.
func (s *Set) begin() error {
	if s.blocks == nil || s.making != nil || len(s.rules) < s.rebuildFrom {
		return nil
	}
	short := s.edits > fewEdits && s.blocks.short()
	if !short && 2*s.edits <= len(s.rules) {
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
	uses := s.uses
	m.inBackground(func() { m.make(memory, rules, uses) })
	return nil
}

// inBackground does work in the background.
func (m *making) inBackground(do func()) {
	done := make(chan struct{})
	m.done = done
	go func() {
		defer close(done)
		do()
	}()
}

// busy reports whether background work is running.
func (m *making) busy() bool {
	select {
	case <-m.done:
		return false
	default:
		return true
	}
}

// make builds the set of rules, with the bits that sets of addresses have.
func (m *making) make(memory func(blocks int) (home, error), rules []*rule, uses *used) {
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
	m.state, m.err = settle(memory, size, trees, rules, uses)
	m.reads = readsOf(rules)
}

// note records changes to be applied to the new set later.
func (m *making) note(gone, fresh []*rule) {
	for _, r := range gone {
		m.log = append(m.log, swap{gone: r})
	}
	for _, r := range fresh {
		m.log = append(m.log, swap{fresh: r})
	}
}

const (
	// As long as the log has at least manySwaps changes, it is applied in the background, maxRounds times at most: then
	// edits apply the rest.
	manySwaps = 256
	maxRounds = 4
	// fewSwaps are applied for each rule of a change: twice as many as the change can add, and more as long as that
	// takes no longer than a making's patience.
	fewSwaps = 4
	patience = 2 * time.Millisecond
)

// ready returns the new set if it is built and all changes are applied to it. It is called by a change of a number of
// rules.
func (s *Set) ready(changes int) *making {
	m := s.making
	switch {
	case m == nil || m.busy():
		return nil
	case m.err != nil:
		s.abandon()
		return nil
	}
	m.blocks.uses = s.uses // bits stay as they are until all rules are written
	switch {
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

// follow applies changes to the new set, which no packet sees yet.
func (m *making) follow(log []swap) error {
	e := edit{trees: m.trees}
	var fresh []*rule
	for _, x := range log {
		if m.stop.Load() {
			return nil // not needed any more
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
	for _, r := range append(e.free, m.uses.forest(m.forest)) {
		m.blocks.space.give(r.at, r.count)
	}
	fresh = slices.DeleteFunc(fresh, func(r *rule) bool { return m.rules[r.order] != r })
	d := m.blocks.draft(e.trees, fresh)
	if d == nil {
		return errNoRoom
	}
	d.write()
	m.trees, m.forest, m.uses = e.trees, d.forest, m.blocks.uses
	return nil
}

// errNoRoom is returned if a set cannot be built in the background.
var errNoRoom = errors.New("there is no room")

// abandon discards the new set.
func (s *Set) abandon() {
	if s.making == nil {
		return
	}
	s.making.stop.Store(true)
	s.left = append(s.left, s.making)
	s.making = nil
}

// sweep closes discarded sets; those that are still being built are closed later.
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
