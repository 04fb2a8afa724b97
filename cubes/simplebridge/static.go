// SPDX-License-Identifier: Apache-2.0

package simplebridge

// Configured entries. There may be very many, so only what changes is looked at.

import (
	"context"
	"fmt"

	"github.com/polycube/polycube/cube"
)

// staticChange is how the configured entries change; what is in both is set anew.
type staticChange struct {
	gone map[Address]bool
	set  map[Address]uint16
}

// PrepareEntries implements cube.EntryPreparer.
func (b *bridge) PrepareEntries(_ context.Context, changes []cube.EntryChange) (cube.Plan, error) {
	entries, err := cube.DecodeEntries[Entry](changes)
	if err != nil {
		return cube.Plan{}, err
	}
	c := staticChange{gone: map[Address]bool{}, set: make(map[Address]uint16, len(entries))}
	for _, e := range entries {
		if e.Old != nil {
			c.gone[e.Old.Address] = true
		}
	}
	for _, e := range entries {
		if e.New == nil {
			continue
		}
		port, ok := b.env.PortIndex(e.New.Port)
		if !ok {
			return cube.Plan{}, fmt.Errorf("fdb entry %s: port %s: %w", e.New.Address, e.New.Port, cube.ErrNotFound)
		}
		// Two keys may be one address: aa and AA.
		_, there := b.static[e.New.Address]
		_, twice := c.set[e.New.Address]
		if twice || there && !c.gone[e.New.Address] {
			return cube.Plan{}, fmt.Errorf("fdb entry %s: given twice: %w", e.New.Address, cube.ErrExists)
		}
		c.set[e.New.Address] = port
	}
	if n := len(b.static) - len(c.gone) + len(c.set); n > b.room {
		return cube.Plan{}, fmt.Errorf("fdb: %d entries, but max-entries is %d: %w", n, b.room, cube.ErrFull)
	}
	var undo func() error
	return cube.Plan{
		Commit: func() (err error) { undo, err = b.commitEntries(c); return err },
		Undo:   func() error { return undo() },
	}, nil
}

// commitEntries changes the table, or leaves it as it is. The function it returns takes a
// successful change back.
func (b *bridge) commitEntries(c staticChange) (func() error, error) {
	e := &edit{table: b.fdb}
	before := map[Address]uint16{}
	for a := range c.gone { // what is set and not gone is new
		before[a] = b.static[a]
	}
	first := !b.swept
	back := func() {
		for a := range c.set {
			delete(b.static, a)
		}
		for a, port := range before {
			b.static[a] = port
		}
		b.swept = !first
	}
	if err := b.applyEntries(e, c); err != nil {
		return nil, b.takeBack(e, err)
	}
	for a := range c.gone {
		delete(b.static, a)
	}
	for a, port := range c.set {
		b.static[a] = port
	}
	if first {
		// A restarted daemon finds the table of the last one.
		if err := b.sweep(); err != nil {
			back()
			return nil, b.takeBack(e, err)
		}
		b.swept = true
	}
	return func() error {
		back()
		return e.revert()
	}, nil
}

func (b *bridge) applyEntries(e *edit, c staticChange) error {
	for a := range c.gone {
		if _, stays := c.set[a]; stays {
			continue
		}
		if err := e.remove(a); err != nil {
			return err
		}
	}
	now, err := clock()
	if err != nil {
		return err
	}
	for a, port := range c.set {
		if err := e.put(a, entry{Seen: now, Port: port, Fixed: 1}); err != nil {
			return err
		}
	}
	return nil
}
