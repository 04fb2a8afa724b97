// SPDX-License-Identifier: Apache-2.0

package bridge

// The filtering database in the kernel, as the control plane uses it.

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

// entry is struct bridge_entry of the program; a test compares the two.
type entry struct {
	Seen  uint64
	Port  uint16
	Fixed uint8
	_     [5]uint8
}

// age is the time since the entry was seen.
func (e entry) age(now uint64) time.Duration {
	return max(0, time.Duration(int64(now-e.Seen)))
}

// aged says whether the fast path uses the entry no more.
func (e entry) aged(now uint64, aging time.Duration) bool {
	return e.Fixed == 0 && aging > 0 && e.age(now) > aging
}

// clock reads the clock of pcn_time_coarse.
func clock() (uint64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_COARSE, &ts); err != nil {
		return 0, fmt.Errorf("reading the monotonic clock: %w", err)
	}
	return uint64(ts.Nano()), nil
}

// table is the map `fdb`. Another map may take its place: who has the table, has the new one then.
type table struct {
	*cube.Table[Key, entry]
}

// open makes the table that of the map as it is.
func (t *table) open(env cube.Env) error {
	opened, err := cube.OpenTable[Key, entry](env, "fdb")
	if err != nil {
		return err
	}
	if t.Table == nil {
		t.Table = &opened
	}
	*t.Table = opened
	return nil
}

// put writes a configured entry. In a full table it takes the place of the learned address that
// was silent for longest.
func (t table) put(k Key, e entry) error {
	for range 16 { // learning goes on and may take the place that was made
		err := t.Set(k, e)
		if !errors.Is(err, cube.ErrFull) {
			return err
		}
		if err := t.evict(); err != nil {
			return fmt.Errorf("entry %s: %w", k, err)
		}
	}
	return fmt.Errorf("entry %s: no room in the filtering database: %w", k, cube.ErrFull)
}

func (t table) evict() error {
	var oldest Key
	var seen uint64
	found := false
	var err error
	for k, e := range t.All(&err) {
		if e.Fixed == 0 && (!found || e.Seen < seen) {
			oldest, seen, found = k, e.Seen, true
		}
	}
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("the filtering database is full of configured entries: %w", cube.ErrFull)
	}
	return t.remove(oldest)
}

// remove deletes an entry that may be gone.
func (t table) remove(k Key) error {
	_, err := t.Delete(k)
	return err
}

// learned are the learned entries for which pick holds.
func (t table) learned(pick func(Key, entry) bool) (map[Key]entry, error) {
	found := map[Key]entry{}
	var err error
	for k, e := range t.All(&err) {
		if e.Fixed == 0 && pick(k, e) {
			found[k] = e
		}
	}
	return found, err
}

// forget deletes the learned entries for which pick holds.
func (t table) forget(pick func(Key, entry) bool) error {
	found, err := t.learned(pick)
	if err == nil {
		_, err = t.DeleteAll(keysOf(found))
	}
	return err
}

func keysOf(entries map[Key]entry) []Key {
	keys := make([]Key, 0, len(entries))
	for k := range entries {
		keys = append(keys, k)
	}
	return keys
}

// edit is a change of the tables that can be taken back.
type edit struct {
	undo []func() error
}

// put writes an entry, remove takes one away.
func (e *edit) put(t table, k Key, to entry) error {
	if err := e.record(t, k); err != nil {
		return err
	}
	return t.put(k, to)
}

func (e *edit) remove(t table, k Key) error {
	if err := e.record(t, k); err != nil {
		return err
	}
	return t.remove(k)
}

// record notes what an address has now.
func (e *edit) record(t table, k Key) error {
	before, had, err := t.Get(k)
	if err != nil {
		return err
	}
	e.undo = append(e.undo, func() error {
		if had {
			return t.put(k, before)
		}
		return t.remove(k)
	})
	return nil
}

// forget deletes the learned entries for which pick holds.
func (e *edit) forget(t table, pick func(Key, entry) bool) error {
	found, err := t.learned(pick)
	if err != nil || len(found) == 0 {
		return err
	}
	e.undo = append(e.undo, func() error {
		var errs []error
		for k, was := range found {
			if _, err := t.Add(k, was); err != nil && !errors.Is(err, cube.ErrFull) {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	})
	_, err = t.DeleteAll(keysOf(found))
	return err
}

// revert takes back what was done, last first.
func (e *edit) revert() error {
	var errs []error
	for _, undo := range slices.Backward(e.undo) {
		errs = append(errs, undo())
	}
	e.undo = nil
	return errors.Join(errs...)
}
