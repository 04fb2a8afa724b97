// SPDX-License-Identifier: Apache-2.0

package fdb

// Configured entries. There may be very many, so only changes are processed.

import (
	"errors"
	"fmt"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
)

// Change is a change of the configuration of a database.
type Change struct {
	// Created is set for the first change of an instance: the table may contain entries of a previous run of the
	// cube.
	Created bool
	// Room is the maximum number of entries: the size of the map.
	Room uint32
	// Aging is the aging time; 0 keeps learned entries forever.
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

// Prepare checks a change and returns the step that applies it; place returns key and port of an entry of the model's
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
		// Two keys of the list may be the same address: aa and AA.
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

// carryOut changes the table, or leaves it unchanged. The returned function undoes a successful change.
func (d *Database[K]) carryOut(c change[K]) (func() error, error) {
	e := &cube.Undo{}
	room, aging := d.room, d.aging
	before := map[K]uint16{}
	for k := range c.gone { // entries in set and not in gone are new
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
		return errors.Join(e.Run(), d.cache.EndLeases())
	}
	d.room = int(c.Room)
	d.SetAging(c.Aging)
	err := d.apply(e, c)
	if err == nil && c.Created {
		err = d.adopt()
	}
	if err == nil {
		err = d.cache.EndLeases()
	}
	if err != nil {
		return nil, errors.Join(err, back())
	}
	return back, nil
}

// adopt holds the table to what is configured, unless it was empty.
func (d *Database[K]) adopt() error {
	origin, err := d.table.Origin()
	if err != nil || origin == origins.Created {
		return err
	}
	return d.sweep()
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
