// SPDX-License-Identifier: Apache-2.0

package inspect

// Flows that are decided, silent or over.

import (
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/internal/ndpi"
)

// known is a flow. state is nil once it is decided.
type known struct {
	key     dpi.Key
	id      uint64
	reverse bool // the first packet that came here was from the higher end
	decided bool
	asked   bool // packets of it wait in the module
	state   *ndpi.Flow
	packets int
	last    time.Duration
	class   dpi.Class
	// reported are the risks that are in the log.
	reported  uint64
	host, ja3 string
	// other is another protocol that the last sample was, 0 for none.
	other uint16
	// newer and older are those that were heard of after it, and before it.
	newer, older *known
}

// flows are known flows, in the order in which they were heard of.
type flows struct {
	by             map[dpi.Key]*known
	newest, oldest *known
	// judged is the newest of those that were silent for guessAfter at the last sweep, as were all that are older.
	judged *known
	spare  *known // removed ones, by older
	// size is their number.
	size atomic.Int64
}

// add adds a flow, of which the caller sets the rest.
func (f *flows) add(key dpi.Key, now time.Duration) *known {
	k := f.spare
	if k == nil {
		k = &known{}
	} else {
		f.spare = k.older
	}
	*k = known{key: key, last: now}
	f.by[key] = k
	f.first(k)
	f.size.Add(1)
	return k
}

// first makes a flow the newest one, which is in no order.
func (f *flows) first(k *known) {
	k.newer, k.older = nil, f.newest
	if f.newest != nil {
		f.newest.newer = k
	} else {
		f.oldest = k
	}
	f.newest = k
}

// unlink takes a flow out of the order.
func (f *flows) unlink(k *known) {
	if k == f.judged {
		f.judged = k.older
	}
	if k.newer != nil {
		k.newer.older = k.older
	} else {
		f.newest = k.older
	}
	if k.older != nil {
		k.older.newer = k.newer
	} else {
		f.oldest = k.newer
	}
}

// unjudged is the oldest flow that was not silent at the last sweep, nil if there is none.
func (f *flows) unjudged() *known {
	if f.judged != nil {
		return f.judged.newer
	}
	return f.oldest
}

// seen: a packet of the flow came.
func (f *flows) seen(k *known, now time.Duration) {
	k.last = now
	f.unlink(k)
	f.first(k)
}

func (f *flows) remove(k *known) {
	f.unlink(k)
	delete(f.by, k.key)
	*k = known{older: f.spare}
	f.spare = k
	f.size.Add(-1)
}

// drop removes a flow, after all that waits.
func (w *worker) drop(k *known) {
	if k.asked {
		w.inspect()
	}
	w.write()
	w.free(k)
	w.flows.remove(k)
}

// evict decides the oldest flow, and removes it.
func (w *worker) evict(now time.Duration) {
	k := w.flows.oldest
	w.giveUp(k, now, 0)
	w.drop(k)
	w.counts.Evicted.Add(1)
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
	is := k.class
	if !k.decided {
		of, ok, err := w.tables.Flow(k.key)
		if err != nil || !ok || of.ID != k.id {
			return
		}
		is = of.Class
	}
	switch carrier := carrierOf(a.Class); {
	case carrier == carrierOf(is):
		k.other = 0
	case carrier != k.other:
		k.other = carrier
	default:
		k.other = 0
		w.counts.Changed.Add(1)
		w.decide(k, a.Class, now)
		w.write()
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
	defer w.write()
	for k := w.flows.unjudged(); k != nil && now-k.last >= guessAfter; k = k.newer {
		if !k.decided {
			w.giveUp(k, now, dpi.Preliminary)
		}
		w.flows.judged = k
	}
	for k := w.flows.oldest; k != nil && now-k.last > forgetAfter; k = w.flows.oldest {
		w.drop(k)
	}
}

// details are what the log has of a flow in addition to the tables.
type details struct{ host, ja3 string }

// ended forgets a flow that has ended.
func (w *worker) ended(e *dpi.Ended) (d details) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.flows.by[e.Key]
	if k == nil || k.id != e.Flow.ID {
		return d
	}
	if k.state != nil && !k.decided {
		k.class, k.decided = w.module.GiveUp(k.state).Class, true
	}
	if e.Flow.Flags&dpi.Decided == 0 && k.decided {
		e.Flow.Class, e.Flow.Flags = k.class, e.Flow.Flags|dpi.Decided
	}
	w.free(k)
	d = details{k.host, k.ja3}
	w.drop(k)
	return d
}

// close frees all flows.
func (w *worker) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.flows.oldest != nil {
		w.drop(w.flows.oldest)
	}
}

// beat is up to when all packets have been seen. idle says that the ring was empty after now. It never goes back.
func (w *worker) beat(now time.Duration, idle bool) time.Duration {
	at := now
	if !idle {
		at = min(time.Duration(w.done.Load()), now)
	}
	at = max(at, time.Duration(w.told.Load()))
	w.told.Store(int64(at))
	return at
}
