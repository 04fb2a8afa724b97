// SPDX-License-Identifier: Apache-2.0

package inspect

// Packets of the ring go through nDPI here, one after the other, and decisions into the tables of the cube.

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/internal/ndpi"
	"github.com/polycube/polycube/ring"
)

// tables are those of the cube; *dpi.Tables has them.
type tables interface {
	Decide(k dpi.Key, d dpi.Decision) error
	Flow(k dpi.Key) (dpi.Flow, bool, error)
}

// Limits of the worker's table.
const (
	// guessAfter is how long a flow may be silent until it is decided by what is known of it.
	guessAfter = 2 * time.Second
	// forgetAfter is how long it may be silent until its state is freed: it has ended, and nobody has said so.
	forgetAfter = 10 * time.Minute
)

// known is a flow. state is nil once it is decided.
type known struct {
	key     dpi.Key
	id      uint64
	reverse bool // the first packet that came here was from the higher end
	state   *ndpi.Flow
	packets int
	last    time.Duration
	class   dpi.Class
	decided bool
	// reported are the risks that are in the log.
	reported  uint64
	host, ja3 string
	// other is another protocol that the last sample was, 0 for none.
	other uint16
}

// Counts are those of a worker.
type Counts struct {
	Packets, Malformed, Started, Decided, Guessed, Unknown, Changed, Evicted, Failed atomic.Uint64
	// Latency is that of decisions, from the packet that brought them; Effect is the part of it after nDPI's answer.
	Latency, Effect latency
}

// worker classifies. Packets come from one goroutine; the others only forget flows and look at times.
type worker struct {
	module *ndpi.Module
	tables tables
	most   int // flows
	risk   func(k *known, new uint64, at time.Duration)
	counts *Counts

	mu    sync.Mutex // guards what follows, and the module
	limit int        // packets of a flow that come at most
	flows map[dpi.Key]*list.Element
	order list.List // of *known, the one heard of last at the front

	// working is when the packet came that is being worked on, 0 for none; done that of the last one.
	working, done atomic.Int64
	// size is the number of flows.
	size atomic.Int64
}

func newWorker(m *ndpi.Module, t tables, limit, most int, counts *Counts, risk func(*known, uint64, time.Duration)) *worker {
	return &worker{module: m, tables: t, limit: limit, most: most, counts: counts, risk: risk, flows: map[dpi.Key]*list.Element{}}
}

// take takes a packet of the ring.
func (w *worker) take(p *ring.Packet) {
	w.working.Store(int64(p.Time))
	w.packet(p)
	w.done.Store(int64(p.Time))
	w.working.Store(0)
}

func (w *worker) packet(p *ring.Packet) {
	w.counts.Packets.Add(1)
	f, ok := flow.Read(p.Data)
	if !ok || f.Has&flow.IP == 0 || int(f.L3) > len(p.Data) {
		w.counts.Malformed.Add(1)
		return
	}
	key, reverse := dpi.KeyOf(&f)
	ip := p.Data[f.L3:]
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.find(key, dpi.FlowID(p), p.Time, reverse)
	if k == nil {
		w.counts.Failed.Add(1)
		return
	}
	if p.Metadata[3] != 0 {
		w.sample(k, ip, p.Time)
		return
	}
	if k.state == nil && dpi.Flags(k.class.Flags)&dpi.Preliminary != 0 {
		k.state = w.module.NewFlow() // after a guess
	}
	if k.state == nil {
		return // it was decided while this packet was in the ring
	}
	k.packets++
	w.learn(k, w.module.Packet(k.state, ip, p.Time), p.Time)
}

// find returns the flow, a new one if there is none with this ID. Nil: there is no memory.
func (w *worker) find(key dpi.Key, id uint64, now time.Duration, reverse bool) *known {
	if e := w.flows[key]; e != nil {
		k := e.Value.(*known)
		if k.id == id {
			k.last = now
			w.order.MoveToFront(e)
			return k
		}
		w.drop(e)
	}
	if len(w.flows) >= w.most {
		oldest := w.order.Back()
		w.giveUp(oldest.Value.(*known), now, 0)
		w.drop(oldest)
		w.counts.Evicted.Add(1)
	}
	k := &known{key: key, id: id, reverse: reverse, state: w.module.NewFlow(), last: now}
	if k.state == nil {
		return nil
	}
	w.counts.Started.Add(1)
	w.flows[key] = w.order.PushFront(k)
	w.size.Add(1)
	return k
}

// learn takes over what nDPI says after a packet.
func (w *worker) learn(k *known, a ndpi.Answer, now time.Duration) {
	switch {
	case a.More && k.packets >= w.limit:
		w.giveUp(k, now, 0)
	case a.More:
		if a.Protocol != 0 {
			a.Flags |= uint16(dpi.Preliminary)
			w.decide(k, a.Class, now)
		}
	default:
		w.decide(k, a.Class, now)
		w.free(k)
	}
}

// giveUp decides by what is known. With flag Preliminary, later packets are still inspected.
func (w *worker) giveUp(k *known, now time.Duration, flags dpi.Flags) {
	if k.state == nil {
		return
	}
	a := w.module.GiveUp(k.state)
	a.Flags |= uint16(flags)
	w.decide(k, a.Class, now)
	w.free(k)
}

// free frees the state of nDPI, and keeps what the log has.
func (w *worker) free(k *known) {
	if k.state != nil {
		k.host, k.ja3 = k.state.Host(), k.state.JA3()
		k.state.Free()
		k.state = nil
	}
}

// decide writes a decision, if it is another one than before.
func (w *worker) decide(k *known, class dpi.Class, now time.Duration) {
	if k.decided && class == k.class {
		return
	}
	answered, _ := cube.Time()
	if err := w.tables.Decide(k.key, dpi.Decision{ID: k.id, Class: class}); err != nil {
		w.counts.Failed.Add(1)
		return
	}
	if done, err := cube.Time(); err == nil { // without a clock, no latency is counted
		w.counts.Latency.add(time.Duration(done) - now)
		w.counts.Effect.add(time.Duration(done - answered))
	}
	if !k.decided {
		w.counts.Decided.Add(1)
		switch {
		case class.Protocol == 0:
			w.counts.Unknown.Add(1)
		case dpi.Flags(class.Flags)&dpi.Guessed != 0:
			w.counts.Guessed.Add(1)
		}
	}
	k.class, k.decided = class, true
	if fresh := class.Risks &^ k.reported; fresh != 0 {
		k.reported |= fresh
		if k.state != nil {
			k.host = k.state.Host()
		}
		w.risk(k, fresh, now)
	}
}

// setLimit follows the cube's inspect-packets.
func (w *worker) setLimit(packets int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = packets
}
