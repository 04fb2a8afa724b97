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
func (t *Table) Page(cursor uint32, limit int, selected func(*Entry) bool) ([]Entry, uint32) {
	var out []Entry
	t.giving.RLock()
	entries := len(t.entries.elem) * partEntries
	t.giving.RUnlock()
	first, examined := max(cursor, 1), 0
	for n := first; int(n) < entries+len(t.young.entries); n++ {
		if len(out) == limit || examined == pageConnections || n-first == pageEntries {
			return out, n
		}
		var e Entry
		var ok bool
		if young := int(n) - entries; young < 0 {
			e, ok = t.read(n)
		} else {
			e, _, ok = t.young.read(young)
		}
		if ok {
			examined++
		}
		if ok && (selected == nil || selected(&e)) {
			out = append(out, e)
		}
	}
	return out, 0
}

// Find returns the open connection with a key.
func (t *Table) Find(key Key) (e Entry, ok bool) {
	t.giving.RLock()
	defer t.giving.RUnlock()
	n, at := t.search(&key, isOpen)
	if n == 0 {
		return Entry{}, false
	}
	return at.copy(), true
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

// read copies an entry if it is an open connection.
func (t *Table) read(n uint32) (Entry, bool) {
	t.giving.RLock()
	defer t.giving.RUnlock()
	e := t.entry(n)
	if e == nil || atomic.LoadUint32(&e.Status) != open {
		return Entry{}, false
	}
	return e.copy(), true
}

// copy returns a copy of an open connection.
func (e *Entry) copy() Entry {
	return Entry{e.Key, open, atomic.LoadUint32(&e.Generation), atomic.LoadUint64(&e.Seen), e.Mark, e.Rule, e.State, e.User}
}
