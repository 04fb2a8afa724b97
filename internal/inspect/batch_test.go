// SPDX-License-Identifier: Apache-2.0

package inspect

// Batches, with a table in memory instead of that of a cube.

import (
	"errors"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/internal/ndpi"
	"github.com/polycube/polycube/ring"
	"github.com/polycube/polycube/test/repeat"
)

// memory is tables in memory.
type memory struct {
	is    map[dpi.Key]dpi.Decision
	all   []dpi.Decision // in order
	calls int
	// refused are flows for which there is no room.
	refused map[dpi.Key]bool
}

var errNoRoom = errors.New("no room")

func (m *memory) DecideAll(keys []dpi.Key, all []dpi.Decision) (int, error) {
	m.calls++
	for i, k := range keys {
		if m.refused[k] {
			return i, errNoRoom
		}
		m.is[k] = all[i]
		m.all = append(m.all, all[i])
	}
	return len(keys), nil
}

func (m *memory) Flow(k dpi.Key) (f dpi.Flow, ok bool, err error) {
	d, ok := m.is[k]
	f.ID, f.Class = d.ID, d.Class
	return f, ok, nil
}

// bench is a worker over tables in memory.
type bench struct {
	*worker
	memory
}

func newBench(t testing.TB, limit, flows int) *bench {
	t.Helper()
	m, err := ndpi.New("", "")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{memory: memory{is: map[dpi.Key]dpi.Decision{}, refused: map[dpi.Key]bool{}}}
	b.worker = newWorker(m, &b.memory, limit, flows, &Counts{}, func(*known, uint64, time.Duration) {})
	t.Cleanup(func() {
		b.close()
		m.Close()
	})
	return b
}

// packet is one of a ring.
func packet(frame []byte, id uint64, at time.Duration) ring.Packet {
	return ring.Packet{Time: at, Data: frame, Length: len(frame), Metadata: [4]uint32{uint32(id), uint32(id >> 32)}}
}

// mixed are packets of all talks, in an order of chance that keeps that of each talk; some flows come again, and some packets are samples.
func mixed(t *testing.T, r *rand.Rand) (all []ring.Packet) {
	var waiting [][]ring.Packet
	for n, talk := range talks(t) {
		for again := range 2 {
			var of []ring.Packet
			for _, f := range talk.frames(n) {
				of = append(of, packet(f.bytes, uint64(2*n+again+1), 0))
			}
			if again == 0 || r.IntN(2) == 0 {
				waiting = append(waiting, of)
			}
		}
	}
	for len(waiting) > 0 {
		n := r.IntN(min(len(waiting), 30))
		p := waiting[n][0]
		p.Time = time.Second + time.Duration(len(all))*time.Millisecond
		if r.IntN(8) == 0 {
			p.Metadata[3] = 1
		}
		all = append(all, p)
		if waiting[n] = waiting[n][1:]; len(waiting[n]) == 0 {
			waiting = append(waiting[:n], waiting[n+1:]...)
		}
	}
	return all
}

// A batch decides what its packets decide one by one, also where flows are removed for which packets of the batch wait.
func TestABatchDecidesWhatItsPacketsDo(t *testing.T) {
	r := rand.New(rand.NewPCG(repeat.Seed(t), 0))
	for range 6 {
		packets, limit, flows := mixed(t, r), 1+r.IntN(16), 16+r.IntN(40)
		single, batches := newBench(t, limit, flows), newBench(t, limit, flows)
		for i := range packets {
			single.see(&packets[i])
			if batches.take(&packets[i]); r.IntN(40) == 0 {
				batches.work()
			}
		}
		batches.work()
		if !maps.Equal(single.is, batches.is) {
			for k, want := range single.is {
				if got := batches.is[k]; got != want {
					t.Errorf("%v is %+v in batches, %+v packet by packet", k, got, want)
				}
			}
		}
		type counted struct {
			packets, malformed, started, decided, guessed, unknown, changed, evicted, failed, flows, written uint64
		}
		of := func(b *bench) counted {
			c := b.counts
			return counted{c.Packets.Load(), c.Malformed.Load(), c.Started.Load(), c.Decided.Load(), c.Guessed.Load(), c.Unknown.Load(), c.Changed.Load(),
				c.Evicted.Load(), c.Failed.Load(), uint64(b.worker.flows.size.Load()), uint64(len(b.all))}
		}
		if got, want := of(batches), of(single); got != want || got.evicted == 0 || got.decided == 0 {
			t.Errorf("%d packets, limit %d, %d flows: counted are %+v in batches, %+v packet by packet", len(packets), limit, flows, got, want)
		}
		if batches.calls >= single.calls {
			t.Errorf("%d system calls in batches, %d otherwise", batches.calls, single.calls)
		}
	}
}

func TestOneDecisionWithoutRoomKeepsNoOtherFromTheTable(t *testing.T) {
	b := newBench(t, 16, 100)
	dns := one(t, "dns")
	const flows = 20
	for n := range flows {
		p := packet(dns.frames(n)[0].bytes, uint64(n+1), time.Second)
		b.take(&p)
	}
	b.work()
	if len(b.is) != flows || b.calls != 1 {
		t.Fatalf("%d decisions in %d system calls, want %d in one", len(b.is), b.calls, flows)
	}
	refused := 0
	for k := range b.worker.flows.by {
		if b.refused[k] = refused < 3; b.refused[k] {
			refused++
		}
	}
	clear(b.is)
	for _, k := range b.worker.flows.by {
		class := k.class
		class.Risks ^= 1
		b.decide(k, class, time.Second)
	}
	b.write()
	if len(b.is) != flows-3 || b.counts.Failed.Load() != 3 || b.counts.Decided.Load() != flows {
		t.Errorf("%d of %d decisions are in the table, %d failed, %d were decided", len(b.is), flows, b.counts.Failed.Load(), b.counts.Decided.Load())
	}
	for key, k := range b.worker.flows.by {
		if is := k.class.Risks&1 != 0; is == b.refused[key] {
			t.Errorf("what is known and what is in the table differ: %+v", k)
		}
	}
}

// A sweep looks at each flow once, however often it comes while that is silent.
func TestASweepLooksAtAFlowOnce(t *testing.T) {
	b := newBench(t, 16, 1000)
	odd := talk{protocol: udp, port: 61234, messages: []string{"c" + unhex("a1b2c3d4e5f60718")}}
	const flows = 9
	arrives := func(n int, at time.Duration) {
		p := packet(odd.frames(n)[0].bytes, uint64(n+1), at)
		b.see(&p)
	}
	decided := func(now time.Duration, want uint64) {
		t.Helper()
		if b.sweep(now); b.counts.Decided.Load() != want {
			t.Errorf("at %v %d flows were decided, want %d", now, b.counts.Decided.Load(), want)
		}
	}
	for n := range flows {
		arrives(n, time.Duration(n+1)*time.Second)
	}
	for n := range flows {
		decided(time.Duration(n+1)*time.Second+guessAfter-1, uint64(n))
		decided(time.Duration(n+1)*time.Second+guessAfter, uint64(n+1))
		if k := b.worker.flows.unjudged(); (k == nil) != (n == flows-1) || k != nil && k.id != uint64(n+2) {
			t.Errorf("the next flow to be judged is %+v, want that of packet %d", k, n+1)
		}
	}
	const later = 20 * time.Second
	arrives(flows-1, later) // the newest one that was judged
	arrives(0, later+1)     // the oldest one
	arrives(flows, later+2) // a new one
	if k := b.worker.flows.unjudged(); k == nil || k.id != flows {
		t.Errorf("the next flow to be judged is %+v, want the one that was heard of first", k)
	}
	decided(later+guessAfter+2, flows+1)
	b.sweep(flows*time.Second + forgetAfter)
	if got := b.worker.flows.size.Load(); got != 3 {
		t.Errorf("%d flows are known, want the three that came last", got)
	}
	b.sweep(later + 3 + forgetAfter)
	if got := b.worker.flows.size.Load(); got != 0 || b.worker.flows.judged != nil {
		t.Errorf("%d flows are known after a long silence, judged %v", got, b.worker.flows.judged)
	}
}
