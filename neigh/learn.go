// SPDX-License-Identifier: Apache-2.0

package neigh

// Input from neighbours and from the cube: answers, requests from which an address can be learned, configured entries,
// next hops of routes.

import (
	"slices"
	"time"

	"github.com/polycube/polycube/wire"
)

// Answer is a neighbour's information about itself.
type Answer struct {
	MAC wire.MAC
	// Solicited says that it answers a request, so that packets reach it and come back.
	Solicited bool
	// Override says that it replaces the known address (RFC 4861 7.2.5); true for ARP.
	Override bool
}

// Answered processes an answer. It creates no new entry: unsolicited neighbours are of no interest.
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
	case !same && !a.Override && e.state == Reachable: // another station claims it, too: probe
		t.enter(e, Stale, e.mac, now)
		t.schedule(e, now+t.timing.Forget)
	case !same && a.Override:
		t.known(e, Stale, a.MAC, now)
	}
}

// Asked learns the addresses of a neighbour that sends a request for this cube (RFC 826, RFC 4861 7.2.3): the cube will
// answer it. Whether it is reachable is not known.
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

// Used starts a probe of a neighbour that the fast path has used although it is stale.
func (t *Table[P]) Used(k Key, now time.Duration) {
	if e := t.entries[k]; e != nil && e.state == Stale {
		t.probe(e, now)
	}
}

// Want keeps a neighbour that a route uses resolved at all times, until Unwant is called as often.
func (t *Table[P]) Want(k Key, now time.Duration) {
	e := t.entries[k]
	if e == nil {
		if e = t.add(k); e == nil {
			e = t.addAnyway(k) // the configuration limits the routes
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

// Unwant reverses a Want. The neighbour's entry stays until it expires.
func (t *Table[P]) Unwant(k Key) {
	e := t.entries[k]
	if e == nil || e.wanted == 0 {
		return
	}
	if e.wanted--; e.wanted == 0 && e.state == Failed {
		t.remove(e)
	}
}

// SetStatic creates an entry that does not expire and that neighbours cannot change.
func (t *Table[P]) SetStatic(k Key, mac wire.MAC, now time.Duration) {
	e := t.entries[k]
	if e == nil {
		e = t.addAnyway(k)
	}
	t.count(e, false)
	t.known(e, Permanent, mac, now)
}

// DeleteStatic removes a configured entry. A wanted neighbour is then resolved.
func (t *Table[P]) DeleteStatic(k Key, now time.Duration) {
	if e := t.entries[k]; e != nil && e.state == Permanent {
		t.drop(e, now)
	}
}

// Forget removes a learned entry; false if there is none.
func (t *Table[P]) Forget(k Key, now time.Duration) bool {
	e := t.entries[k]
	if e == nil || e.state == Permanent {
		return false
	}
	t.drop(e, now)
	return true
}

// Flush removes entries learned on a port: its link was down, so other stations may be there now.
func (t *Table[P]) Flush(port uint16, now time.Duration) {
	for _, k := range t.keys() {
		if e := t.entries[k]; e != nil && k.Port == port && e.state != Permanent {
			t.drop(e, now)
		}
	}
}

// Remove removes everything about a deleted port, including static entries and wanted neighbours.
func (t *Table[P]) Remove(port uint16) {
	for _, k := range t.keys() {
		if k.Port == port {
			t.unqueue(t.entries[k])
			t.remove(t.entries[k])
		}
	}
	delete(t.ports, port)
}

// Restore adopts an entry that a previous run of the cube left in the fast path.
func (t *Table[P]) Restore(k Key, mac wire.MAC, s State, since, now time.Duration) {
	if t.entries[k] != nil {
		return
	}
	if s == Permanent || !s.Usable() || !mac.Station() { // configured entries are added again, others are resolved again
		t.note(t.host.Delete(k))
		return
	}
	e := t.add(k)
	if e == nil {
		t.note(t.host.Delete(k))
		return
	}
	e.since = min(since, now)
	if s == Probe { // the notification may have been lost
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

// drop clears the entry of a neighbour, and the packets that wait for it; a wanted one is resolved again.
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

// add creates an entry, if there is room, or if a stale entry can be evicted.
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

// count records whether an entry counts towards the limits.
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

// fullest returns the port with the most entries: strangers there do not evict entries of other ports.
func (t *Table[P]) fullest() *portTable {
	var most *portTable
	for _, p := range t.ports {
		if most == nil || p.entries > most.entries {
			most = p
		}
	}
	return most
}

// evict removes the entry of a port that has been stale for longest.
func (t *Table[P]) evict(p *portTable) bool {
	oldest := p.stale.Front()
	if oldest == nil {
		return false
	}
	t.remove(oldest.Value.(*entry[P]))
	return true
}

// remove removes an entry. No packets wait for it any more.
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
