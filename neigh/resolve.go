// SPDX-License-Identifier: Apache-2.0

package neigh

// From the first packet for a neighbour to the answer, or to the last unanswered request.

import (
	"net/netip"
	"time"

	"github.com/polycube/polycube/wire"
)

// Origin is the sender of a packet: the port where it came in, and its source address.
type Origin struct {
	Port   uint16
	Source netip.Addr
}

// group returns the unit that counts as one source: hosts choose addresses freely within their /64.
func (o Origin) group() netip.Addr {
	if o.Source.Is6() {
		p, _ := o.Source.Prefix(64)
		return p.Addr()
	}
	return o.Source
}

// Packet processes a packet for a neighbour that the fast path does not know. It is queued, released at once, or
// refused and counted: then false is returned.
func (t *Table[P]) Packet(k Key, from Origin, p P, size int, now time.Duration) bool {
	e := t.entries[k]
	if e != nil && e.state.Usable() {
		t.host.Release(p) // the answer arrived while the packet was in transit
		return true
	}
	if e == nil || e.state == Failed {
		if e = t.begin(k, from, now); e == nil {
			t.Counters.Refused++
			return false
		}
	}
	origin := t.port(from.Port)
	if len(e.queue) >= t.limits.Queue || t.bytes+size > t.limits.Bytes || origin.bytes+size > t.limits.PortBytes {
		t.Counters.QueueFull++
		return false
	}
	e.queue = append(e.queue, waiting[P]{p, size, from.Port})
	t.bytes += size
	origin.bytes += size
	t.Counters.Waited++
	return true
}

// begin starts resolving a neighbour for a packet; nil if too many are being resolved.
func (t *Table[P]) begin(k Key, from Origin, now time.Duration) *entry[P] {
	if t.pending >= t.limits.Incomplete || t.port(from.Port).pending >= t.limits.PortIncomplete ||
		t.sources[from.group()] >= t.limits.SourceIncomplete {
		return nil
	}
	e := t.entries[k]
	if e == nil {
		if e = t.add(k); e == nil {
			return nil
		}
	}
	t.charge(e, from)
	t.ask(e, now)
	return e
}

// charge counts a request for the source that caused it.
func (t *Table[P]) charge(e *entry[P], from Origin) {
	e.blamed, e.origin, e.source = true, from.Port, from.group()
	t.pending++
	t.port(e.origin).pending++
	t.sources[e.source]++
}

func (t *Table[P]) absolve(e *entry[P]) {
	if !e.blamed {
		return
	}
	e.blamed = false
	t.pending--
	t.port(e.origin).pending--
	if t.sources[e.source]--; t.sources[e.source] == 0 {
		delete(t.sources, e.source)
	}
}

// ask starts to send requests to all stations.
func (t *Table[P]) ask(e *entry[P], now time.Duration) {
	t.enter(e, Incomplete, wire.MAC{}, now)
	e.tries = 1
	t.host.Ask(e.key, wire.MAC{})
	t.schedule(e, now+t.timing.Retry)
}

// enter changes the state of an entry, here and in the fast path.
func (t *Table[P]) enter(e *entry[P], s State, mac wire.MAC, now time.Duration) {
	if e.stale != nil {
		t.port(e.key.Port).stale.Remove(e.stale)
		e.stale = nil
	}
	if s == Stale {
		e.stale = t.port(e.key.Port).stale.PushBack(e)
	}
	if s != Incomplete {
		t.absolve(e)
	}
	e.state, e.mac = s, mac
	t.note(t.host.Set(e.key, mac, s, e.since))
}

func (t *Table[P]) note(err error) {
	if err != nil {
		t.failed(err)
	}
}

// expire does the work that is due for an entry.
func (t *Table[P]) expire(e *entry[P], now time.Duration) {
	switch e.state {
	case Incomplete, Probe:
		if e.tries < t.timing.Tries {
			e.tries++
			to := e.mac // of who is probed
			if e.state == Incomplete {
				to = wire.MAC{}
			}
			t.host.Ask(e.key, to)
			t.schedule(e, now+t.timing.Retry)
			return
		}
		t.fail(e, now)
	case Reachable:
		e.since = max(e.since, t.host.Confirmed(e.key))
		switch at := t.aged(e, now); {
		case at > now:
			t.schedule(e, at)
		case e.wanted > 0:
			t.probe(e, now)
		default:
			t.enter(e, Stale, e.mac, now)
			t.schedule(e, now+t.timing.Forget)
		}
	case Stale:
		t.remove(e)
	case Failed:
		t.retryWanted(e, now)
	default:
		t.schedule(e, never)
	}
}

// probe sends another request to a station in use.
func (t *Table[P]) probe(e *entry[P], now time.Duration) {
	t.enter(e, Probe, e.mac, now)
	e.tries = 1
	t.host.Ask(e.key, e.mac)
	t.schedule(e, now+t.timing.Retry)
}

// fail stops the requests. Wanted neighbours are tried again later.
func (t *Table[P]) fail(e *entry[P], now time.Duration) {
	t.Counters.Unanswered++
	queue := t.unqueue(e)
	if e.wanted > 0 {
		t.enter(e, Failed, wire.MAC{}, now)
		e.wait = min(max(2*e.wait, 2*t.timing.Retry), t.timing.Backoff)
		t.schedule(e, now+e.wait)
	} else {
		t.remove(e)
	}
	t.Counters.Expired += uint64(len(queue))
	for _, w := range queue {
		t.host.Unreachable(w.packet)
	}
}

// retryWanted sends one request for a wanted neighbour that does not answer.
func (t *Table[P]) retryWanted(e *entry[P], now time.Duration) {
	t.host.Ask(e.key, wire.MAC{})
	e.wait = min(2*e.wait, t.timing.Backoff)
	t.schedule(e, now+e.wait)
}

// unqueue removes the packets that wait for a neighbour.
func (t *Table[P]) unqueue(e *entry[P]) []waiting[P] {
	queue := e.queue
	e.queue = nil
	for _, w := range queue {
		t.bytes -= w.size
		t.port(w.origin).bytes -= w.size
	}
	return queue
}

// known changes an entry to a state in which packets can be sent there, and sends the queued ones, in order.
func (t *Table[P]) known(e *entry[P], s State, mac wire.MAC, now time.Duration) {
	if !e.state.Usable() {
		t.Counters.Resolved++
	}
	e.since, e.wait = now, 0
	t.enter(e, s, mac, now)
	switch s {
	case Reachable:
		t.schedule(e, t.aged(e, now))
	case Stale:
		t.schedule(e, now+t.timing.Forget)
		if e.wanted > 0 {
			t.probe(e, now)
		}
	default:
		t.schedule(e, never)
	}
	queue := t.unqueue(e)
	t.Counters.Released += uint64(len(queue))
	for _, w := range queue {
		t.host.Release(w.packet)
	}
}
