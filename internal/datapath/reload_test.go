// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/datapath/segments"
	"github.com/polycube/polycube/test/netns"
)

// number is a test frame with a number; numberOf reads it.
func number(n uint32) []byte {
	f := frame("")
	binary.BigEndian.PutUint32(f[40:], n)
	return f
}

func numberOf(f []byte) uint32 { return binary.BigEndian.Uint32(f[40:]) }

// stream sends numbered frames until stopped, and returns how many.
func stream(b *bench, from *netns.Node, every time.Duration) (stop func() uint32) {
	b.t.Helper()
	tx := netns.OpenRaw(b.t, from, netns.Inner)
	cpus, err := netns.CPUs()
	if err != nil {
		b.t.Fatal(err)
	}
	cpu := cpus[b.streams%len(cpus)]
	b.streams++
	done, sent := make(chan struct{}), make(chan uint32, 1)
	go func() {
		n := uint32(0)
		err := netns.OnCPU(cpu, func() error {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for ; ; n++ {
				select {
				case <-done:
					return nil
				case <-tick.C:
				}
				if err := tx.Send(number(n)); err != nil {
					return err
				}
			}
		})
		if err != nil {
			b.t.Error(err)
		}
		sent <- n
	}()
	return sync.OnceValue(func() uint32 {
		close(done)
		return <-sent
	})
}

// arrive fails unless each numbered frame arrives once and in order.
func arrive(b *bench, rx *netns.Raw, sent uint32) {
	b.t.Helper()
	for want := range sent {
		f, err := rx.Recv(isTest, soon)
		if err != nil {
			b.t.Fatalf("frame %d of %d is lost: %v\n%s", want, sent, err, b.seen())
		}
		if got := numberOf(f); got != want {
			b.t.Fatalf("frame %d arrives in place of %d, of %d\n%s", got, want, sent, b.seen())
		}
	}
	if f, err := rx.Recv(isTest, 0); err == nil {
		b.t.Errorf("frame %d arrives twice", numberOf(f))
	}
}

// seen says where a lost frame was last counted: in the kernel's queue, which only says that some overflowed since
// boot, or at which port of which cube, and how the frames that went no further ended.
func (b *bench) seen() string {
	b.t.Helper()
	queues, err := os.ReadFile("/proc/net/softnet_stat")
	if err != nil {
		b.t.Error(err)
	}
	out := &strings.Builder{}
	for cpu, line := range strings.Split(strings.TrimSpace(string(queues)), "\n") {
		if f := strings.Fields(line); len(f) > 1 {
			fmt.Fprintf(out, "queue of CPU %d: 0x%s packets dropped since boot\n", cpu, f[1])
		}
	}
	for _, n := range b.g.Cubes {
		for _, p := range slices.Sorted(maps.Keys(n.Ports)) {
			fmt.Fprintf(out, "%s port %d: %+v\n", n.Name, p, b.counters(n, p))
		}
		fates, err := b.plane.Fates(n.ID)
		if err != nil {
			b.t.Error(err)
		}
		for _, f := range fates {
			if f.Packets > 0 {
				fmt.Fprintf(out, "%s: %d %s\n", n.Name, f.Packets, f.Name)
			}
		}
	}
	return out.String()
}

// generation is the generation of the first component.
func (b *bench) generation() *segments.Generation {
	b.plane.mu.Lock()
	defer b.plane.mu.Unlock()
	return b.plane.parts[0].gen
}

// reloads is how long tests change programs under load, and how often.
const (
	reloads     = 2 * time.Second
	reloadEvery = 10 * time.Millisecond
)

func TestReloadsUnderLoadLoseNothing(t *testing.T) {
	some := []setting{settings[0], settings[1], settings[3], settings[4], {typ: settings[0].typ, mode: ModeAuto}}
	in(t, some, func(t *testing.T, b *bench) {
		one, two, a, z := b.chain()
		rx := netns.OpenRaw(t, z, netns.Inner)
		stop := stream(b, a, 500*time.Microsecond)
		defer stop()
		gen := b.generation()
		n, end := 0, time.Now().Add(reloads)
		tick := time.NewTicker(reloadEvery)
		defer tick.Stop()
		for ; n < 5 || time.Now().Before(end); n++ {
			<-tick.C
			// a constant that is not read if what is 6, in one cube or the other
			c := []*Node{one, two}[n%2]
			c.Constants = map[string]any{"what": uint32(6), "out": uint16(n + 2)}
			b.commit()
			if now := b.generation(); now == gen && !now.Live() {
				t.Fatal("a new constant did not relink")
			}
			gen = b.generation()
		}
		sent := stop()
		arrive(b, rx, sent)
		b.packets(one, 1, 0, uint64(sent))
		b.packets(two, 0, uint64(sent), 0)
		t.Logf("%d reloads, %d frames", n, sent)
		if sent < 50 {
			t.Errorf("only %d frames", sent)
		}
	})
}

func TestNetdevsComeAndGoUnderLoadAndOthersLoseNothing(t *testing.T) {
	in(t, few, func(t *testing.T, b *bench) {
		one, _, a, z := b.chain()
		b.lab.Host("b", "", netns.WithGRO())
		dev := b.netdev("b")
		rx := netns.OpenRaw(t, z, netns.Inner)
		stop := stream(b, a, 500*time.Microsecond)
		defer stop()
		for range 10 {
			one.Ports[2].Peer = Peer{Netdev: "b"}
			b.g.Netdevs["b"] = dev
			b.commit()
			one.Ports[2].Peer = Peer{}
			delete(b.g.Netdevs, "b")
			b.commit()
		}
		arrive(b, rx, stop())
	})
}

func TestChangesAndTheInlinerRunSideBySide(t *testing.T) {
	in(t, []setting{{typ: settings[0].typ, mode: ModeAuto, spares: true}, {typ: settings[3].typ, mode: ModeAuto, spares: true}}, func(t *testing.T, b *bench) {
		one, _, a, z := b.chain()
		other := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		b.host("o", "", other, 0)
		b.commit()
		var readers sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			readers.Go(func() {
				for ctx.Err() == nil {
					_, err1 := b.plane.Fates(one.ID)
					_, err2 := b.plane.PortCounters(one.Ports[0].Slot)
					_ = b.plane.Status(other.ID) // any is right while it changes
					_ = b.plane.Timings(one.ID)
					if err := errors.Join(err1, err2); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for n := range 12 {
			other.Constants = map[string]any{"what": uint32(6), "out": uint16(n)}
			b.must(func() error { return b.prepareThenAbandon(one, uint16(n)) })
			b.commit()
			netns.Eventually(t, soon, func() error {
				if n%3 == 0 {
					return nil // the next change comes while the inliner is at work
				}
				for _, c := range []*Node{one, other} {
					if s := b.plane.Status(c.ID); s.Mode != "inline" {
						return fmt.Errorf("%s: %+v, want inline", c.Name, s)
					}
				}
				return nil
			})
		}
		cancel()
		readers.Wait()
		b.passes(a, z, frame("x"))
		b.passes(z, a, frame("x"))
	})
}

// prepareThenAbandon prepares a change to a cube's constants and aborts it.
func (b *bench) prepareThenAbandon(n *Node, out uint16) error {
	was := n.Constants
	defer func() { n.Constants = was }()
	n.Constants = map[string]any{"what": uint32(1), "out": out}
	ch, err := b.plane.Prepare(context.Background(), cloneOf(b.g))
	if err == nil {
		ch.Abort()
	}
	return err
}

func TestTwoPlanesForwardSideBySide(t *testing.T) {
	in(t, few, func(t *testing.T, b *bench) {
		_, _, a, z := b.chain()
		second := &bench{t: t, lab: b.lab, typ: b.typ, dir: b.dir + "2", g: &Graph{Cubes: map[CubeID]*Node{}, Netdevs: map[string]*Netdev{}}}
		second.opts = b.opts
		second.opts.Dir, second.opts.Instance = second.dir, "second"
		second.open()
		t.Cleanup(func() {
			if second.plane != nil {
				second.must(second.plane.Cleanup)
			}
		})
		c := second.cube("probe", 2, map[string]any{"what": uint32(6)})
		x, y := second.host("x", "", c, 0), second.host("y", "", c, 1)
		second.commit()
		b.passes(a, z, frame("first"))
		second.passes(x, y, frame("second"))
		if got := second.counters(c, 0); got.RxPackets != 1 {
			t.Errorf("the second plane counts %+v", got)
		}
		// A netdev of the first belongs to it.
		c.Ports[0].Peer = Peer{Netdev: "a"}
		second.g.Netdevs["a"] = b.g.Netdevs["a"]
		if err := second.inLab(second.tryCommit); b.typ.Hook() != 0 && err == nil {
			t.Error("the second plane took a netdev of the first")
		}
		second.must(second.plane.Cleanup)
		second.plane = nil
		if _, err := os.Stat(second.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after the cleanup: %v", err)
		}
		b.passes(a, z, frame("first still"))
		b.passes(z, a, frame("first still"))
	})
}
