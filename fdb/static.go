// SPDX-License-Identifier: Apache-2.0

package fdb

// Configured entries. There may be very many, so only what changes is looked at.

import (
	"errors"
	"fmt"
	"time"

	"github.com/polycube/polycube/cube"
)

// Change is how the configuration of a database changes.
type Change struct {
	// Created is for the first change of an instance: the table may hold entries of an earlier life of the cube.
	Created bool
	// Room is how many entries fit: the size of the map.
	Room uint32
	// Aging is the aging time; 0 keeps learned entries for ever.
	Aging time.Duration
	// Entries are the changes of the list of configured entries.
	Entries []cube.EntryChange
}

// change is a checked Change. Keys in both gone and set are replaced.
type change[K Key] struct {
	Change
	gone map[K]bool
	set  map[K]uint16
}

// Prepare checks a change and returns the step that carries it out; place reads key and port of an entry of the model's
// list.
func Prepare[K Key, E any](d *Database[K], c Change, place func(*E) (K, string)) (cube.Step, error) {
	entries, err := cube.DecodeEntries[E](c.Entries)
	if err != nil {
		return nil, err
	}
	is := change[K]{Change: c, gone: map[K]bool{}, set: make(map[K]uint16, len(entries))}
	for _, e := range entries {
		if e.Old != nil {
			k, _ := place(e.Old)
			is.gone[k] = true
		}
	}
	for _, e := range entries {
		if e.New == nil {
			continue
		}
		k, port := place(e.New)
		index, ok := d.env.PortIndex(port)
		if !ok {
			return nil, fmt.Errorf("fdb entry %s: port %s: %w", k, port, cube.ErrNotFound)
		}
		// Two keys of the list may be one address: aa and AA.
		_, there := d.static[k]
		_, twice := is.set[k]
		if twice || there && !is.gone[k] {
			return nil, fmt.Errorf("fdb entry %s: given twice: %w", k, cube.ErrExists)
		}
		is.set[k] = index
	}
	n := len(d.static) - len(is.gone) + len(is.set)
	switch {
	case n > int(c.Room) && len(entries) == 0:
		return nil, fmt.Errorf("fdb max-entries: %d entries are configured: %w", n, cube.ErrFull)
	case n > int(c.Room):
		return nil, fmt.Errorf("fdb: %d entries, but max-entries is %d: %w", n, c.Room, cube.ErrFull)
	}
	return cube.Effect(func() (func() error, error) { return d.carryOut(is) }), nil
}

// carryOut changes the table, or leaves it as it is. The function it returns undoes a successful change.
func (d *Database[K]) carryOut(c change[K]) (func() error, error) {
	e := &cube.Undo{}
	room, aging := d.room, d.aging
	before := map[K]uint16{}
	for k := range c.gone { // what is set and not gone is new
		before[k] = d.static[k]
	}
	back := func() error {
		d.room = room
		d.SetAging(aging)
		for k := range c.set {
			delete(d.static, k)
		}
		for k, was := range before {
			d.static[k] = was
		}
		return e.Run()
	}
	d.room = int(c.Room)
	d.SetAging(c.Aging)
	err := d.apply(e, c)
	if err == nil && c.Created {
		err = d.sweep()
	}
	if err != nil {
		return nil, errors.Join(err, back())
	}
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
