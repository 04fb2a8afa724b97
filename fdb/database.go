// SPDX-License-Identifier: Apache-2.0

package fdb

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"time"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// Key is the key of entries; String is its form in errors.
type Key interface {
	comparable
	fmt.Stringer
}

// Database is the map `fdb` of one cube, and its configured entries. Like instances of cubes, it is used by one call at
// a time.
type Database[K Key] struct {
	env cube.Env
	// belongs reports whether stations can be behind the port of an entry.
	belongs func(K, Entry) bool

	table  table.Table[K, Entry]
	cache  Cache
	static map[K]uint16 // configured entries: index of the port
	room   int          // maximum number of entries

	aging time.Duration
	timer aging.Timer
}

// New returns the database of a cube.
func New[K Key](env cube.Env, belongs func(K, Entry) bool) *Database[K] {
	return &Database[K]{env: env, belongs: belongs, table: table.New[K, Entry](env, "fdb"), cache: NewCache(env), static: map[K]uint16{}}
}

// Room returns the maximum number of entries.
func (d *Database[K]) Room() uint32 { return uint32(d.room) }

// Aging returns the aging time in effect; 0 keeps learned entries forever.
func (d *Database[K]) Aging() time.Duration { return d.aging }

// Configured returns the configured entries: the index of the port by key, in no order.
func (d *Database[K]) Configured() iter.Seq2[K, uint16] { return maps.All(d.static) }

// ConfiguredPort returns the port of a configured address.
func (d *Database[K]) ConfiguredPort(k K) (index uint16, ok bool) {
	index, ok = d.static[k]
	return index, ok
}

// Learned returns a learned entry; false if there is none that the fast path uses.
func (d *Database[K]) Learned(k K) (e Entry, ok bool, err error) {
	now, err := cube.TimeCoarse()
	if err != nil {
		return e, false, err
	}
	e, ok, err = d.table.Get(k)
	return e, ok && d.live(k, e, now), err
}

// AllLearned yields the learned entries that the fast path uses, in no order. err is the error that ended it early.
func (d *Database[K]) AllLearned(err *error) iter.Seq2[K, Entry] {
	return func(yield func(K, Entry) bool) {
		now, failed := cube.TimeCoarse()
		if failed != nil {
			*err = failed
			return
		}
		for k, e := range d.table.All(err) {
			if d.live(k, e, now) && !yield(k, e) {
				return
			}
		}
	}
}

// live reports whether the fast path uses a learned entry.
func (d *Database[K]) live(k K, e Entry, now uint64) bool {
	_, configured := d.static[k]
	return e.Fixed == 0 && !configured && !e.Aged(now, d.aging) && d.belongs(k, e)
}

// Forget deletes the learned entries for which pick holds. With e, the deletion can be undone.
func (d *Database[K]) Forget(e *cube.Undo, pick func(K, Entry) bool) error {
	found := map[K]Entry{}
	var keys []K
	var err error
	for k, is := range d.table.All(&err) {
		if is.Fixed == 0 && pick(k, is) {
			keys = append(keys, k)
			found[k] = is
		}
	}
	if err != nil || len(keys) == 0 {
		return err
	}
	e.Push(func() error {
		var errs []error
		for k, was := range found {
			if _, err := d.table.Add(k, was); err != nil && !errors.Is(err, cube.ErrFull) {
				errs = append(errs, err)
			}
		}
		return errors.Join(append(errs, d.cache.EndLeases())...)
	})
	_, err = d.table.DeleteAll(keys)
	return errors.Join(err, d.cache.EndLeases())
}

// ForgetStep is Forget as a step of a plan.
func (d *Database[K]) ForgetStep(pick func(K, Entry) bool) cube.Step {
	return cube.Effect(func() (func() error, error) {
		e := &cube.Undo{}
		if err := d.Forget(e, pick); err != nil {
			return nil, errors.Join(err, e.Run())
		}
		return e.Run, nil
	})
}

// ForgetKey deletes an entry, which may be missing.
func (d *Database[K]) ForgetKey(k K) error { return errors.Join(d.drop(k), d.cache.EndLeases()) }

// drop deletes an entry; its lease continues.
func (d *Database[K]) drop(k K) error {
	_, err := d.table.Delete(k)
	return err
}

// set writes an entry; leases continue. In a full table it replaces the learned one that was silent for longest.
func (d *Database[K]) set(k K, e Entry) error {
	for range 16 { // learning continues and may take the freed entry
		err := d.table.Set(k, e)
		if !errors.Is(err, cube.ErrFull) {
			return err
		}
		if err := d.evict(); err != nil {
			return fmt.Errorf("entry %s: %w", k, err)
		}
	}
	return fmt.Errorf("entry %s: the filtering database is full: %w", k, cube.ErrFull)
}

func (d *Database[K]) evict() error {
	var oldest K
	var seen uint64
	found := false
	var err error
	for k, e := range d.table.All(&err) {
		if e.Fixed == 0 && (!found || aging.Later(seen, e.Seen)) {
			oldest, seen, found = k, e.Seen, true
		}
	}
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("the filtering database is full of configured entries: %w", cube.ErrFull)
	}
	return d.drop(oldest)
}
