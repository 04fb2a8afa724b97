// SPDX-License-Identifier: Apache-2.0

package fdb

// Configured entries. There may be very many, so only what changes is looked at.

import (
	"fmt"

	"github.com/polycube/polycube/cube"
)

// change is how the configured entries change; what is in both is set anew.
type change[K Key] struct {
	gone map[K]bool
	set  map[K]uint16
}

// PrepareEntries is what a cube's PrepareEntries does; place reads key and port of an entry of the
// model's list.
func PrepareEntries[K Key, E any](d *Database[K], changes []cube.EntryChange, place func(*E) (K, string)) (cube.Plan, error) {
	entries, err := cube.DecodeEntries[E](changes)
	if err != nil {
		return cube.Plan{}, err
	}
	c := change[K]{gone: map[K]bool{}, set: make(map[K]uint16, len(entries))}
	for _, e := range entries {
		if e.Old != nil {
			k, _ := place(e.Old)
			c.gone[k] = true
		}
	}
	for _, e := range entries {
		if e.New == nil {
			continue
		}
		k, port := place(e.New)
		index, ok := d.env.PortIndex(port)
		if !ok {
			return cube.Plan{}, fmt.Errorf("fdb entry %s: port %s: %w", k, port, cube.ErrNotFound)
		}
		// Two keys of the list may be one address: aa and AA.
		_, there := d.static[k]
		_, twice := c.set[k]
		if twice || there && !c.gone[k] {
			return cube.Plan{}, fmt.Errorf("fdb entry %s: given twice: %w", k, cube.ErrExists)
		}
		c.set[k] = index
	}
	if n := len(d.static) - len(c.gone) + len(c.set); n > d.room {
		return cube.Plan{}, fmt.Errorf("fdb: %d entries, but max-entries is %d: %w", n, d.room, cube.ErrFull)
	}
	var undo func() error
	return cube.Plan{
		Commit: func() (err error) { undo, err = d.commit(c); return err },
		Undo:   func() error { return undo() },
	}, nil
}

// commit changes the table, or leaves it as it is. The function it returns takes a successful
// change back.
func (d *Database[K]) commit(c change[K]) (func() error, error) {
	e := &cube.Undo{}
	before := map[K]uint16{}
	for k := range c.gone { // what is set and not gone is new
		before[k] = d.static[k]
	}
	first := !d.swept
	back := func() error {
		for k := range c.set {
			delete(d.static, k)
		}
		for k, was := range before {
			d.static[k] = was
		}
		d.swept = !first
		return e.Run()
	}
	err := d.apply(e, c)
	if err == nil && first {
		err = d.sweep() // a restarted daemon finds the table of the last one
	}
	if err != nil {
		if err := back(); err != nil {
			d.env.Logger().Error("taking back a change of the filtering database", "error", err)
		}
		return nil, err
	}
	d.swept = true
	return back, nil
}

func (d *Database[K]) apply(e *cube.Undo, c change[K]) error {
	for k := range c.gone {
		delete(d.static, k)
		if _, stays := c.set[k]; stays {
			continue
		}
		if err := d.remove(e, k); err != nil {
			return err
		}
	}
	now, err := cube.TimeCoarse()
	if err != nil {
		return err
	}
	for k, port := range c.set {
		d.static[k] = port
		if err := d.put(e, k, Entry{Seen: now, Port: port, Fixed: 1}); err != nil {
			return err
		}
	}
	return nil
}
