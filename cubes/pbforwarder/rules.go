// SPDX-License-Identifier: Apache-2.0

package pbforwarder

// Changes of rules, and their results for the fast path.

import (
	"errors"
	"fmt"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
)

// The fields of a result, as the program decodes it.
const (
	actionBits = 2
	portBits   = 10
)

// entry is a rule in effect.
type entry struct {
	match   classifier.Match
	does    uint32 // action and port of the result
	counter uint32 // the index of its counter
	result  *classifier.Rule
}

// change is a prepared change of rules.
type change struct {
	f       *forwarder
	created bool
	room    uint32
	gone    []uint32
	fresh   map[uint32]*entry
	was     map[uint32]*entry // what contains the ids of fresh and gone
	freed   []uint32          // counters that are free once it cannot be undone
	// set is the plan of the classifier, and undone undoes its steps.
	set    cube.Plan
	undone cube.Undo
}

// rulesChange checks changes of rules, up to a maximum number of rules.
func (f *forwarder) rulesChange(changes []cube.EntryChange, room uint32, created bool) (*change, error) {
	rules, err := cube.DecodeEntries[Rule](changes)
	if err != nil {
		return nil, err
	}
	c := &change{f: f, created: created, room: room, fresh: make(map[uint32]*entry, len(rules)), was: map[uint32]*entry{}}
	edits := make([]classifier.Change, 0, len(rules))
	for _, r := range rules {
		if r.New == nil {
			c.gone = append(c.gone, r.Old.ID)
			c.was[r.Old.ID] = f.rules[r.Old.ID]
			edits = append(edits, classifier.Change{Order: r.Old.ID})
			continue
		}
		e, err := f.entry(r.New)
		if err != nil {
			return nil, fmt.Errorf("rules %d: %w", r.New.ID, err)
		}
		c.fresh[r.New.ID], c.was[r.New.ID] = e, f.rules[r.New.ID]
		edits = append(edits, classifier.Change{Order: r.New.ID, Rule: e.result})
	}
	if n := len(f.rules) - len(c.gone) + c.added(); n > int(room) {
		return nil, fmt.Errorf("rules: %d are configured, but max-rules is %d: %w", n, room, cube.ErrFull)
	}
	c.set, err = f.set.Prepare(edits)
	return c, err
}

// added returns the number of new ids.
func (c *change) added() (n int) {
	for id := range c.fresh {
		if c.was[id] == nil {
			n++
		}
	}
	return n
}

// entry translates a rule.
func (f *forwarder) entry(r *Rule) (*entry, error) {
	e := &entry{}
	if err := r.match(f.env, &e.match); err != nil {
		return nil, err
	}
	e.does = uint32(r.Action)
	if r.OutPort != "" {
		port, ok := f.env.PortIndex(r.OutPort)
		if !ok {
			return nil, fmt.Errorf("out_port %s: no such port: %w", r.OutPort, cube.ErrNotFound)
		}
		if port >= 1<<portBits {
			return nil, fmt.Errorf("out_port %s: invalid index %d: %w", r.OutPort, port, cube.ErrFull)
		}
		e.does |= uint32(port) << actionBits
	} else if r.Action == Forward {
		return nil, fmt.Errorf("action FORWARD needs an out_port: %w", cube.ErrInvalid)
	}
	e.result = &classifier.Rule{Match: e.match}
	return e, nil
}

// commit gives rules their counters, then applies the rules. An existing rule keeps its counter.
func (c *change) commit() (undo func() error, err error) {
	f := c.f
	if c.created {
		f.room = c.room
	}
	if err := f.counters.Open(); err != nil {
		return nil, err
	}
	if err := c.assign(); err != nil {
		return nil, err
	}
	if err := cube.Carry(c.set.Before, &c.undone); err != nil {
		return nil, errors.Join(err, c.undone.Run())
	}
	for _, id := range c.gone {
		c.freed = append(c.freed, f.rules[id].counter)
		delete(f.rules, id)
	}
	for id, e := range c.fresh {
		f.rules[id] = e
	}
	return c.undo, nil
}

// assign gives each rule a counter, and its result.
func (c *change) assign() error {
	var added []uint32
	for id, e := range c.fresh {
		if was := c.was[id]; was != nil {
			e.counter = was.counter
		} else {
			added = append(added, id)
		}
	}
	counters, undo, err := c.f.counters.Take(added)
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	c.undone.Push(undo)
	for i, id := range added {
		c.fresh[id].counter = counters[i]
	}
	for _, e := range c.fresh {
		e.result.SetResult(e.does | e.counter<<(actionBits+portBits))
	}
	return nil
}

// free frees the counters of removed rules, and after a restart those of rules that no longer exist.
func (c *change) free() (undo func() error, err error) {
	freed := c.freed
	c.freed = nil
	return nil, errors.Join(c.f.counters.Free(freed), c.f.counters.Abandon())
}

func (c *change) undo() error {
	f := c.f
	if err := c.undone.Run(); err != nil {
		return err
	}
	for id := range c.fresh {
		delete(f.rules, id)
	}
	for id, was := range c.was {
		if was != nil {
			f.rules[id] = was
		}
	}
	c.freed = nil
	return nil
}
