// SPDX-License-Identifier: Apache-2.0

package bridge

// Configured entries. There may be very many, so only what changes is looked at.

import (
	"context"
	"fmt"

	"github.com/polycube/polycube/cube"
)

// staticChange is how the configured entries change; what is in both is set anew.
type staticChange struct {
	gone map[Key]bool
	set  map[Key]uint16
}

// PrepareEntries implements cube.EntryPreparer.
func (b *bridge) PrepareEntries(_ context.Context, changes []cube.EntryChange) (cube.Plan, error) {
	entries, err := cube.DecodeEntries[Entry](changes)
	if err != nil {
		return cube.Plan{}, err
	}
	c := staticChange{gone: map[Key]bool{}, set: make(map[Key]uint16, len(entries))}
	for _, e := range entries {
		if e.Old != nil {
			c.gone[e.Old.key()] = true
		}
	}
	for _, e := range entries {
		if e.New == nil {
			continue
		}
		k := e.New.key()
		port, ok := b.env.PortIndex(e.New.Port)
		if !ok {
			return cube.Plan{}, fmt.Errorf("fdb entry %s: port %s: %w", k, e.New.Port, cube.ErrNotFound)
		}
		c.set[k] = port
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
	e := &edit{}
	before := map[Key]uint16{}
	for k := range c.gone { // what is set and not gone is new
		before[k] = b.static[k]
	}
	first := !b.swept
	back := func() error {
		for k := range c.set {
			delete(b.static, k)
		}
		for k, was := range before {
			b.static[k] = was
		}
		b.swept = !first
		return e.revert()
	}
	err := b.applyEntries(e, c)
	if err == nil && first {
		err = b.sweep() // a restarted daemon finds the table of the last one
	}
	if err != nil {
		b.report("taking back a change of the filtering database", back())
		return nil, err
	}
	b.swept = true
	return back, nil
}

func (b *bridge) applyEntries(e *edit, c staticChange) error {
	for k := range c.gone {
		delete(b.static, k)
		if _, stays := c.set[k]; stays {
			continue
		}
		if err := e.remove(b.fdb, k); err != nil {
			return err
		}
	}
	now, err := clock()
	if err != nil {
		return err
	}
	for k, port := range c.set {
		b.static[k] = port
		if err := e.put(b.fdb, k, entry{Seen: now, Port: port, Fixed: 1}); err != nil {
			return err
		}
	}
	return nil
}
