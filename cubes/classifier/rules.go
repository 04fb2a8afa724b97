// SPDX-License-Identifier: Apache-2.0

package classifier

// Rules in the sets of both directions. The result of a rule is its row, which has its class and its counter; a rule that
// changes gets another row, so that a packet sees it as a whole.

import (
	"errors"
	"fmt"
	"slices"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/grace"
	"github.com/polycube/polycube/cube/table"
)

// row is struct classifier_rule.
type row struct{ Class, Counter uint32 }

// rule is a rule in effect.
type rule struct {
	position  position
	direction Direction
	is        row
	row       uint32
	result    *classifier.Rule
}

// in reports whether the rule is in the set of a direction.
func (r *rule) in(d Direction) bool { return r.direction == d || r.direction == Both }

type rules struct {
	sets     [Both]*classifier.Set
	counters *counter.Rules
	rows     table.Table[uint32, row]

	of    map[uint32]*rule
	ranks ranks
	// taken are rows that a packet may find, and last is the one that was given to a rule last.
	taken map[uint32]bool
	last  uint32
}

func newRules(env cube.Env) *rules {
	r := &rules{counters: counter.NewRules(env, 0), rows: table.New[uint32, row](env, "rules"), of: map[uint32]*rule{}, ranks: newRanks(), taken: map[uint32]bool{}}
	for d := range Both {
		r.sets[d] = classifier.New(env, uint32(d))
	}
	return r
}

func (r *rules) close() error {
	return errors.Join(r.sets[Ingress].Close(), r.sets[Egress].Close(), r.counters.Close())
}

// rulesChange is a checked change of rules.
type rulesChange struct {
	*rules
	created bool
	// fresh are rules that are new or changed, by id, and was what had these ids before; gone are ids of removed rules.
	fresh  map[uint32]*rule
	was    map[uint32]*rule
	gone   []uint32
	places ranks
	plans  []cube.Plan
	// stale are rows, and freed counters, that nothing uses after the change.
	stale, freed []uint32
	undone       cube.Undo
}

// prepare checks changes of rules.
func (r *rules) prepare(entries []cube.EntryChange, most uint32, created bool) (*rulesChange, error) {
	c := &rulesChange{rules: r, created: created, fresh: map[uint32]*rule{}, was: map[uint32]*rule{}, places: r.ranks.copied()}
	changed, err := cube.DecodeEntries[Class](entries)
	if err != nil {
		return nil, err
	}
	for _, e := range changed {
		if e.Old != nil {
			c.was[e.Old.ID] = r.of[e.Old.ID]
		}
		if e.New == nil {
			c.gone = append(c.gone, e.Old.ID)
			continue
		}
		made, err := e.New.rule()
		if err != nil {
			return nil, fmt.Errorf("traffic-class %d: %w", e.New.ID, err)
		}
		c.fresh[e.New.ID] = made
	}
	if n := len(r.of) - len(c.was) + len(c.fresh); n > int(most) {
		return nil, fmt.Errorf("%d traffic classes, but max-classes is %d: create a classifier with more: %w", n, most, cube.ErrFull)
	}
	return c, c.edit()
}

// rule translates an entry.
func (c *Class) rule() (*rule, error) {
	r := &rule{position: positionOf(c.Priority, c.ID), direction: c.Direction, is: row{Class: c.class()}, result: &classifier.Rule{}}
	return r, c.match(&r.result.Match)
}

// edit finds the places of rules, and prepares the changes of the sets.
func (c *rulesChange) edit() error {
	for _, was := range c.was {
		c.places.of.Delete(was.position)
	}
	var fresh []position
	for _, r := range c.fresh {
		fresh = append(fresh, r.position)
	}
	moved := c.places.put(fresh)
	for d := range Both {
		edits := c.edits(d, moved)
		if len(edits) == 0 && !c.created {
			continue
		}
		plan, err := c.sets[d].Prepare(edits)
		if err != nil {
			return fmt.Errorf("traffic-class: %w", err)
		}
		c.plans = append(c.plans, plan)
	}
	return nil
}

// edits are the changes of a set: first of places that rules leave, then of those that they take.
func (c *rulesChange) edits(d Direction, moved bool) []classifier.Change {
	at := map[uint32]*classifier.Rule{}
	unchanged := func(do func(r *rule)) {
		for id, r := range c.of {
			if c.was[id] == nil && moved && r.in(d) {
				do(r)
			}
		}
	}
	unchanged(func(r *rule) { at[c.ranks.number(r.position)] = nil })
	for _, r := range c.was {
		if r.in(d) {
			at[c.ranks.number(r.position)] = nil
		}
	}
	unchanged(func(r *rule) { at[c.places.number(r.position)] = r.result })
	for _, r := range c.fresh {
		if r.in(d) {
			at[c.places.number(r.position)] = r.result
		}
	}
	edits := make([]classifier.Change, 0, len(at))
	for order, r := range at {
		edits = append(edits, classifier.Change{Order: order, Rule: r})
	}
	slices.SortFunc(edits, func(a, b classifier.Change) int { return int(int64(a.Order) - int64(b.Order)) })
	return edits
}

// commit gives rules their rows and counters, then applies them.
func (c *rulesChange) commit() (undo func() error, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, c.undone.Run())
		}
	}()
	if err := c.counters.Open(); err != nil {
		return nil, err
	}
	if c.created {
		if err := c.begin(); err != nil {
			return nil, err
		}
	}
	if err := c.count(); err != nil {
		return nil, err
	}
	if err := c.write(); err != nil {
		return nil, err
	}
	for _, plan := range c.plans {
		if err := cube.Carry(plan.Before, &c.undone); err != nil {
			return nil, err
		}
	}
	c.remember()
	return c.undone.Run, nil
}

// begin notes the rows of an earlier daemon, which packets use until the sets are replaced.
func (c *rulesChange) begin() error {
	var err error
	c.stale = nil
	for row := range c.rows.All(&err) {
		c.taken[row], c.stale = true, append(c.stale, row)
	}
	return err
}

// count gives rules their counters: those that they had before, or others.
func (c *rulesChange) count() error {
	var added []uint32
	for id, r := range c.fresh {
		if was := c.was[id]; was != nil {
			r.is.Counter = was.is.Counter
		} else {
			added = append(added, id)
		}
	}
	counters, undo, err := c.counters.Take(added)
	if err != nil {
		return fmt.Errorf("traffic-class: %w", err)
	}
	c.undone.Push(undo)
	for i, id := range added {
		c.fresh[id].is.Counter = counters[i]
	}
	return nil
}

// take returns a row that no packet finds.
func (r *rules) take() uint32 {
	for r.last++; r.taken[r.last]; r.last++ {
	}
	r.taken[r.last] = true
	return r.last
}

// release gives rows back.
func (r *rules) release(rows []uint32) error {
	for _, row := range rows {
		delete(r.taken, row)
	}
	_, err := r.rows.DeleteAll(rows)
	return err
}

// write writes the rows of rules.
func (c *rulesChange) write() error {
	rows, values := make([]uint32, 0, len(c.fresh)), make([]row, 0, len(c.fresh))
	for _, r := range c.fresh {
		r.row = c.take()
		r.result.SetResult(r.row)
		rows, values = append(rows, r.row), append(values, r.is)
	}
	c.undone.Push(func() error { return c.release(rows) })
	_, err := c.rows.SetAll(rows, values)
	return err
}

// remember takes the change over into the control plane's own picture.
func (c *rulesChange) remember() {
	ranks := c.ranks
	c.rules.ranks = c.places
	for id, r := range c.was {
		c.stale = append(c.stale, r.row)
		if c.fresh[id] == nil {
			c.freed = append(c.freed, r.is.Counter)
			delete(c.of, id)
		}
	}
	for id, r := range c.fresh {
		c.of[id] = r
	}
	c.undone.Push(func() error {
		c.rules.ranks = ranks
		for id := range c.fresh {
			delete(c.of, id)
		}
		for id, r := range c.was {
			c.of[id] = r
		}
		c.stale, c.freed = nil, nil
		return nil
	})
}

// after returns what the sets do once the change cannot be undone.
func (c *rulesChange) after() (steps []cube.Step) {
	for _, plan := range c.plans {
		steps = append(steps, plan.After...)
	}
	return steps
}

// free removes what no packet uses any more.
func (c *rulesChange) free() (undo func() error, err error) {
	stale, freed := c.stale, c.freed
	c.stale, c.freed = nil, nil
	if len(stale) > 0 {
		err = grace.Wait() // a packet may have found its rule before it was replaced
	}
	return nil, errors.Join(err, c.release(stale), c.counters.Free(freed), c.counters.Abandon())
}
