// SPDX-License-Identifier: Apache-2.0

package table

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/grace"
)

// step is the number of entries that are examined at a time: those of them that are removed wait for one grace period.
const step = 1 << 15

// Remove removes the open and half-open connections that a filter selects, and those that programs have ended, and
// returns their number. The filter may read an entry only during its call. A program that has found a connection before
// still sees it as it was.
func (t *Table) Remove(selected func(*Entry) bool) (int, error) {
	d := Deletion{Table: t, Selects: selected}
	return d.all()
}

// RemoveSome does that for a part of the table, from a cursor on: 0 to begin. It returns the cursor for the next part, 0 at
// the end. confirm is that of a Deletion.
func (t *Table) RemoveSome(cursor uint32, selected, confirm func(*Entry) bool) (removed int, next uint32, err error) {
	d := Deletion{Table: t, Selects: selected, Confirm: confirm, Next: cursor}
	err = d.Step()
	return d.Deleted + d.Collected, d.Next, err
}

// Deletion is a removal in steps.
type Deletion struct {
	Table *Table
	// Selects is the filter.
	Selects func(*Entry) bool
	// Confirm is called right after an open connection that the filter has selected was ended. If it returns false, since a
	// packet has come meanwhile, the connection is open again, unless a program has opened another one with its key. Nil: all stay ended.
	Confirm func(*Entry) bool
	// Next is the cursor for the next part of the table: 0 to begin, and 0 at the end.
	Next uint32
	// Deleted is the number of connections that the filter has selected, Collected that of those that programs had ended.
	Deleted, Collected int
}

// all makes all steps, and returns how many connections were removed.
func (d *Deletion) all() (int, error) {
	for {
		if err := d.Step(); err != nil || d.Next == 0 {
			return d.Deleted + d.Collected, err
		}
	}
}

// Step processes a part of the table.
func (d *Deletion) Step() error {
	t := d.Table
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	if d.Next <= 1 {
		d.Deleted += t.young.remove(d.Selects, func(e *Entry) { report(t, e) })
	}
	var numbers []uint32
	first, end := max(d.Next, 1), min(max(d.Next, 1)+step, uint32(len(t.entries.elem)*partEntries))
	for n := first; n < end; n++ {
		was := t.unlink(n, d.Selects, d.Confirm)
		switch was {
		case free:
			continue
		case open:
			d.Deleted++
		case ended:
			d.Collected++
		}
		if was != withdrawn {
			report(t, t.entry(n))
		}
		numbers = append(numbers, n)
	}
	var err error
	if len(numbers) > 0 {
		err = t.release(numbers)
	}
	if d.Next = end; int(end) < len(t.entries.elem)*partEntries {
		return err
	}
	d.Next = 0
	return errors.Join(err, t.trim())
}

// End ends the open or half-open connection with a key, and returns false if there is none. A Remove makes the memory of an
// open one free.
func (t *Table) End(key Key) bool {
	t.giving.RLock()
	n, _ := t.search(&key, isOpen)
	done := n != 0 && t.end(n)
	t.giving.RUnlock()
	if done {
		return true
	}
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	return t.young.remove(func(e *Entry) bool { return e.Key == key }, func(e *Entry) { report(t, e) }) > 0
}

// end ends a connection, and returns false if a program has just done it.
func (t *Table) end(n uint32) bool {
	e := t.entry(n)
	if !atomic.CompareAndSwapUint32(&e.Status, open, ended) {
		return false
	}
	atomic.AddUint32(&t.zones[e.Key.Zone].count, ^uint32(0))
	return true
}

// Retire ends the connections with some keys. Once no program uses one that it had found before, used is called for it,
// and if that returns true, it is open again unless programs have opened another one with its key.
func (t *Table) Retire(keys []Key, used func(*Entry) bool) error {
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	var numbers []uint32
	for i := range keys {
		if n, _ := t.search(&keys[i], isOpen); n != 0 && t.end(n) {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	if err := grace.Wait(); err != nil {
		return err
	}
	for _, n := range numbers {
		if used(t.entry(n)) {
			t.reopen(n)
		}
	}
	return nil
}

// Add opens a connection: one that a cube brings from elsewhere. If there is one with its key, that stays, and added is
// false. It has the key's zone, and counts there whatever the limit.
func (t *Table) Add(is *Entry) (added bool, err error) {
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	if len(t.ring.spare) == 0 {
		t.ring.spare = t.ring.take(takes)
	}
	if len(t.ring.spare) == 0 {
		return false, fmt.Errorf("connection table: %w", cube.ErrFull)
	}
	n := t.ring.spare[0]
	hash := t.control.hash(&is.Key)
	e := t.entry(n)
	*e = *is
	e.Status = ended
	lines, _ := t.inUse()
	if !t.insert(lines, hash, wordOf(hash, n)) {
		e.Status = free
		return false, fmt.Errorf("connection table: too many connections have a similar hash: %w", cube.ErrFull)
	}
	t.ring.spare = t.ring.spare[1:]
	return t.reopen(n), nil
}

// reopen opens a connection that has ended, as programs open one: it is tentative until it is known to be the only one of
// its key. If another one may be, this one gives way.
func (t *Table) reopen(n uint32) bool {
	e := t.entry(n)
	atomic.StoreUint32(&e.Status, tentative)
	other, _ := t.search(&e.Key, func(m, status uint32) bool { return m != n && (status == open || status == tentative) })
	if other != 0 || !atomic.CompareAndSwapUint32(&e.Status, tentative, open) {
		atomic.StoreUint32(&e.Status, ended)
		return false
	}
	atomic.AddUint32(&t.zones[e.Key.Zone].count, 1)
	return true
}

// unlink makes an entry unreachable for programs that begin after it, if it has ended or is selected, and that is confirmed. It
// returns the status that the entry had, free if it stays.
func (t *Table) unlink(n uint32, selected, confirm func(*Entry) bool) (was uint32) {
	e := t.entry(n)
	switch was = atomic.LoadUint32(&e.Status); was {
	case withdrawn:
		return was // it is in no line
	case open:
		if !selected(e) {
			return free
		}
		switch {
		case !t.end(n):
			was = ended
		case confirm != nil && !confirm(e) && t.reopen(n):
			return free
		}
	case ended:
	default:
		return free
	}
	hash := t.control.hash(&e.Key)
	word := wordOf(hash, n)
	lines, _ := t.inUse()
	if first := t.line(lines, hash, 0); !first.remove(word) && t.line(lines, hash, 1).remove(word) {
		atomic.AddUint32(&first.beyond, ^uint32(0))
	}
	return was
}

// remove removes a word, and returns whether it was there.
func (l *line) remove(word uint32) bool {
	for i := range l.word {
		if atomic.LoadUint32(&l.word[i]) == word {
			return atomic.CompareAndSwapUint32(&l.word[i], word, 0)
		}
	}
	return false
}

// release makes unlinked entries free once no program reads them any more.
func (t *Table) release(numbers []uint32) error {
	if err := grace.Wait(); err != nil {
		return err // the next sweep finds them again
	}
	t.giving.Lock()
	defer t.giving.Unlock()
	for _, n := range numbers {
		t.counting.clear(n)
		atomic.StoreUint32(&t.entry(n).Status, free)
	}
	t.ring.give(numbers)
	return nil
}
