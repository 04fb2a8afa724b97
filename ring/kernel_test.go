// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
)

var (
	//go:embed testdata/ring.tc.o
	ringTC []byte
	//go:embed testdata/ring.xdp.o
	ringXDP []byte
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

var soon = pace.Stretch(15 * time.Second)

// writer is the programs of a test, and their maps.
type writer struct {
	t testing.TB
	*ebpf.Collection
}

// load loads the programs without package bpftest, which imports this one.
func load(t testing.TB, object []byte) *writer {
	t.Helper()
	netns.NeedRoot(t)
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(c.Close)
	return &writer{t, c}
}

// Map implements Maps.
func (w *writer) Map(name string) (*ebpf.Map, error) { return w.Maps[name], nil }

// run copies a frame n times, by a program.
func (w *writer) run(program string, frame []byte, n int, ctx any) {
	w.t.Helper()
	err := netns.Uninterrupted(func() error {
		_, err := w.Programs[program].Run(&ebpf.RunOptions{Data: frame, Repeat: uint32(n), Context: ctx})
		return err
	})
	if err != nil {
		w.t.Fatalf("run: %v", err)
	}
}

// snap sets the snap length of the program copy.
func (w *writer) snap(n uint32) {
	w.t.Helper()
	if err := w.Maps["snap"].Put(uint32(0), n); err != nil {
		w.t.Fatal(err)
	}
}

// counts is what programs counted.
func (w *writer) counts() Counts {
	w.t.Helper()
	sum, err := Sum(w.Maps["copies"+CountsSuffix])
	if err != nil {
		w.t.Fatal(err)
	}
	return sum
}

func (w *writer) open() *Reader {
	w.t.Helper()
	r, err := Open(w, "copies")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return r
}

// collector keeps the packets.
type collector struct {
	mu      sync.Mutex
	packets []Packet
}

func (c *collector) add(p *Packet) {
	kept := *p
	kept.Data = slices.Clone(p.Data)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.packets = append(c.packets, kept)
}

func (c *collector) want(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.packets) != n {
		return fmt.Errorf("%d packets, want %d", len(c.packets), n)
	}
	return nil
}

// reading is a reader at work.
type reading struct {
	cancel func()
	result chan error
}

// start reads until the test ends, or stop.
func start(t testing.TB, r *Reader, fn func(*Packet)) *reading {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	g := &reading{cancel, make(chan error, 1)}
	go func() { g.result <- r.Run(ctx, fn) }()
	t.Cleanup(cancel)
	return g
}

func (g *reading) stop() error {
	g.cancel()
	return <-g.result
}

// now is the time by the clock of the programs.
func now(t testing.TB) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// frame makes a frame of n bytes that are all different from their neighbours.
func frame(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	copy(b[12:], []byte{0x88, 0xb5})
	return b
}

// skb is the start of struct __sk_buff as BPF_PROG_TEST_RUN takes it; what follows is zero.
type skb struct {
	_       [41]uint32
	GSOSegs uint32
	_       uint64
	GSOSize uint32
	_       [3]uint32
}

func TestPacketsArriveAsTheyAre(t *testing.T) {
	tagged := pkt.Tagged(frame(60), 0x81002064)
	for _, c := range []struct {
		name  string
		xdp   bool
		snap  uint32
		frame []byte
		skb   skb
		want  Packet
	}{
		{"TC", false, 128, frame(60), skb{}, Packet{Length: 60, Data: frame(60)}},
		{"TC, cut", false, 64, frame(1000), skb{}, Packet{Length: 1000, Data: frame(1000)[:64]}},
		{"TC, 500", false, 4000, frame(500), skb{}, Packet{Length: 500, Data: frame(500)}},
		{"TC, 1500", false, 4000, frame(1500), skb{}, Packet{Length: 1500, Data: frame(1500)}},
		{"superframe", false, 128, frame(60), skb{GSOSize: 1448, GSOSegs: 12}, Packet{Length: 60, Data: frame(60), Offload: cube.Offload{GSOSize: 1448, GSOSegs: 12}}},
		{"VLAN tag beside the frame", false, 128, tagged, skb{}, Packet{Length: 64, Data: tagged}},
		{"nothing", false, 0, frame(60), skb{}, Packet{Length: 60, Data: []byte{}}},
		{"XDP", true, 128, frame(60), skb{}, Packet{XDP: true, Length: 60, Data: frame(60)}},
		{"XDP, 128", true, 128, frame(128), skb{}, Packet{XDP: true, Length: 128, Data: frame(128)}},
		{"XDP, 129", true, 129, frame(200), skb{}, Packet{XDP: true, Length: 200, Data: frame(200)[:129]}},
		{"XDP, 512", true, 512, frame(600), skb{}, Packet{XDP: true, Length: 600, Data: frame(600)[:512]}},
		{"XDP, several buffers", true, 1 << 31, frame(9000), skb{}, Packet{XDP: true, Length: 9000, Data: frame(9000)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			object, ctx := ringTC, any(&c.skb)
			if c.xdp {
				object, ctx = ringXDP, nil
			}
			w := load(t, object)
			w.snap(c.snap)
			var got collector
			start(t, w.open(), got.add)
			before := now(t)
			w.run("copy", c.frame, 3, ctx)
			netns.Eventually(t, soon, func() error { return got.want(3) })
			c.want.Kind, c.want.InPort, c.want.OutPort, c.want.FlowHash, c.want.Netdev = 7, 3, 5, 0x12345678, 4711
			c.want.Metadata = [4]uint32{1, 0x80000002, 3, 0xffffffff}
			for _, p := range got.packets {
				if p.Time < before || p.Time > now(t) {
					t.Errorf("its time is %v, not from %v to %v", p.Time, before, now(t))
				}
				if p.Time = 0; !reflect.DeepEqual(p, c.want) {
					t.Errorf("got  %+v\nwant %+v", p, c.want)
				}
			}
			if got := w.counts(); got != (Counts{Written: 3}) {
				t.Errorf("programs counted %+v", got)
			}
		})
	}
}

func TestAFullRingLosesWhatDoesNotFitAndCountsIt(t *testing.T) {
	w := load(t, ringXDP)
	r := w.open()
	const each = 8 + recordHead + 128
	fits := uint64(1<<20-1) / each
	w.run("copy_head", frame(1000), 10_000, nil)
	c := w.counts()
	if c.Written != fits || c.Lost < 10_000-fits { // a run that a signal interrupts is repeated
		t.Errorf("programs counted %+v, want %d written", c, fits)
	}
	waiting, err := Waiting(w.Maps["copies"])
	if used := r.Used(); used != fits*each || waiting != used || err != nil {
		t.Errorf("%d bytes wait, %d for others, %v; want %d", used, waiting, err, fits*each)
	}
	var got collector
	start(t, r, got.add)
	netns.Eventually(t, soon, func() error { return got.want(int(fits)) })
	w.run("copy_head", frame(1000), 1, nil)
	netns.Eventually(t, soon, func() error { return got.want(int(fits) + 1) })
	if p := got.packets[fits]; len(p.Data) != 128 || p.Length != 1000 || p.Kind != 8 {
		t.Errorf("%+v", p)
	}
}

func TestAReaderContinuesWhereTheLastOneStopped(t *testing.T) {
	w := load(t, ringXDP)
	var first, second, third collector
	reads := start(t, w.open(), first.add)
	w.run("copy_head", frame(60), 1, nil)
	netns.Eventually(t, soon, func() error { return first.want(1) })
	if err := reads.stop(); err != nil {
		t.Fatal(err)
	}
	w.run("copy_head", frame(61), 2, nil)
	reads = start(t, w.open(), second.add)
	netns.Eventually(t, soon, func() error { return second.want(2) })

	// Another one takes over while this one reads.
	last := w.open()
	if err := <-reads.result; !errors.Is(err, ErrTaken) {
		t.Errorf("the reader that was replaced returned %v", err)
	}
	w.run("copy_head", frame(62), 5, nil)
	if err := last.Skip(); err != nil {
		t.Fatal(err)
	}
	start(t, last, third.add)
	w.run("copy_head", frame(63), 3, nil)
	netns.Eventually(t, soon, func() error { return third.want(3) })
	if p := third.packets[0]; len(p.Data) != 63 {
		t.Errorf("after Skip came %+v", p)
	}
}

func TestTimedAReaderWakesFromEachSleep(t *testing.T) {
	w := load(t, ringXDP)
	r := w.open()
	var got collector
	start(t, r, got.add)
	page := (*readerPage)(unsafe.Pointer(&r.page[0]))
	var worst time.Duration
	for i := range 200 {
		netns.Eventually(t, soon, func() error {
			if atomic.LoadUint32(&page.Sleeping) != 1 {
				return errors.New("it does not sleep")
			}
			return nil
		})
		begin := time.Now()
		w.run("copy_head", frame(60), 1, nil)
		for got.want(i+1) != nil {
			if time.Since(begin) > soon {
				t.Fatalf("packet %d never came", i)
			}
			runtime.Gosched()
		}
		worst = max(worst, time.Since(begin))
	}
	if worst > safetyNet/2 {
		t.Errorf("it took up to %v to wake: its sleep ended by itself", worst)
	}
}

func TestPacketsThatCanWaitWakeNobody(t *testing.T) {
	w := load(t, ringXDP)
	r := w.open()
	var got collector
	start(t, r, got.add)
	page := (*readerPage)(unsafe.Pointer(&r.page[0]))
	asleep := func() error {
		if atomic.LoadUint32(&page.Sleeping) != 1 {
			return errors.New("it does not sleep")
		}
		return nil
	}
	netns.Eventually(t, soon, asleep)
	before := r.Stats().Sleeps
	const packets = 50
	for range packets {
		w.run("copy_later", frame(60), 1, nil)
		netns.Eventually(t, soon, asleep)
	}
	// The safety net may end a sleep now and then.
	if n := r.Stats().Sleeps - before; n > packets/3 {
		t.Errorf("%d packets that can wait have woken the reader %d times", packets, n)
	}
	r.Wake()
	netns.Eventually(t, soon, func() error { return got.want(packets) })
}

func TestTimedAnIdleReaderUsesNoCPU(t *testing.T) {
	r := load(t, ringXDP).open()
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	if err := r.Run(ctx, func(*Packet) {}); err != nil {
		t.Fatal(err)
	}
	// One sleep at the start, one after the safety net ended it, and nothing in between.
	if n := r.Stats().Sleeps; n < 1 || n > 3 {
		t.Errorf("it slept %d times in 1.5 s", n)
	}
}

func TestPacketsOfAllCPUsArriveOnce(t *testing.T) {
	w := load(t, ringXDP)
	var read atomic.Uint64
	start(t, w.open(), func(p *Packet) {
		if len(p.Data) != 128 || p.Data[100] != 188 {
			t.Errorf("%+v", p)
		}
		read.Add(1)
	})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range 20 {
				w.run("copy_head", frame(200), 10_000, nil)
			}
		})
	}
	all.Wait()
	netns.Eventually(t, soon, func() error {
		if c := w.counts(); read.Load() != c.Written || c.Written+c.Lost < 400_000 {
			return fmt.Errorf("%d packets were read, programs counted %+v", read.Load(), c)
		}
		return nil
	})
}

// liars write what a reader must not write, again and again.
var liars = map[string]func(r *Records, page *readerPage){
	"a position far ahead":  func(r *Records, _ *readerPage) { *r.Consumer = *r.Producer + 1<<40 },
	"a position far behind": func(r *Records, _ *readerPage) { *r.Consumer = *r.Producer - 1<<40 },
	"positions between records": func(r *Records, _ *readerPage) {
		*r.Consumer = *r.Producer - uint64(rand.IntN(1<<20))
	},
	"always asleep":     func(_ *Records, page *readerPage) { page.Sleeping = 1 },
	"any sleeping word": func(_ *Records, page *readerPage) { page.Sleeping = rand.Uint32() },
}

// A reader that lies harms itself: programs go on, the next ring is not touched, and an honest reader that takes over
// finds its way.
func TestAReaderThatLiesHarmsOnlyItself(t *testing.T) {
	for name, lie := range liars {
		t.Run(name, func(t *testing.T) {
			w, other := load(t, ringXDP), load(t, ringXDP)
			var honest collector
			start(t, other.open(), honest.add)
			liar := w.open()
			page := (*readerPage)(unsafe.Pointer(&liar.page[0]))
			for range 30 {
				lie(liar.records, page)
				w.run("copy_head", frame(200), 1000, nil)
			}
			other.run("copy_head", frame(60), 50, nil)
			netns.Eventually(t, soon, func() error { return honest.want(50) })

			var after atomic.Uint64
			r := w.open()
			start(t, r, func(p *Packet) {
				if p.Length == 77 {
					after.Add(1)
				}
			})
			netns.Eventually(t, soon, func() error {
				w.run("copy_head", frame(77), 1, nil)
				if after.Load() == 0 {
					return fmt.Errorf("nothing arrives: %+v, programs counted %+v", r.Stats(), w.counts())
				}
				return nil
			})
		})
	}
}

func TestWhatIsNotARingIsRefused(t *testing.T) {
	w := load(t, ringXDP)
	ring, page := w.Maps["copies"], w.Maps["copies_reader"]
	for name, maps := range map[string][2]*ebpf.Map{"an array": {page, page}, "a ring as the page": {ring, ring}, "another array": {ring, w.Maps["snap"]}} {
		w.Maps["x"], w.Maps["x_reader"] = maps[0], maps[1]
		if r, err := Open(w, "x"); err == nil {
			t.Errorf("%s: %v", name, r.Close())
		}
	}
	delete(w.Maps, "x")
	delete(w.Maps, "x_reader")
}

func TestCloseEndsRun(t *testing.T) {
	r := load(t, ringXDP).open()
	g := start(t, r, func(*Packet) {})
	netns.Eventually(t, soon, func() error {
		if r.Stats().Sleeps == 0 {
			return errors.New("it does not run yet")
		}
		return nil
	})
	if err := errors.Join(r.Close(), r.Close(), <-g.result); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context(), func(*Packet) {}); !errors.Is(err, ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
	if r.Used() != 0 {
		t.Error("a closed ring has content")
	}
}
