// SPDX-License-Identifier: Apache-2.0

package table

// Watch calls a function with each connection of a zone that has ended, before its memory is used again; nil ends that. The
// function is called while connections are removed, by whichever cube, so it takes no time and calls no method of the table.
// Half-open connections that give way to others are not reported.
func Watch(t *Table, zone uint16, ended func(*Entry)) {
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	if ended == nil {
		delete(t.watching, zone)
		return
	}
	if t.watching == nil {
		t.watching = map[uint16]func(*Entry){}
	}
	t.watching[zone] = ended
}

// report calls the function of the zone of a connection that has ended. sweeping is held.
func report(t *Table, e *Entry) {
	if ended := t.watching[e.Key.Zone]; ended != nil {
		ended(e)
	}
}
