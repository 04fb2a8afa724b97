// SPDX-License-Identifier: Apache-2.0

package table

import "sync/atomic"

// Limits of what a page examines: connections, and entries.
const (
	pageConnections = 1 << 15
	pageEntries     = 1 << 20
)

// Page returns up to limit open connections that a filter selects, nil for all, from a cursor on, and the cursor for the
// next page: 0 to begin, and 0 at the end. It examines some 32,768 connections at most, so a page may have fewer. Half-open
// connections come last. Connections that exist, and are not half open, from the first page to the last are returned once;
// others may be missing. The state of a connection that has packets at the moment may be that between two of them.
func (t *Table) Page(cursor uint32, limit int, selected func(*Entry) bool) (out []Entry, next uint32) {
	next = Counters{t}.Page(cursor, limit, func(e *Entry, _ Counts) bool {
		if selected != nil && !selected(e) {
			return false
		}
		out = append(out, *e)
		return true
	})
	return out, next
}

// Find returns the open or half-open connection with a key.
func (t *Table) Find(key Key) (e Entry, ok bool) {
	e, _, ok = Counters{t}.Find(key)
	return e, ok
}

// isOpen is for search.
func isOpen(_, status uint32) bool { return status == open }

// search returns the first entry with a key whose number and status a function accepts, 0 if there is none.
func (t *Table) search(key *Key, accepts func(n, status uint32) bool) (uint32, *Entry) {
	hash := t.control.hash(key)
	tag := wordOf(hash, 0)
	lines, _ := t.inUse()
	for next := range uint64(2) {
		l := t.line(lines, hash, next)
		for i := range l.word {
			w := atomic.LoadUint32(&l.word[i])
			if w&^numberMask != tag {
				continue
			}
			if e := t.entry(w & numberMask); e != nil && e.Key == *key && accepts(w&numberMask, atomic.LoadUint32(&e.Status)) {
				return w & numberMask, e
			}
		}
	}
	return 0, nil
}

// copy returns a copy of an open connection.
func (e *Entry) copy() Entry {
	return Entry{e.Key, open, atomic.LoadUint32(&e.Generation), atomic.LoadUint64(&e.Seen), e.Mark, e.Rule, e.State, e.User}
}
