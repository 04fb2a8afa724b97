// SPDX-License-Identifier: Apache-2.0

// Packets that go down, seen by a program in the place of a cube.

package slowpath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/test/need"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// sight is what the program in the place of a cube saw last.
type sight struct {
	Count, Len, Mark, VlanPresent, GSOSize, Pad uint32
	Resume                                      resume
}

// Fields of struct __sk_buff, in the order of sight.
var sightFields = []int16{0, 8, 20, 176}

// eye loads a program that records what it sees, then drops the packet or sends it out of a device.
func (k *kernel) eye(hook cube.Hook, out int) (*ebpf.Program, *ebpf.Map) {
	k.t.Helper()
	seen, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: uint32(unsafe.Sizeof(sight{})), MaxEntries: 1})
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { seen.Close() })
	lookup := func(m *ebpf.Map, to asm.Register) asm.Instructions {
		return asm.Instructions{
			asm.LoadMapPtr(asm.R1, m.FD()), asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4), asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "end"), asm.Mov.Reg(to, asm.R0),
		}
	}
	p := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1), asm.StoreImm(asm.RFP, -4, 0, asm.Word)}
	p = append(p, lookup(seen, asm.R7)...)
	p = append(p, lookup(k.maps["pcn_resumes"], asm.R8)...)
	for i := int16(0); i < int16(unsafe.Sizeof(resume{})); i += 8 {
		p = append(p, asm.LoadMem(asm.R1, asm.R8, i, asm.DWord), asm.StoreMem(asm.R7, int16(unsafe.Offsetof(sight{}.Resume))+i, asm.R1, asm.DWord))
	}
	kind, at, verdict := ebpf.XDP, ebpf.AttachXDP, asm.Instructions{asm.Mov.Imm(asm.R0, 1)}
	if hook == cube.TC {
		kind, at, verdict = ebpf.SchedCLS, ebpf.AttachNone, asm.Instructions{asm.Mov.Imm(asm.R0, 2)}
		for i, field := range sightFields {
			p = append(p, asm.LoadMem(asm.R1, asm.R6, field, asm.Word), asm.StoreMem(asm.R7, int16(4+4*i), asm.R1, asm.Word))
		}
		if out != 0 {
			verdict = asm.Instructions{asm.Mov.Imm(asm.R1, int32(out)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call()}
		}
	} else {
		p = append(p, asm.LoadMem(asm.R1, asm.R6, 0, asm.Word), asm.LoadMem(asm.R2, asm.R6, 4, asm.Word), asm.Sub.Reg(asm.R2, asm.R1),
			asm.StoreMem(asm.R7, 4, asm.R2, asm.Word))
	}
	p = append(p, asm.LoadMem(asm.R1, asm.R7, 0, asm.Word), asm.Add.Imm(asm.R1, 1), asm.StoreMem(asm.R7, 0, asm.R1, asm.Word))
	p = append(p, verdict...)
	p = append(p, asm.Return(), asm.Mov.Imm(asm.R0, 2).WithSymbol("end"), asm.Return())
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: kind, AttachType: at, Instructions: p, License: "Dual BSD/GPL"})
	if err != nil {
		k.t.Fatalf("load the eye: %v", err)
	}
	k.t.Cleanup(func() { prog.Close() })
	return prog, seen
}

// lane is a TAP with the framework's program on it and an eye in the place of cubes 1 and 1023.
type lane struct {
	*Tap
	k    *kernel
	seen *ebpf.Map
}

func newLane(t testing.TB, ns *netns.Namespace, hook cube.Hook, out int) *lane {
	t.Helper()
	k := newKernel(t)
	spec := loadSpec(t, "down."+hook.String()+".o")
	spec.Programs = map[string]*ebpf.ProgramSpec{"pcn_down_in": spec.Programs["pcn_down_in"]}
	enter := k.load(spec)["pcn_down_in"]
	eye, seen := k.eye(hook, out)
	for _, id := range []uint32{1, maxCubes - 1} {
		if err := k.maps["pcn_cubes"].Put(id, eye); err != nil {
			t.Fatal(err)
		}
	}
	tap := openTap(t, ns, "pcn0")
	ns.Must(func() error {
		if hook != cube.XDP {
			return netns.AttachTC(t, tap.Index(), enter, ebpf.AttachTCXIngress)
		}
		l, err := link.AttachXDP(link.XDPOptions{Program: enter, Interface: tap.Index(), Flags: link.XDPDriverMode})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
	if err := tap.SetDown(k.maps["pcn_down"]); err != nil {
		t.Fatal(err)
	}
	return &lane{tap, k, seen}
}

// look returns what was seen since the last look.
func (l *lane) look() sight {
	l.k.t.Helper()
	var s sight
	if err := l.seen.Lookup(uint32(0), &s); err != nil {
		l.k.t.Fatal(err)
	}
	if err := l.seen.Put(uint32(0), sight{}); err != nil {
		l.k.t.Fatal(err)
	}
	return s
}

func TestPacketsGoDownWithTheirMetadata(t *testing.T) {
	words := [4]uint32{1, 0x80000002, 3, 0xffffffff}
	for name, m := range map[string]Meta{"TC": {}, "native XDP": {XDP: true}, "generic XDP": {XDP: true, Generic: true}} {
		t.Run(name, func(t *testing.T) {
			hook, ns := cube.TC, netns.New(t)
			if m.XDP {
				hook = cube.XDP
			}
			l := newLane(t, ns, hook, 0)
			from := func(netdev int) Meta { return Meta{XDP: m.XDP, Generic: m.Generic, Ifindex: netdev} }
			for _, c := range []struct {
				name   string
				target Target
				out    cube.PacketOut
				want   md
			}{
				{"received", Target{1, ToRX}, cube.PacketOut{Port: 5, Data: frame(60)}, md{InPort: 5, PacketLen: 60}},
				{"sent", Target{1, ToTX}, cube.PacketOut{Port: 511, Data: frame(14)}, md{OutPort: 511, PacketLen: 14}},
				{"into ingress", Target{1023, ToIn}, cube.PacketOut{Data: frame(1514)}, md{PacketLen: 1514}},
				{"behind ingress", Target{1, ToInNext}, cube.PacketOut{Data: frame(60)}, md{PacketLen: 60}},
				{"into egress", Target{1, ToOut}, cube.PacketOut{Data: frame(60)}, md{PacketLen: 60}},
				{"behind egress", Target{1, ToOutNext}, cube.PacketOut{Data: frame(60)}, md{PacketLen: 60}},
				{"offered", Target{1, ToOffer}, cube.PacketOut{Port: 6, Data: frame(60)}, md{InPort: 6, OutPort: 6, PacketLen: 60}},
				{"jumbo", Target{1, ToRX}, cube.PacketOut{Port: 1, Data: frame(9014)}, md{InPort: 1, PacketLen: 9014}},
				{"the longest", Target{1, ToRX}, cube.PacketOut{Port: 1, Data: frame(maxFrame)}, md{InPort: 1, PacketLen: maxFrame}},
			} {
				c.out.Metadata, c.out.TrafficClass, c.out.Trip = words, 0xdeadbeef, someTrip
				c.want.TrafficClass = 0xdeadbeef
				if c.target.Kind != ToInNext && c.target.Kind != ToOutNext { // there the words are another cube's
					c.want.MD = words
				}
				c.want.Flags = map[uint16]uint16{ToRX: 0x30 | 3<<7, ToIn: 0x10, ToInNext: 0x10, ToOut: 0x20 | 3<<7, ToOutNext: 0x20 | 3<<7}[c.target.Kind]
				// Entering is a hop.
				c.want.Hops, c.want.FlowHash, c.want.Tenant, c.want.PassIfindex = someTrip.Hops+1, 0x12345678, 77, 4711
				if err := l.Send(c.target, &c.out, from(1)); err != nil {
					t.Errorf("%s: %v", c.name, err)
					continue
				}
				got := l.look()
				if want := (resume{MD: c.want, Cube: c.target.Cube, Target: c.target.Kind}); got.Resume != want || got.Count != 1 {
					t.Errorf("%s: seen %d times\ngot  %+v\nwant %+v", c.name, got.Count, got.Resume, want)
				}
				if int(got.Len) != len(c.out.Data) || hook == cube.TC && (got.Mark != 0xdeadbeef || got.GSOSize != 0) {
					t.Errorf("%s: %+v", c.name, got)
				}
			}
			if err := l.Send(Target{1, ToRX}, &cube.PacketOut{Data: frame(60)}, m); err != nil {
				t.Error(err)
			}
			if got := l.look().Resume; got != (resume{MD: md{PacketLen: 60, Hops: 1}, Cube: 1}) {
				t.Errorf("something is left of former packets: %+v", got)
			}
			if err := l.Send(Target{1, ToRX}, &cube.PacketOut{Data: frame(60)}, from(5)); err != nil {
				t.Error(err)
			}
			if got := l.look().Resume.MD.PassIfindex; got != 5 {
				t.Errorf("a packet without a trip entered at %d, want 5", got)
			}
		})
	}
}

// TestHopsEndInUserSpaceToo: a packet that was on its way for too long does not go down again, and is counted.
func TestHopsEndInUserSpaceToo(t *testing.T) {
	const reasonHopLimit, maxHops = 7, 128 // PCN_REASON_HOP_LIMIT, PCN_MAX_HOPS
	for _, hook := range []cube.Hook{cube.TC, cube.XDP} {
		t.Run(hook.String(), func(t *testing.T) {
			l := newLane(t, netns.New(t), hook, 0)
			for _, c := range []struct {
				hops   uint16
				passes bool
			}{{0, true}, {maxHops - 1, true}, {maxHops, false}, {maxHops + 1, false}, {0xffff, false}} {
				before := l.k.fate(1, reasonHopLimit)
				out := &cube.PacketOut{Trip: cube.Trip{Hops: c.hops}, Data: frame(60)}
				if err := l.Send(Target{1, ToRX}, out, Meta{XDP: hook == cube.XDP}); err != nil {
					t.Fatal(err)
				}
				got, dropped := l.look(), l.k.fate(1, reasonHopLimit)-before
				if want := map[bool]uint32{true: 1}[c.passes]; got.Count != want || dropped != 1-uint64(want) {
					t.Errorf("%d hops: seen %d times, dropped %d", c.hops, got.Count, dropped)
				}
				if c.passes && got.Resume.MD.Hops != c.hops+1 {
					t.Errorf("%d hops arrive as %d", c.hops, got.Resume.MD.Hops)
				}
			}
		})
	}
}

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		transparent, again bool
		dir                cube.Direction
		want               uint16
	}{
		{false, false, cube.Ingress, ToRX}, {false, false, cube.Egress, ToTX}, {false, true, cube.Egress, ToTX},
		{true, false, cube.Ingress, ToInNext}, {true, false, cube.Egress, ToOutNext}, {true, true, cube.Ingress, ToIn}, {true, true, cube.Egress, ToOut},
	} {
		if got := TargetOf(c.transparent, &cube.PacketOut{Direction: c.dir, Recirculate: c.again}); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	if got := TargetOf(false, &cube.PacketOut{Direction: cube.Egress, Offer: true}); got != ToOffer {
		t.Errorf("an offer: %d", got)
	}
}

func TestWhatCannotBeSentIsRefused(t *testing.T) {
	ns := netns.New(t)
	l := newLane(t, ns, cube.TC, 0)
	super := layout{payload: 5000, sum: pseudo}.frame()
	for _, c := range []struct {
		name   string
		target Target
		out    cube.PacketOut
		meta   Meta
		says   string
	}{
		{"no bytes", Target{1, ToRX}, cube.PacketOut{}, Meta{}, "Ethernet header"},
		{"13 bytes", Target{1, ToRX}, cube.PacketOut{Data: frame(13)}, Meta{}, "Ethernet header"},
		{"too long", Target{1, ToRX}, cube.PacketOut{Data: frame(maxFrame + 1)}, Meta{}, "longer than"},
		{"cube 0", Target{0, ToRX}, cube.PacketOut{Data: frame(60)}, Meta{}, "cube 0"},
		{"cube 1024", Target{1024, ToRX}, cube.PacketOut{Data: frame(60)}, Meta{}, "cube 1024"},
		{"no such kind", Target{1, targets}, cube.PacketOut{Data: frame(60)}, Meta{}, "target 8"},
		{"port 512", Target{1, ToTX}, cube.PacketOut{Port: 512, Data: frame(60)}, Meta{}, "port 512"},
		{"offered from port 512", Target{1, ToTX}, cube.PacketOut{Trip: cube.Trip{OfferedFrom: 512}, Data: frame(60)}, Meta{}, "port 512"},
		{"netdev -1", Target{1, ToTX}, cube.PacketOut{Trip: cube.Trip{Netdev: -1}, Data: frame(60)}, Meta{}, "network interface -1"},
		{"netdev 1 << 31", Target{1, ToTX}, cube.PacketOut{Trip: cube.Trip{Netdev: 1 << 31}, Data: frame(60)}, Meta{}, "network interface 2147483648"},
		{"superframe for XDP", Target{1, ToTX}, cube.PacketOut{Data: super, Offload: cube.Offload{GSOSize: 1000}}, Meta{XDP: true}, "superframe"},
		{"superframe of nothing", Target{1, ToTX}, cube.PacketOut{Data: frame(5000), Offload: cube.Offload{GSOSize: 1000}}, Meta{}, "superframe"},
	} {
		err := l.Send(c.target, &c.out, c.meta)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want an error about %q", c.name, err, c.says)
		}
		if s := l.look(); s.Count != 0 {
			t.Errorf("%s: a packet went down: %+v", c.name, s)
		}
	}
	// A frame that no program takes is an error, and is not taken for another one later.
	bare := openTap(t, netns.New(t), "pcn1")
	if err := bare.Send(Target{1, ToRX}, &cube.PacketOut{Data: frame(60)}, Meta{}); err == nil || !strings.Contains(err.Error(), "SetDown") {
		t.Errorf("without a map: %v", err)
	}
	if err := bare.SetDown(l.k.maps["pcn_down"]); err != nil {
		t.Fatal(err)
	}
	if err := bare.Send(Target{1, ToRX}, &cube.PacketOut{Data: frame(60)}, Meta{}); !errors.Is(err, ErrNotTaken) {
		t.Errorf("without a program: %v, want ErrNotTaken", err)
	}
	var d down
	if err := l.k.maps["pcn_down"].Lookup(uint32(0), &d); err != nil || d.State != downIdle {
		t.Errorf("state %d, %v", d.State, err)
	}
	for name, m := range map[string]*ebpf.Map{"none": nil, "another": l.k.maps["pcn_resumes"], "programs": l.k.maps["pcn_cubes"]} {
		if err := bare.SetDown(m); err == nil {
			t.Errorf("map %s: accepted", name)
		}
	}
}

func TestManySendersDoNotMixTheirRecords(t *testing.T) {
	l := newLane(t, netns.New(t), cube.TC, 0)
	const senders, each = 4, 20000
	var wg sync.WaitGroup
	errs := make(chan error, senders)
	for s := range senders {
		wg.Go(func() {
			for range each {
				if err := l.Send(Target{1, ToTX}, &cube.PacketOut{Port: uint16(s), Data: frame(60 + s)}, Meta{}); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if s := l.look(); s.Count != senders*each || s.Resume.MD.PacketLen != 60+uint32(s.Resume.MD.OutPort) {
		t.Errorf("%+v", s)
	}
}

// laneToAHost is a lane at TC that leads to a host, which sees frames as they are on the wire.
func laneToAHost(t *testing.T) (*lane, *netns.Raw) {
	t.Helper()
	lab := netns.NewLab(t)
	host := lab.Host("h1", "", netns.WithMTU(1500))
	if err := host.Do(func() error { _, err := netdev.PreparePeerForXDP(netns.Inner); return err }); err != nil {
		t.Fatal(err)
	}
	var out int
	lab.Must(func() error {
		info, err := netdev.Get("h1")
		out = info.Index
		return err
	})
	return newLane(t, lab.Namespace, cube.TC, out), netns.OpenRaw(t, host, netns.Inner)
}

// TestUDPIsCutAsByTheKernel, for kernels that do not take superframes of UDP from a TAP.
func TestUDPIsCutAsByTheKernel(t *testing.T) {
	l, wire := laneToAHost(t)
	for _, c := range []layout{
		{udp: true, payload: 10001, sum: pseudo},
		{udp: true, payload: 2400, sum: pseudo, v6: true},
		{udp: true, payload: 5000, sum: pseudo, tags: []uint16{0x88a8, 0x8100}, options: 12},
		{udp: true, payload: 5000, sum: pseudo, v6: true, ext: pkt.IPv6Extension(17)},
		{udp: true, payload: 65000, sum: pseudo},
		{udp: true, payload: 7, sum: pseudo},
	} {
		const size = 1200
		segments := cutUDP(c.frame(), size)
		if want := (c.payload + size - 1) / size; len(segments) != want {
			t.Errorf("%+v: %d segments, want %d", c, len(segments), want)
		}
		for _, s := range segments {
			if err := l.Send(Target{1, ToTX}, &cube.PacketOut{Data: s}, Meta{}); err != nil {
				t.Error(err)
			}
		}
		if err := c.arrives(wire, size); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, frame := range [][]byte{layout{payload: 3000, sum: pseudo}.frame(), {1, 2, 3}, layout{udp: true, payload: 100, sum: pseudo}.frame()[:80]} {
		if cutUDP(frame, 1200) != nil {
			t.Errorf("%d bytes are cut as UDP", len(frame))
		}
	}
}

// Superframes are cut and checksums made where they leave the machine, as if they had never been up.
func TestOffloadStateSurvives(t *testing.T) {
	l, wire := laneToAHost(t)
	for _, c := range []struct {
		name string
		l    layout
		size int
	}{
		{"64 KB of TCP", layout{payload: 65000, sum: pseudo}, 1448},
		{"64 KB of TCP in IPv6", layout{v6: true, payload: 65000, sum: pseudo}, 1428},
		{"TCP behind a tag", layout{tags: []uint16{0x8100}, payload: 10000, sum: pseudo}, 1400},
		{"TCP behind two tags", layout{tags: []uint16{0x88a8, 0x8100}, payload: 10000, sum: pseudo}, 1400},
		{"TCP with IPv4 options", layout{options: 12, payload: 10000, sum: pseudo}, 1400},
		{"TCP behind a hop-by-hop header", layout{v6: true, ext: pkt.IPv6Extension(6), payload: 10000, sum: pseudo}, 1400},
		{"TCP with congestion window reduced", layout{payload: 3000, sum: pseudo, flags: 0x80}, 1400},
		{"UDP", layout{udp: true, payload: 10001, sum: pseudo}, 1200},
		{"one segment of TCP", layout{payload: 100, sum: pseudo}, 1448},
		{"unfinished TCP", layout{payload: 1000, sum: pseudo}, 0},
		{"unfinished UDP in IPv6", layout{v6: true, udp: true, payload: 999, sum: pseudo}, 0},
		{"unfinished behind a tag", layout{tags: []uint16{0x8100}, udp: true, payload: 31, sum: pseudo}, 0},
		{"finished", layout{payload: 1000}, 0},
	} {
		p := cube.PacketOut{Data: c.l.frame(), Offload: cube.Offload{GSOSize: uint16(c.size)}}
		if c.size != 0 {
			p.Offload.GSOSegs = uint16((c.l.payload + c.size - 1) / c.size)
		}
		if err := l.Send(Target{1, ToTX}, &p, Meta{}); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		s := l.look()
		whole := !c.l.udp || need.Linux(t, 6, 2) // a TAP accepts no UDP superframes before
		if want := c.l.payload > c.size && c.size != 0 && whole; want != (s.GSOSize != 0) || want && int(s.GSOSize) != c.size {
			t.Errorf("%s: segments of %d", c.name, s.GSOSize)
		}
		if (len(c.l.tags) != 0) != (s.VlanPresent != 0) {
			t.Errorf("%s: a tag beside the frame: %v", c.name, s.VlanPresent != 0)
		}
		if err := c.l.arrives(wire, c.size); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// arrives receives the segments of a superframe and checks each of them.
func (l layout) arrives(wire *netns.Raw, size int) error {
	ours := func(f []byte) bool { return bytes.Equal(f[:12], l.frame()[:12]) }
	var payload []byte
	for len(payload) < l.payload {
		f, err := wire.Recv(ours, soon)
		if err != nil {
			return fmt.Errorf("after %d of %d bytes: %w", len(payload), l.payload, err)
		}
		at := l.offset()
		if len(f) < at+l.head() || !bytes.Equal(f[12:14], l.frame()[12:14]) {
			return fmt.Errorf("not of this kind: %x", f[:min(len(f), 60)])
		}
		if !l.good(f) {
			return fmt.Errorf("wrong checksum after %d bytes", len(payload))
		}
		data := f[at+l.head():]
		if !l.udp && size != 0 {
			if seq := binary.BigEndian.Uint32(f[at+4:]); seq != 1+uint32(len(payload)) {
				return fmt.Errorf("sequence number %d after %d bytes", seq, len(payload))
			}
			if cwr := f[at+13]&0x80 != 0; cwr != (l.flags&0x80 != 0 && len(payload) == 0) {
				return fmt.Errorf("window reduced is %v after %d bytes", cwr, len(payload))
			}
		}
		if size != 0 && len(data) != min(size, l.payload-len(payload)) {
			return fmt.Errorf("a segment of %d bytes after %d", len(data), len(payload))
		}
		payload = append(payload, data...)
	}
	if !bytes.Equal(payload, payloadBytes(l.payload)) {
		return errors.New("other bytes arrived")
	}
	return nil
}
