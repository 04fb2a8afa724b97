// SPDX-License-Identifier: Apache-2.0

package simplebridge

// The filtering database in the kernel, as the control plane uses it.

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

// entry is struct simplebridge_entry of the program; a test compares the two.
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

// table is the map `fdb`.
type table struct {
	cube.Table[Address, entry]
}

// put writes a configured entry. In a full table it takes the place of the learned address that
// was silent for longest.
func (t table) put(a Address, e entry) error {
	for range 16 { // learning goes on and may take the place that was made
		err := t.Set(a, e)
		if !errors.Is(err, cube.ErrFull) {
			return err
		}
		if err := t.evict(); err != nil {
			return fmt.Errorf("entry %s: %w", a, err)
		}
	}
	return fmt.Errorf("entry %s: no room in the filtering database: %w", a, cube.ErrFull)
}

func (t table) evict() error {
	var oldest Address
	var seen uint64
	found := false
	var err error
	for a, e := range t.All(&err) {
		if e.Fixed == 0 && (!found || e.Seen < seen) {
			oldest, seen, found = a, e.Seen, true
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
func (t table) remove(a Address) error {
	_, err := t.Delete(a)
	return err
}

// removeIf deletes the entries for which pick holds.
func (t table) removeIf(pick func(Address, entry) bool) error {
	var gone []Address
	var err error
	for a, e := range t.All(&err) {
		if pick(a, e) {
			gone = append(gone, a)
		}
	}
	if err == nil {
		_, err = t.DeleteAll(gone)
	}
	return err
}

// edit is a change of the table that can be taken back.
type edit struct {
	table
	undo []func() error
}

// record notes what an address has now.
func (e *edit) record(a Address) error {
	before, had, err := e.Get(a)
	if err != nil {
		return err
	}
	e.undo = append(e.undo, func() error {
		if had {
			return e.table.put(a, before)
		}
		return e.table.remove(a)
	})
	return nil
}

func (e *edit) put(a Address, to entry) error {
	if err := e.record(a); err != nil {
		return err
	}
	return e.table.put(a, to)
}

func (e *edit) remove(a Address) error {
	if err := e.record(a); err != nil {
		return err
	}
	return e.table.remove(a)
}

// forget removes what was learned from ports.
func (e *edit) forget(ports map[uint16]bool) error {
	if len(ports) == 0 {
		return nil
	}
	var gone []Address
	var err error
	for a, is := range e.All(&err) {
		if is.Fixed == 0 && ports[is.Port] {
			gone = append(gone, a)
		}
	}
	if err != nil {
		return err
	}
	for _, a := range gone {
		if err := e.remove(a); err != nil {
			return err
		}
	}
	return nil
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
