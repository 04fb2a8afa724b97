// SPDX-License-Identifier: Apache-2.0

package table

import "sync/atomic"

// Page returns up to limit open connections that a filter selects, nil for all, from a cursor on, and the cursor for the
// next page: 0 to begin, and 0 at the end. Connections that exist from the first page to the last are returned once;
// others may be missing. The state of a connection that has packets at the moment may be that between two of them.
func (t *Table) Page(cursor uint32, limit int, selected func(*Entry) bool) ([]Entry, uint32) {
	var out []Entry
	for n := max(cursor, 1); int(n) < len(t.entries); n++ {
		if len(out) == limit {
			return out, n
		}
		if e, ok := t.read(n); ok && (selected == nil || selected(&e)) {
			out = append(out, e)
		}
	}
	return out, 0
}

// read copies an entry if it is an open connection.
func (t *Table) read(n uint32) (Entry, bool) {
	e := &t.entries[n]
	if atomic.LoadUint32(&e.Status) != open {
		return Entry{}, false
	}
	t.giving.RLock()
	defer t.giving.RUnlock()
	if atomic.LoadUint32(&e.Status) != open {
		return Entry{}, false
	}
	return Entry{e.Key, open, atomic.LoadUint32(&e.Generation), atomic.LoadUint64(&e.Seen), e.Mark, e.Rule, e.State, e.User}, true
}
