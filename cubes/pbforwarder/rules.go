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
	match  classifier.Match
	does   uint32 // action and port of the result
	place  uint32 // index of its counters
	result *classifier.Rule
}

// change is a prepared change of rules.
type change struct {
	f       *forwarder
	created bool
	room    uint32
	gone    []uint32
	fresh   map[uint32]*entry
	was     map[uint32]*entry // what contains the ids of fresh and gone
	taken   []uint32          // indexes that it takes
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

// match returns the conditions of the rule.
func (r *Rule) match(env cube.Env, m *classifier.Match) error {
	if r.InPort != "" {
		port, ok := env.PortIndex(r.InPort)
		if !ok {
			return fmt.Errorf("in_port %s: no such port: %w", r.InPort, cube.ErrNotFound)
		}
		m.InPort(port)
	}
	if r.VLAN != nil {
		m.VLAN(uint16(*r.VLAN))
	}
	if r.SrcMAC != nil {
		m.SourceMAC(r.SrcMAC.Address, r.SrcMAC.Mask)
	}
	if r.DstMAC != nil {
		m.DestinationMAC(r.DstMAC.Address, r.DstMAC.Mask)
	}
	if r.L4Proto != nil {
		m.Protocol(uint8(*r.L4Proto))
	}
	if r.SrcIP != nil {
		if err := m.Source(r.SrcIP.Prefix); err != nil {
			return fmt.Errorf("src_ip: %w", err)
		}
	}
	if r.DstIP != nil {
		if err := m.Destination(r.DstIP.Prefix); err != nil {
			return fmt.Errorf("dst_ip: %w", err)
		}
	}
	if r.SrcPort != nil {
		if err := m.SourcePorts(r.SrcPort.First, r.SrcPort.Last); err != nil {
			return fmt.Errorf("src_port: %w", err)
		}
	}
	if r.DstPort != nil {
		return m.DestinationPorts(r.DstPort.First, r.DstPort.Last)
	}
	return nil
}

// commit assigns indexes for counters to rules, then applies the rules. An existing rule keeps its index.
func (c *change) commit() (undo func() error, err error) {
	f := c.f
	if c.created {
		f.room = c.room
		if err := f.places.load(c.room); err != nil {
			return nil, err
		}
	}
	err = c.assign()
	if err == nil {
		err = f.places.reset()
	}
	if err == nil {
		err = cube.Carry(c.set.Before, &c.undone)
	}
	if err != nil {
		c.release()
		return nil, err
	}
	for _, id := range c.gone {
		f.places.free(f.rules[id].place)
		delete(f.rules, id)
	}
	for id, e := range c.fresh {
		f.rules[id] = e
	}
	f.places.abandon()
	if err := f.places.flush(); err != nil {
		return nil, errors.Join(err, c.undo())
	}
	return c.undo, nil
}

// assign gives each rule an index, and its result.
func (c *change) assign() (err error) {
	for id, e := range c.fresh {
		if was := c.was[id]; was != nil {
			e.place = was.place
		} else {
			if e.place, err = c.f.places.take(id); err != nil {
				return fmt.Errorf("rules %d: %w", id, err)
			}
			c.taken = append(c.taken, e.place)
		}
		e.result.Result = e.does | e.place<<(actionBits+portBits)
	}
	return nil
}

// release frees the indexes that the change took.
func (c *change) release() {
	for _, place := range c.taken {
		c.f.places.free(place)
	}
	c.taken = nil
}

func (c *change) undo() error {
	f := c.f
	if err := c.undone.Run(); err != nil {
		return err
	}
	c.release()
	for id := range c.fresh {
		delete(f.rules, id)
	}
	for id, was := range c.was {
		if was != nil {
			f.rules[id] = was
		}
	}
	for _, id := range c.gone {
		f.places.claim(f.rules[id].place, id)
	}
	return f.places.flush()
}
