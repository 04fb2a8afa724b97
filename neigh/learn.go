// SPDX-License-Identifier: Apache-2.0

package neigh

// What neighbours tell, and what others decide: answers, requests from which an address can be learned, entries that
// are configured, routes that lead over a neighbour.

import (
	"slices"
	"time"

	"github.com/polycube/polycube/wire"
)

// Answer is what a neighbour says of itself.
type Answer struct {
	MAC wire.MAC
	// Solicited says that it was asked, so that packets reach it and come back.
	Solicited bool
	// Override says that it takes the place of what was known (RFC 4861 7.2.5); true for ARP.
	Override bool
}

// Answered takes an answer. It makes no new entry: who was not asked about is of no interest.
func (t *Table[P]) Answered(k Key, a Answer, now time.Duration) {
	e := t.entries[k]
	if e == nil || e.state == Permanent || !a.MAC.Station() {
		return
	}
	switch same := e.mac == a.MAC; {
	case !e.state.Usable() && a.Solicited, same && a.Solicited, a.Override && a.Solicited:
		t.known(e, Reachable, a.MAC, now)
	case !e.state.Usable():
		t.known(e, Stale, a.MAC, now)
	case !same && !a.Override && e.state == Reachable: // somebody else says so, too: time to ask
		t.enter(e, Stale, e.mac, now)
		t.schedule(e, now+t.timing.Forget)
	case !same && a.Override:
		t.known(e, Stale, a.MAC, now)
	}
}

// Asked takes the addresses of a neighbour that asks for this cube (RFC 826, RFC 4861 7.2.3): it will be answered, so
// that it is good to know it. Whether it can be reached is not known.
func (t *Table[P]) Asked(k Key, mac wire.MAC, now time.Duration) {
	if !mac.Station() {
		return
	}
	e := t.entries[k]
	switch {
	case e == nil:
		if e = t.add(k); e == nil {
			t.Counters.TableFull++
			return
		}
		t.known(e, Stale, mac, now)
	case e.state == Permanent || e.mac == mac && e.state.Usable():
	default:
		t.known(e, Stale, mac, now)
	}
}

// Used begins a probe of a neighbour that the fast path has used although it is stale.
func (t *Table[P]) Used(k Key, now time.Duration) {
	if e := t.entries[k]; e != nil && e.state == Stale {
		t.probe(e, now)
	}
}

// Want sees to it that a neighbour over which a route leads is known at all times, until Unwant is called as often.
func (t *Table[P]) Want(k Key, now time.Duration) {
	e := t.entries[k]
	if e == nil {
		if e = t.add(k); e == nil {
			e = t.addAnyway(k) // routes are bounded by what was configured
		}
	}
	e.wanted++
	switch {
	case e.wanted > 1 || e.state == Permanent:
	case e.state == 0:
		t.ask(e, now)
	case e.state == Stale:
		t.probe(e, now)
	}
}

// Unwant takes a Want back. What is known of the neighbour stays until it is aged.
func (t *Table[P]) Unwant(k Key) {
	e := t.entries[k]
	if e == nil || e.wanted == 0 {
		return
	}
	if e.wanted--; e.wanted == 0 && e.state == Failed {
		t.remove(e)
	}
}

// SetStatic makes an entry that does not age and is not changed by what others say.
func (t *Table[P]) SetStatic(k Key, mac wire.MAC, now time.Duration) {
	e := t.entries[k]
	if e == nil {
		e = t.addAnyway(k)
	}
	t.count(e, false)
	t.known(e, Permanent, mac, now)
}

// DeleteStatic forgets a configured entry. A neighbour that is wanted is asked for.
func (t *Table[P]) DeleteStatic(k Key, now time.Duration) {
	if e := t.entries[k]; e != nil && e.state == Permanent {
		t.drop(e, now)
	}
}

// Forget removes an entry that was learned; false if there is none.
func (t *Table[P]) Forget(k Key, now time.Duration) bool {
	e := t.entries[k]
	if e == nil || e.state == Permanent {
		return false
	}
	t.drop(e, now)
	return true
}

// Flush forgets what was learned behind a port: its link was gone, so that others may be there now.
func (t *Table[P]) Flush(port uint16, now time.Duration) {
	for _, k := range t.keys() {
		if e := t.entries[k]; e != nil && k.Port == port && e.state != Permanent {
			t.drop(e, now)
		}
	}
}

// Remove forgets all about a port that is gone, static entries and wishes too.
func (t *Table[P]) Remove(port uint16) {
	for _, k := range t.keys() {
		if k.Port == port {
			t.unqueue(t.entries[k])
			t.remove(t.entries[k])
		}
	}
	delete(t.ports, port)
}

// Restore takes over an entry that an earlier life of the cube has left in the fast path.
func (t *Table[P]) Restore(k Key, mac wire.MAC, s State, since, now time.Duration) {
	if t.entries[k] != nil {
		return
	}
	if s == Permanent || !s.Usable() || !mac.Station() { // what is configured comes again, the rest is asked for again
		t.note(t.host.Delete(k))
		return
	}
	e := t.add(k)
	if e == nil {
		t.note(t.host.Delete(k))
		return
	}
	e.since = min(since, now)
	if s == Probe { // the notice may have been lost
		s = Stale
	}
	t.enter(e, s, mac, now)
	if s == Reachable {
		t.schedule(e, t.aged(e, now))
		return
	}
	t.schedule(e, now+t.timing.Forget)
}

func (t *Table[P]) keys() []Key {
	keys := make([]Key, 0, len(t.entries))
	for k := range t.entries {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b Key) int { return a.Addr.Compare(b.Addr) })
	return keys
}

// drop forgets what is known of a neighbour, and the packets that wait for it; who is wanted is asked for anew.
func (t *Table[P]) drop(e *entry[P], now time.Duration) {
	for _, w := range t.unqueue(e) {
		t.Counters.Expired++
		t.host.Unreachable(w.packet)
	}
	if e.wanted == 0 {
		t.remove(e)
		return
	}
	t.count(e, true)
	e.since, e.wait = 0, 0
	t.ask(e, now)
}

// add makes an entry, if there is room, or if something stale can make room.
func (t *Table[P]) add(k Key) *entry[P] {
	p := t.port(k.Port)
	switch {
	case p.entries >= t.limits.PortEntries:
		if !t.evict(p) {
			return nil
		}
	case t.dynamic >= t.limits.Entries:
		if !t.evict(t.fullest()) {
			return nil
		}
	}
	return t.addAnyway(k)
}

func (t *Table[P]) addAnyway(k Key) *entry[P] {
	e := &entry[P]{key: k, place: -1}
	t.entries[k] = e
	t.count(e, true)
	return e
}

// count notes whether an entry is one of those that are bounded.
func (t *Table[P]) count(e *entry[P], dynamic bool) {
	if e.dynamic == dynamic {
		return
	}
	e.dynamic = dynamic
	n := 1
	if !dynamic {
		n = -1
	}
	t.dynamic += n
	t.port(e.key.Port).entries += n
}

// fullest is the port with the most entries: strangers there do not push out what is behind others.
func (t *Table[P]) fullest() *portTable {
	var most *portTable
	for _, p := range t.ports {
		if most == nil || p.entries > most.entries {
			most = p
		}
	}
	return most
}

// evict removes what has been stale for longest behind a port.
func (t *Table[P]) evict(p *portTable) bool {
	oldest := p.stale.Front()
	if oldest == nil {
		return false
	}
	t.remove(oldest.Value.(*entry[P]))
	return true
}

// remove forgets an entry. Nothing waits for it any more.
func (t *Table[P]) remove(e *entry[P]) {
	t.absolve(e)
	if e.stale != nil {
		t.port(e.key.Port).stale.Remove(e.stale)
	}
	t.count(e, false)
	t.schedule(e, never)
	delete(t.entries, e.key)
	t.note(t.host.Delete(e.key))
}
