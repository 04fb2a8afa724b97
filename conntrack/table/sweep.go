// SPDX-License-Identifier: Apache-2.0

package table

import "sync/atomic"

// step is the number of entries that are removed with one grace period.
const step = 1 << 15

// Remove removes the open and half-open connections that a filter selects, and those that programs have ended, and
// returns their number. The filter may read an entry only during its call. A program that has found a connection before
// still sees it as it was.
func (t *Table) Remove(selected func(*Entry) bool) (int, error) {
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	removed := t.young.remove(selected)
	var numbers []uint32
	for n := 1; n < len(t.entries); n++ {
		gone, connection := t.unlink(uint32(n), selected)
		if connection {
			removed++
		}
		if gone {
			numbers = append(numbers, uint32(n))
		}
		if len(numbers) == step {
			if err := t.release(numbers); err != nil {
				return removed, err
			}
			numbers = numbers[:0]
		}
	}
	if len(numbers) == 0 {
		return removed, nil
	}
	return removed, t.release(numbers)
}

// unlink makes an entry unreachable for programs that begin after it, if it has ended or is selected. It returns whether
// the entry is, and whether it was a connection.
func (t *Table) unlink(n uint32, selected func(*Entry) bool) (gone, connection bool) {
	e := &t.entries[n]
	switch atomic.LoadUint32(&e.Status) {
	case withdrawn:
		return true, false // its owner has unlinked it
	case open:
		if !selected(e) {
			return false, false
		}
		atomic.CompareAndSwapUint32(&e.Status, open, ended) // or a program has just done it
	case ended:
	default:
		return false, false
	}
	hash := t.control.hash(&e.Key)
	word := wordOf(hash, n)
	mask := uint64(t.control.lines)
	if first := &t.lines[hash&mask]; !first.remove(word) && t.lines[(hash+1)&mask].remove(word) {
		atomic.AddUint32(&first.beyond, ^uint32(0))
	}
	return true, true
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
	if err := waitForPrograms(); err != nil {
		return err // the next sweep finds them again
	}
	t.giving.Lock()
	defer t.giving.Unlock()
	for _, n := range numbers {
		e := &t.entries[n]
		if atomic.SwapUint32(&e.Status, free) == ended { // the count of one that was withdrawn is its owner's
			atomic.AddUint32(&t.zones[e.Key.Zone].count, ^uint32(0))
		}
	}
	t.give(numbers)
	return nil
}
