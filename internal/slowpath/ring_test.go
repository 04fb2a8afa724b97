// SPDX-License-Identifier: Apache-2.0

// Records that the framework's own programs wrote, read back.

package slowpath

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
)

var soon = pace.Stretch(15 * time.Second)

// skb is struct __sk_buff as BPF_PROG_TEST_RUN takes it.
type skb struct {
	Len, PktType, Mark, QueueMapping, Protocol, VlanPresent, VlanTCI, VlanProto, Priority, IngressIfindex, Ifindex,
	TCIndex uint32
	CB                                             [5]uint32
	Hash, TCClassid, Data, DataEnd, NapiID, Family uint32
	RemoteIP4, LocalIP4                            uint32
	RemoteIP6, LocalIP6                            [4]uint32
	RemotePort, LocalPort, DataMeta                uint32
	FlowKeys                                       uint64
	Tstamp                                         uint64
	WireLen, GSOSegs                               uint32
	SK                                             uint64
	GSOSize                                        uint32
	TstampType                                     uint8
	_                                              [3]byte
	Hwtstamp                                       uint64
}

var someMD = md{InPort: 3, OutPort: 5, Reason: 40, Hops: 9, TrafficClass: 0xdeadbeef, FlowHash: 0x12345678, Tenant: 77,
	MD: [4]uint32{1, 0x80000002, 3, 0xffffffff}, PassIfindex: 4711, Flags: 0x30 | 3<<7}

// someTrip is that of a packet with someMD.
var someTrip = cube.Trip{Hops: 9, Netdev: 4711, FlowHash: 0x12345678, Tenant: 77, Turned: true, Offered: true, OfferedFrom: 3}

func TestPacketsComeUpAsTheyAre(t *testing.T) {
	plain, tagged := frame(60), pkt.Tagged(frame(60), 0x81002064)
	in := func(f func(*cube.PacketIn)) cube.PacketIn {
		p := cube.PacketIn{Port: 3, Reason: 40, Metadata: someMD.MD, TrafficClass: 0xdeadbeef, Trip: someTrip, Length: 60, Data: plain}
		if f != nil {
			f(&p)
		}
		return p
	}
	meta := Meta{Ifindex: 4711}
	for _, c := range []struct {
		name  string
		hook  cube.Hook
		who   int32
		frame []byte
		skb   skb
		want  cube.PacketIn
	}{
		{"ingress at TC", cube.TC, 7, plain, skb{}, in(nil)},
		{"egress at TC", cube.TC, 7 | egress, plain, skb{}, in(func(p *cube.PacketIn) { p.Direction, p.Port = cube.Egress, 5 })},
		{"superframe at TC", cube.TC, 7, plain, skb{GSOSize: 1448, GSOSegs: 12},
			in(func(p *cube.PacketIn) { p.Offload = cube.Offload{GSOSize: 1448, GSOSegs: 12} })},
		{"VLAN tag beside the frame", cube.TC, 7, tagged, skb{}, in(func(p *cube.PacketIn) { p.Data, p.Length = tagged, 64 })},
		{"2 KB", cube.TC, 7, frame(1500), skb{}, in(func(p *cube.PacketIn) { p.Data, p.Length = frame(1500), 1500 })},
		{"ingress at XDP", cube.XDP, 7, plain, skb{}, in(nil)},
		{"egress at XDP", cube.XDP, 7 | egress, plain, skb{}, in(func(p *cube.PacketIn) { p.Direction, p.Port = cube.Egress, 5 })},
		{"192 bytes at XDP", cube.XDP, 7, frame(192), skb{}, in(func(p *cube.PacketIn) { p.Data, p.Length = frame(192), 192 })},
		{"193 bytes at XDP", cube.XDP, 7, frame(193), skb{}, in(func(p *cube.PacketIn) { p.Data, p.Length = frame(193), 193 })},
		{"fragments at XDP", cube.XDP, 7, frame(9000), skb{}, in(func(p *cube.PacketIn) { p.Data, p.Length = frame(9000), 9000 })},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKernel(t)
			p := k.caller(c.hook, "pcn_core_up", c.who, withMD(mdBytes(someMD)))
			r := k.open()
			var got collector
			start(t, r, &got)
			var ctx any
			if c.hook == cube.TC {
				ctx = &c.skb
			}
			run(t, p, c.frame, 3, ctx)
			netns.Eventually(t, soon, func() error { return got.want(3) })
			meta.XDP = c.hook == cube.XDP
			for _, e := range got.all() {
				if want := (event{What: "packet", Cube: 7, Packet: c.want, Meta: meta}); !reflect.DeepEqual(e, want) {
					t.Errorf("got  %+v\nwant %+v", e, want)
				}
			}
			netns.Eventually(t, soon, func() error {
				if s := k.share(7); s.Produced != s.Consumed || s.Produced == 0 {
					return errors.New("the share does not come out even")
				}
				return nil
			})
		})
	}
}

func TestLogLinesComeUpFormatted(t *testing.T) {
	for _, hook := range []cube.Hook{cube.TC, cube.XDP} {
		t.Run(hook.String(), func(t *testing.T) {
			k := newKernel(t)
			p := k.caller(hook, "pcn_core_log_for", 9, withMD(logArgs(3, "from %M on %d", 0x060504030201, 5)))
			var got collector
			start(t, k.open(), &got)
			run(t, p, frame(60), 1, nil)
			netns.Eventually(t, soon, func() error { return got.want(1) })
			if e, want := got.all()[0], (event{What: "log", Cube: 9, Level: 3, Line: "from 01:02:03:04:05:06 on 5"}); !reflect.DeepEqual(e, want) {
				t.Errorf("%+v, want %+v", e, want)
			}
		})
	}
}

func TestFloodsThatTheKernelCannotMakeComeUp(t *testing.T) {
	k := newKernel(t)
	p := k.caller(cube.XDP, "pcn_core_flood", 7, withMD(mdBytes(someMD)))
	row := make([]byte, k.maps["pcn_floods"].ValueSize())
	binary.NativeEndian.PutUint32(row[4:], 2) // complex: ports that lead to programs
	if err := k.maps["pcn_floods"].Put(uint32(7), row); err != nil {
		t.Fatal(err)
	}
	var got collector
	start(t, k.open(), &got)
	run(t, p, frame(60), 1, nil)
	netns.Eventually(t, soon, func() error { return got.want(1) })
	if e := got.all()[0]; e.What != "flood" || e.Cube != 7 || e.Packet.Port != 3 || !bytes.Equal(e.Packet.Data, frame(60)) {
		t.Errorf("%+v", e)
	}
}

// counter counts, and allocates nothing.
type counter struct{ packets, bytes [8]uint64 }

func (c *counter) Packet(id uint16, p *cube.PacketIn, _ Meta) {
	c.packets[id&7]++
	c.bytes[id&7] += uint64(len(p.Data))
}
func (c *counter) Flood(uint16, *cube.PacketIn, Meta) {}
func (c *counter) Notify(uint16, uint32, []byte)      {}
func (c *counter) Log(uint16, uint32, string)         {}

// slow takes its time with the packets of cube 1, and compares them all with what was sent.
type slow struct {
	counter
	until   time.Duration
	sent    []byte
	damaged int
}

func (s *slow) Packet(id uint16, p *cube.PacketIn, m Meta) {
	s.counter.Packet(id, p, m)
	if !bytes.Equal(p.Data, s.sent) {
		s.damaged++
	}
	if id == 1 {
		for begin := time.Now(); time.Since(begin) < s.until; {
			runtime.Gosched()
		}
	}
}

// While one cube floods a reader that is too slow for it, another loses nothing.
func TestQuietCubeLosesNothingBesideAFlood(t *testing.T) {
	k := newKernel(t)
	noisy := k.caller(cube.TC, "pcn_core_up", 1, withMD(mdBytes(md{})))
	quiet := k.caller(cube.TC, "pcn_core_up", 2, withMD(mdBytes(md{})))
	h := &slow{until: 2 * time.Microsecond, sent: frame(187)}
	stop := start(t, k.open(), h)
	// All packets of the quiet cube together are less than the quarter of the ring that it may have beside a noisy one,
	// so it does not matter when the reader gets to run.
	const rounds, quietEach, noisyEach = 200, 20, 10000
	for range rounds {
		run(t, noisy, h.sent, noisyEach, nil)
		run(t, quiet, h.sent, quietEach, nil)
	}
	netns.Eventually(t, soon, func() error {
		if a, b := k.share(1), k.share(2); a.Produced != a.Consumed || b.Produced != b.Consumed {
			return errors.New("the ring is not read to its end")
		}
		return nil
	})
	stop()
	if h.damaged != 0 {
		t.Errorf("%d packets came up damaged, after the ring had gone round %d times", h.damaged, k.share(1).Produced/(8<<20))
	}
	// A run that a signal interrupts is repeated, so the fast path's own counters say how many there were.
	up, shed := k.fate(2, reasonSlowpath), k.fate(2, reasonShed)
	if up < rounds*quietEach || shed != 0 || h.packets[2] != up {
		t.Errorf("quiet cube: %d packets came up, %d were sent up and %d were shed", h.packets[2], up, shed)
	}
	up, shed = k.fate(1, reasonSlowpath), k.fate(1, reasonShed)
	if shed == 0 || h.packets[1] != up {
		t.Errorf("noisy cube: %d packets came up, %d were sent up and %d were shed; some must be", h.packets[1], up, shed)
	}
}

func TestTimedAReaderWakesFromEachSleep(t *testing.T) {
	k := newKernel(t)
	p := k.caller(cube.XDP, "pcn_core_up", 1, withMD(mdBytes(md{})))
	r := k.open()
	var got collector
	start(t, r, &got)
	const times = 200
	var worst time.Duration
	for i := range times {
		netns.Eventually(t, soon, func() error {
			var c control
			if err := k.maps["pcn_control"].Lookup(uint32(0), &c); err != nil {
				return err
			}
			if c.Sleeping != 1 {
				return errors.New("it does not sleep")
			}
			return nil
		})
		begin := time.Now()
		run(t, p, frame(60), 1, nil)
		for len(got.all()) == i {
			if time.Since(begin) > soon {
				t.Fatalf("packet %d never came", i)
			}
			runtime.Gosched()
		}
		worst = max(worst, time.Since(begin))
	}
	if worst > time.Second/2 {
		t.Errorf("it took up to %v to wake: its sleep of a second ended by itself", worst)
	}
}

func TestTimedAnIdleReaderUsesNoCPU(t *testing.T) {
	k := newKernel(t)
	k.caller(cube.XDP, "pcn_core_up", 1, withMD(mdBytes(md{})))
	r := k.open()
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	before := cpu(t)
	if err := r.Run(ctx, &counter{}); err != nil {
		t.Fatal(err)
	}
	// One sleep at the start, one after the safety net ended it, and nothing in between.
	if s, used := r.Stats(), cpu(t)-before; s.Sleeps < 1 || s.Sleeps > 3 || used > 100*time.Millisecond {
		t.Errorf("it slept %d times in 1.5 s and used %v", s.Sleeps, used)
	}
}

func TestARestartedReaderSkipsAndSettles(t *testing.T) {
	k := newKernel(t)
	p := k.caller(cube.XDP, "pcn_core_up", 1, withMD(mdBytes(md{})))
	k.open().Close()
	run(t, p, frame(60), 100, nil)
	s := k.share(1)
	s.Produced += 5000 // the last reader died before it credited these
	if err := k.maps["pcn_shares"].Put(uint32(1), &s); err != nil {
		t.Fatal(err)
	}
	r := k.open()
	if st := r.Stats(); st.Stale != 100 || st.Packets != 0 {
		t.Errorf("%+v, want 100 stale records", st)
	}
	var got collector
	start(t, r, &got)
	netns.Eventually(t, soon, func() error {
		if s := k.share(1); s.Consumed != s.Produced {
			return errors.New("not settled")
		}
		return nil
	})
	run(t, p, frame(60), 1, nil)
	netns.Eventually(t, soon, func() error { return got.want(1) })
}

func TestWrongMapsAreRefused(t *testing.T) {
	k := newKernel(t)
	k.caller(cube.XDP, "pcn_core_up", 1, withMD(mdBytes(md{})))
	ring, ctl, sh := k.maps["pcn_ring"], k.maps["pcn_control"], k.maps["pcn_shares"]
	plain, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	for _, c := range []struct {
		name          string
		ring, ctl, sh *ebpf.Map
	}{
		{"no ring", nil, ctl, sh}, {"no control", ring, nil, sh}, {"no shares", ring, ctl, nil}, {"an array as ring", sh, ctl, sh},
		{"a ring as control", ring, ring, sh}, {"shares as control", ring, sh, sh}, {"shares not in memory", ring, ctl, plain},
	} {
		if r, err := OpenRing(c.ring, c.ctl, c.sh); err == nil {
			r.Close()
			t.Errorf("%s: accepted", c.name)
		}
	}
}

func TestCloseEndsRun(t *testing.T) {
	k := newKernel(t)
	k.caller(cube.XDP, "pcn_core_up", 1, withMD(mdBytes(md{})))
	r := k.open()
	result := make(chan error, 1)
	go func() { result <- r.Run(context.Background(), &counter{}) }()
	netns.Eventually(t, soon, func() error {
		if r.Stats().Sleeps == 0 {
			return errors.New("it does not run yet")
		}
		return nil
	})
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if err := r.Run(context.Background(), &counter{}); !errors.Is(err, ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
}
