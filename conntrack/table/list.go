// SPDX-License-Identifier: Apache-2.0

package table

import "sync/atomic"

// Page returns up to limit open connections that a filter selects, nil for all, from a cursor on, and the cursor for the
// next page: 0 to begin, and 0 at the end. Half-open connections come last. Connections that exist, and are not half open,
// from the first page to the last are returned once; others may be missing. The state of a connection that has packets at
// the moment may be that between two of them.
func (t *Table) Page(cursor uint32, limit int, selected func(*Entry) bool) ([]Entry, uint32) {
	var out []Entry
	for n := int(max(cursor, 1)); n < len(t.entries)+len(t.young.entries); n++ {
		if len(out) == limit {
			return out, uint32(n)
		}
		var e Entry
		var ok bool
		if young := n - len(t.entries); young < 0 {
			e, ok = t.read(uint32(n))
		} else {
			e, _, ok = t.young.read(young)
		}
		if ok && (selected == nil || selected(&e)) {
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
