// SPDX-License-Identifier: Apache-2.0

package simplebridge

// The filtering database in the kernel, as the control plane uses it.

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
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
type table struct{ *ebpf.Map }

// batch is how many entries one system call reads; more than a hash bucket ever holds.
const batch = 1024

// all calls fn for each entry. An entry that comes or goes meanwhile may be left out.
func (t table) all(fn func(Address, entry)) error {
	var cursor ebpf.MapBatchCursor
	keys, values := make([]Address, batch), make([]entry, batch)
	for {
		n, err := t.BatchLookup(&cursor, keys, values, nil)
		last := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !last {
			return fmt.Errorf("reading the filtering database: %w", err)
		}
		for i := range n {
			fn(keys[i], values[i])
		}
		if last {
			return nil
		}
	}
}

// get returns an address's entry, and whether there is one.
func (t table) get(a Address) (e entry, ok bool, err error) {
	err = t.Lookup(a, &e)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return entry{}, false, nil
	}
	if err != nil {
		return entry{}, false, fmt.Errorf("reading entry %s: %w", a, err)
	}
	return e, true, nil
}

// put writes a configured entry. In a full table it takes the place of the learned address that
// was silent for longest.
func (t table) put(a Address, e entry) error {
	for range 16 { // learning goes on and may take the place that was made
		err := t.Put(a, e)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.E2BIG) {
			return fmt.Errorf("writing entry %s: %w", a, err)
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
	err := t.all(func(a Address, e entry) {
		if e.Fixed == 0 && (!found || e.Seen < seen) {
			oldest, seen, found = a, e.Seen, true
		}
	})
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
	if err := t.Delete(a); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("deleting entry %s: %w", a, err)
	}
	return nil
}

// removeIf deletes the entries for which pick holds.
func (t table) removeIf(pick func(Address, entry) bool) error {
	var gone []Address
	if err := t.all(func(a Address, e entry) {
		if pick(a, e) {
			gone = append(gone, a)
		}
	}); err != nil {
		return err
	}
	for _, a := range gone {
		if err := t.remove(a); err != nil {
			return err
		}
	}
	return nil
}

// edit is a change of the table that can be taken back.
type edit struct {
	table
	undo []func() error
}

// record notes what an address has now.
func (e *edit) record(a Address) error {
	before, had, err := e.get(a)
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

// revert takes back what was done, last first.
func (e *edit) revert() error {
	var errs []error
	for _, undo := range slices.Backward(e.undo) {
		errs = append(errs, undo())
	}
	e.undo = nil
	return errors.Join(errs...)
}
