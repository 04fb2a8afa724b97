// SPDX-License-Identifier: Apache-2.0

package inspect

// Packets of the ring go through nDPI here, in batches, and decisions into the cube's tables.

import (
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
	DecideAll(k []dpi.Key, d []dpi.Decision) (int, error)
	Flow(k dpi.Key) (dpi.Flow, bool, error)
}

// Limits of the worker's table.
const (
	// guessAfter is how long a flow may be silent until it is decided by what is known of it.
	guessAfter = 2 * time.Second
	// forgetAfter is how long it may be silent until its state is freed: it has ended, and nobody has said so.
	forgetAfter = 10 * time.Minute
)

// Counts are those of a worker.
type Counts struct {
	Packets, Malformed, Started, Decided, Guessed, Unknown, Changed, Evicted, Failed atomic.Uint64
	// Latency is that of decisions, from the packet that brought them; Effect is the part of it after nDPI's answer, or more: it
	// begins with the batch.
	Latency, Effect latency
}

// worker classifies. Packets come from one goroutine; the others only forget flows and look at times.
type worker struct {
	module *ndpi.Module
	tables tables
	most   int // flows
	risk   func(k *known, new uint64, at time.Duration)
	counts *Counts
	// packets are those of the batch; only the goroutine uses them that they come from.
	packets []ring.Packet

	mu    sync.Mutex // guards what follows, and the module
	limit int        // packets of a flow that come at most
	flows flows
	// asked is whose packets wait in the module, and when they came.
	asked []question
	// keys and decisions wait to be written, of the flows of made.
	keys      []dpi.Key
	decisions []dpi.Decision
	made      []decision
	// began is when the batch began to be looked at.
	began uint64

	// done is when the last packet came that was seen; told is up to when the fast path was told that all were.
	done, told atomic.Int64
	// interval is the time between two beats.
	interval atomic.Int64
}

// question is a packet that waits.
type question struct {
	of *known
	at time.Duration
}

// decision is one that waits to be written. before is what was known.
type decision struct {
	of        *known
	at        time.Duration
	before    dpi.Class
	wasBefore bool
}

func newWorker(m *ndpi.Module, t tables, limit, most int, counts *Counts, risk func(*known, uint64, time.Duration)) *worker {
	return &worker{module: m, tables: t, limit: limit, most: most, counts: counts, risk: risk, flows: flows{by: map[dpi.Key]*known{}},
		packets: make([]ring.Packet, 0, ndpi.MaxBatch)}
}

// take takes a packet of the ring into the batch: its data must be there until work.
func (w *worker) take(p *ring.Packet) {
	if w.packets = append(w.packets, *p); len(w.packets) == cap(w.packets) {
		w.work()
	}
}

// work sees to the packets of the batch.
func (w *worker) work() {
	if len(w.packets) == 0 {
		return
	}
	w.counts.Packets.Add(uint64(len(w.packets)))
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.packets {
		w.packet(&w.packets[i])
	}
	w.finish()
	w.done.Store(int64(w.packets[len(w.packets)-1].Time))
	w.packets = w.packets[:0]
}

func (w *worker) packet(p *ring.Packet) {
	f, ok := flow.Read(p.Data)
	if !ok || f.Has&flow.IP == 0 || int(f.L3) > len(p.Data) {
		w.counts.Malformed.Add(1)
		return
	}
	key, reverse := dpi.KeyOf(&f)
	ip := p.Data[f.L3:]
	k := w.find(key, dpi.FlowID(p), p.Time, reverse)
	if k == nil {
		w.counts.Failed.Add(1)
		return
	}
	if p.Metadata[3] != 0 {
		w.finish()
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
	if final := k.packets >= w.limit; !w.module.Queue(k.state, ip, p.Time, final) {
		w.inspect()
		if k.state == nil || !w.module.Queue(k.state, ip, p.Time, final) {
			return // one before it has decided
		}
	}
	w.asked = append(w.asked, question{k, p.Time})
	k.asked = true
}

// find returns the flow, a new one if there is none with this ID. Nil: there is no memory.
func (w *worker) find(key dpi.Key, id uint64, now time.Duration, reverse bool) *known {
	if k := w.flows.by[key]; k != nil {
		if k.id == id {
			w.flows.seen(k, now)
			return k
		}
		w.drop(k)
	}
	if len(w.flows.by) >= w.most {
		w.evict(now)
	}
	state := w.module.NewFlow()
	if state == nil {
		return nil
	}
	w.counts.Started.Add(1)
	k := w.flows.add(key, now)
	k.id, k.reverse, k.state = id, reverse, state
	return k
}

// inspect has the packets looked at that wait in the module.
func (w *worker) inspect() {
	if len(w.asked) == 0 {
		return
	}
	if len(w.made) == 0 {
		w.began, _ = cube.Time()
	}
	for i := range w.module.Inspect() {
		q := &w.asked[i]
		q.of.asked = false
		if a, ok := w.module.Answer(i); ok {
			w.learn(q.of, a, q.at)
		}
	}
	w.asked = w.asked[:0]
}

// finish does what waits.
func (w *worker) finish() {
	w.inspect()
	w.write()
}

// learn takes over what nDPI says after a packet.
func (w *worker) learn(k *known, a ndpi.Answer, now time.Duration) {
	switch {
	case !a.More:
		w.decide(k, a.Class, now)
		w.free(k)
	case a.Protocol != 0:
		a.Flags |= uint16(dpi.Preliminary)
		w.decide(k, a.Class, now)
	}
}

// giveUp decides by what is known. With flag Preliminary, later packets are still inspected.
func (w *worker) giveUp(k *known, now time.Duration, flags dpi.Flags) {
	if k.asked {
		w.inspect()
	}
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

// decide has a decision written, if it is another one than before.
func (w *worker) decide(k *known, class dpi.Class, now time.Duration) {
	if k.decided && class == k.class {
		return
	}
	if len(w.made) == ndpi.MaxBatch {
		w.write()
	}
	if len(w.made) == 0 && len(w.asked) == 0 {
		w.began, _ = cube.Time()
	}
	w.keys, w.decisions = append(w.keys, k.key), append(w.decisions, dpi.Decision{ID: k.id, Class: class})
	w.made = append(w.made, decision{k, now, k.class, k.decided})
	k.class, k.decided = class, true
}

// write writes the decisions that wait.
func (w *worker) write() {
	for from := 0; from < len(w.made); {
		n, err := w.tables.DecideAll(w.keys[from:], w.decisions[from:])
		w.written(from, from+n)
		if from += n; err != nil && from < len(w.made) {
			w.counts.Failed.Add(1)
			if d := &w.made[from]; d.of.class == w.decisions[from].Class {
				d.of.class, d.of.decided = d.before, d.wasBefore
			}
			from++
		}
	}
	w.keys, w.decisions, w.made = w.keys[:0], w.decisions[:0], w.made[:0]
}

// written counts decisions that are in the table, and reports risks.
func (w *worker) written(from, to int) {
	done, clock := cube.Time()
	for i := from; i < to; i++ {
		d, class := &w.made[i], w.decisions[i].Class
		if clock == nil { // without one, no latency is counted
			w.counts.Latency.add(time.Duration(done) - d.at)
			w.counts.Effect.add(time.Duration(done - w.began))
		}
		if !d.wasBefore {
			w.counts.Decided.Add(1)
			switch {
			case class.Protocol == 0:
				w.counts.Unknown.Add(1)
			case dpi.Flags(class.Flags)&dpi.Guessed != 0:
				w.counts.Guessed.Add(1)
			}
		}
		k := d.of
		if fresh := class.Risks &^ k.reported; fresh != 0 {
			k.reported |= fresh
			if k.state != nil {
				k.host = k.state.Host()
			}
			w.risk(k, fresh, d.at)
		}
	}
}

// setLimit follows the cube's inspect-packets.
func (w *worker) setLimit(packets int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = packets
}
