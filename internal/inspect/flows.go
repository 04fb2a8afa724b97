// SPDX-License-Identifier: Apache-2.0

package inspect

// Flows that are decided, silent or over.

import (
	"container/list"
	"time"

	"github.com/polycube/polycube/dpi"
)

// drop removes a flow.
func (w *worker) drop(e *list.Element) {
	k := e.Value.(*known)
	w.free(k)
	w.order.Remove(e)
	delete(w.flows, k.key)
	w.size.Add(-1)
}

// sample looks at a packet of a flow that was decided long ago: two samples in a row that are surely of another protocol
// change the decision. One packet says less than the first ones did, so a guess does not count.
func (w *worker) sample(k *known, ip []byte, now time.Duration) {
	f := w.module.NewFlow()
	if f == nil {
		return
	}
	defer f.Free()
	a := w.module.Packet(f, ip, now)
	w.free(k) // of a flow whose decision the program before this one has made
	if a.Protocol == 0 || dpi.Flags(a.Flags)&dpi.Guessed != 0 {
		return
	}
	is, ok, err := w.tables.Flow(k.key)
	if err != nil || !ok || is.ID != k.id {
		return
	}
	switch carrier := carrierOf(a.Class); {
	case carrier == carrierOf(is.Class):
		k.other = 0
	case carrier != k.other:
		k.other = carrier
	default:
		k.other = 0
		w.counts.Changed.Add(1)
		w.decide(k, a.Class, now)
	}
}

// carrierOf is the protocol whose messages the packets are.
func carrierOf(c dpi.Class) uint16 {
	if c.Master != 0 {
		return c.Master
	}
	return c.Protocol
}

// sweep decides flows that have been silent, and forgets those that nobody has heard of for long.
func (w *worker) sweep(now time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e := w.order.Back(); e != nil; {
		k, before := e.Value.(*known), e.Prev()
		silent := now - k.last
		if silent < guessAfter {
			return
		}
		if !k.decided {
			w.giveUp(k, now, dpi.Preliminary)
		}
		if silent > forgetAfter {
			w.drop(e)
		}
		e = before
	}
}

// details are what the log has of a flow in addition to the tables.
type details struct{ host, ja3 string }

// ended forgets a flow that has ended.
func (w *worker) ended(e *dpi.Ended) (d details) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.flows[e.Key]
	if at == nil || at.Value.(*known).id != e.Flow.ID {
		return d
	}
	k := at.Value.(*known)
	if k.state != nil && !k.decided {
		k.class, k.decided = w.module.GiveUp(k.state).Class, true
	}
	if e.Flow.Flags&dpi.Decided == 0 && k.decided {
		e.Flow.Class, e.Flow.Flags = k.class, e.Flow.Flags|dpi.Decided
	}
	w.free(k)
	d = details{k.host, k.ja3}
	w.drop(at)
	return d
}

// close frees all flows.
func (w *worker) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e := w.order.Back(); e != nil; e = w.order.Back() {
		w.drop(e)
	}
}

// beat is up to when all packets have been seen. idle says that the ring is empty.
func (w *worker) beat(now time.Duration, idle bool) time.Duration {
	if at := w.working.Load(); at != 0 {
		return min(time.Duration(at), now)
	}
	if idle {
		return now
	}
	return min(time.Duration(w.done.Load()), now)
}
