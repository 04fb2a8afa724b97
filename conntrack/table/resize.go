// SPDX-License-Identifier: Apache-2.0

package table

// Changes of the size, while programs use the table. Entries do not move. Lines are others if there are to be more of
// them, and connections are written into both while they are copied. Programs are not replaced: they read where the
// lines are, and one of these is true of all programs that run at the same time:
//
//	they write into the old lines, or into both, and look into the old ones
//	they write into both, and look into the old or the new ones
//	they write into both, or into the new lines, and look into the new ones
//
// So each sees what any other one has written before it looked.

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/grace"
	"github.com/polycube/polycube/memory"
)

// Resize changes the number of connections for which the table has memory. If it fails, the size is as before. If it
// becomes smaller, connections in entries beyond it stay until they end, and their memory is free after that.
func (t *Table) Resize(size int) error {
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	if size < t.Size() {
		return t.shrink(size)
	}
	return t.grow(size)
}

// grow makes room for more connections.
func (t *Table) grow(size int) error {
	if size < minSize || size > t.entries.most()*partEntries-1 {
		return fmt.Errorf("connection table: %d connections are not from %d to %d: %w", size, minSize, t.entries.most()*partEntries-1, cube.ErrInvalid)
	}
	capacity := 1 << bits.Len(uint(size)) // of the ring: more than the size
	takes := t.entries.lacks(size+1) + t.ring.places.lacks(capacity) + t.lines[0].bytes(t.lines[0].count(capacity/entriesOfLine))
	if t.counting.on() {
		takes += t.counting.large.lacks(size + 1)
	}
	err := memory.Check(uint32(size), takes)
	if err == nil {
		t.giving.Lock()
		if t.counting.on() {
			err = t.counting.extend(size + 1)
		}
		err = errors.Join(err, t.entries.extend(size+1))
		t.giving.Unlock()
	}
	if err == nil {
		err = t.ring.grow(capacity)
	}
	if err == nil {
		err = t.growLines(capacity / entriesOfLine)
	}
	if err != nil {
		if errors.Is(err, unix.ENOMEM) && !errors.Is(err, cube.ErrFull) {
			err = errors.Join(memory.Lack(uint32(size), takes), err)
		}
		return errors.Join(fmt.Errorf("connection table: %w", err), t.trim())
	}
	atomic.StoreUint32(&t.control.size, uint32(size))
	return t.collect()
}

// growLines replaces the lines by more of them.
func (t *Table) growLines(count int) error {
	lines, _ := t.inUse()
	if lines != 0 && uint32(count) <= lines&linesMask+1 {
		return nil
	}
	next := uint32(count - 1)
	if lines != 0 && lines&linesSecond == 0 {
		next |= linesSecond
	}
	other := &t.lines[next>>31]
	t.giving.Lock()
	err := other.extend(count)
	t.giving.Unlock()
	if err != nil {
		return err
	}
	if lines == 0 { // no program uses the table yet
		atomic.StoreUint64(&t.control.lines, uint64(next))
		return nil
	}
	if err := t.use(lines, next); err != nil {
		return err
	}
	if err := t.copyLines(next); err != nil {
		return errors.Join(err, t.use(lines, 0), t.dropLines())
	}
	return errors.Join(t.use(next, lines), t.use(next, 0), t.dropLines())
}

// use makes programs look into some lines and write into others, too, and returns when no program does otherwise.
func (t *Table) use(lines, also uint32) error {
	t.giving.Lock()
	atomic.StoreUint64(&t.control.lines, uint64(also)<<32|uint64(lines))
	t.giving.Unlock()
	return grace.Wait()
}

// copyLines writes all connections into lines into which programs write new ones. A tentative entry is of such a program.
func (t *Table) copyLines(lines uint32) error {
	for n := uint32(1); int(n) < len(t.entries.elem)*partEntries; n++ {
		e := t.entry(n)
		if e == nil {
			continue
		}
		if status := atomic.LoadUint32(&e.Status); status != open && status != ended {
			continue
		}
		hash := t.control.hash(&e.Key)
		word := wordOf(hash, n)
		there := t.line(lines, hash, 0).has(word) || t.line(lines, hash, 1).has(word)
		if !there && !t.insert(lines, hash, word) {
			return fmt.Errorf("too many connections have a similar hash: %w", cube.ErrInvalid)
		}
	}
	return nil
}

// dropLines removes the lines that are not in use.
func (t *Table) dropLines() error {
	lines, _ := t.inUse()
	t.giving.Lock()
	defer t.giving.Unlock()
	return t.lines[1-lines>>31].dropAll()
}

// shrink makes the table use fewer entries. It takes numbers beyond the size out of the ring, as a program does, a part at a
// time so that the ring does not become empty, and gives the others back.
func (t *Table) shrink(size int) error {
	if size < minSize {
		return fmt.Errorf("connection table: %d connections are less than %d: %w", size, minSize, cube.ErrInvalid)
	}
	atomic.StoreUint32(&t.control.size, uint32(size))
	for left := int(atomic.LoadUint32(&t.control.tail) - atomic.LoadUint32(&t.control.head)); left > 0; {
		numbers := t.ring.take(max(left/2, takes))
		if len(numbers) == 0 {
			break
		}
		if err := grace.Wait(); err != nil {
			return err
		}
		t.ring.give(numbers)
		left -= len(numbers)
	}
	return t.trim()
}

// trim removes the memory of entries beyond the size where all are free.
func (t *Table) trim() error {
	first := t.entries.count(t.Size() + 1)
	if first >= len(t.entries.elem) {
		return nil
	}
	listed, err := t.ring.listed(len(t.entries.elem) * partEntries)
	if err != nil {
		return err
	}
	t.giving.Lock()
	defer t.giving.Unlock()
	for len(t.entries.elem) > first {
		last := len(t.entries.elem) - 1
		for i := range t.entries.elem[last] {
			n := uint32(last*partEntries + i)
			if listed(n) || atomic.LoadUint32(&t.entry(n).Status) != free {
				return nil
			}
		}
		if err := errors.Join(t.entries.drop(last), t.counting.trim(last)); err != nil {
			return err
		}
		t.entries.mem, t.entries.elem = t.entries.mem[:last], t.entries.elem[:last]
	}
	return nil
}

// adopt continues with the table of an earlier process, which may have been killed while the size changed.
func (t *Table) adopt() error {
	lines, also := t.inUse()
	most := t.entries.most()
	if err := errors.Join(t.entries.adopt(most), t.ring.places.adopt(most), t.lines[0].adopt(most), t.lines[1].adopt(most)); err != nil {
		return err
	}
	if err := t.counting.adopt(len(t.entries.elem) * partEntries); err != nil {
		return err
	}
	if also != 0 {
		if err := t.use(lines, 0); err != nil {
			return err
		}
	}
	return errors.Join(t.dropLines(), t.collect(), t.trim())
}

// has reports whether a line contains a word.
func (l *line) has(word uint32) bool {
	for i := range l.word {
		if atomic.LoadUint32(&l.word[i]) == word {
			return true
		}
	}
	return false
}

// insert puts a word into the line for a hash, or the one after it, and returns false if both are full.
func (t *Table) insert(lines uint32, hash uint64, word uint32) bool {
	first := t.line(lines, hash, 0)
	if first.insert(word) {
		return true
	}
	atomic.AddUint32(&first.beyond, 1) // before the word: who reads 0 there may rely on it
	if t.line(lines, hash, 1).insert(word) {
		return true
	}
	atomic.AddUint32(&first.beyond, ^uint32(0))
	return false
}

// insert puts a word into a line, and returns false if that is full.
func (l *line) insert(word uint32) bool {
	for i := range l.word {
		if atomic.CompareAndSwapUint32(&l.word[i], 0, word) {
			return true
		}
	}
	return false
}
