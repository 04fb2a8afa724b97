// SPDX-License-Identifier: Apache-2.0

// Packets in batches, and what a reader does by the clock.

package ring

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// startBatches is start for batches.
func startBatches(t *testing.T, r *Reader, b Batches) *reading {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	g := &reading{cancel, make(chan error, 1)}
	go func() { g.result <- r.RunBatches(ctx, b) }()
	t.Cleanup(cancel)
	return g
}

func TestDataOfABatchAreThereUntilItIsDone(t *testing.T) {
	w := load(t, ringTC)
	w.snap(4000)
	tagged := pkt.Tagged(frame(60), 0x81002064)
	const rounds = 50
	var want [][]byte
	for n := range rounds {
		for _, f := range [][]byte{frame(1400 + n), tagged, frame(100 + n)} {
			w.run("copy", f, 1, nil)
			want = append(want, f)
		}
	}
	r := w.open()
	var batch []Packet
	var first uint64 // of the batch
	var read, batches atomic.Int64
	start := atomic.LoadUint64(r.records.Consumer)
	g := startBatches(t, r, Batches{
		Packet: func(p *Packet) { batch = append(batch, *p) },
		Done: func() {
			if is := atomic.LoadUint64(r.records.Consumer); is > max(first, start) {
				t.Errorf("space up to %d was released before the batch from %d was done", is, first)
			}
			for _, p := range batch {
				if n := read.Add(1) - 1; !bytes.Equal(p.Data, want[n]) {
					t.Errorf("packet %d is %x, want %x", n, p.Data, want[n])
				}
			}
			if len(batch) > 0 {
				batches.Add(1)
			}
			batch, first = batch[:0], r.records.next
		},
	})
	netns.Eventually(t, soon, func() error {
		if read.Load() != int64(len(want)) {
			return errors.New("packets are missing")
		}
		return nil
	})
	if err := g.stop(); err != nil {
		t.Fatal(err)
	}
	if n := batches.Load(); n < 3 || n >= int64(len(want)) {
		t.Errorf("%d packets came in %d batches", len(want), n)
	}
}

func TestATickReadsWhatWakesNobody(t *testing.T) {
	w := load(t, ringXDP)
	r := w.open()
	var read, ticks, unread atomic.Int64
	startBatches(t, r, Batches{Packet: func(*Packet) { read.Add(1) }, Done: func() {}, Tick: func() time.Duration {
		ticks.Add(1)
		if r.Used() > 0 {
			unread.Add(1)
		}
		return 10 * time.Millisecond
	}})
	const packets = 50
	for n := range packets {
		w.run("copy_later", frame(60), 1, nil)
		netns.Eventually(t, soon, func() error {
			if read.Load() != int64(n+1) {
				return errors.New("it was not read")
			}
			return nil
		})
	}
	// No pauses: a sleep for each packet, one for each tick, and a few that a packet has prevented.
	if n, most := int64(r.Stats().Sleeps), ticks.Load()+3*packets; n > most {
		t.Errorf("it slept %d times for %d ticks, want at most %d", n, ticks.Load(), most)
	}
	if ticks.Load() < packets/4 || unread.Load() > packets {
		t.Errorf("%d ticks, %d of them with packets that were not read", ticks.Load(), unread.Load())
	}
}

func TestAReaderThatIsNeverDoneTicks(t *testing.T) {
	r := fakeRing(1 << 20)
	for range 900 {
		r.put(1000, make([]byte, 1000))
	}
	ticks, again := 0, time.Nanosecond
	h := Handler{Tick: func() time.Duration { ticks++; return again }}
	r.drain(func([]byte) {}, func() { r.tick(&h) })
	if want := 900 * 1008 / (publishEvery + 1008); ticks < want {
		t.Errorf("%d ticks while 900 records were read, want %d", ticks, want)
	}
	again = time.Hour
	r.tick(&h)
	was := ticks
	if r.tick(&h); ticks != was {
		t.Error("a tick before it is time")
	}
}
