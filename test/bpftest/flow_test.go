// SPDX-License-Identifier: Apache-2.0

package bpftest_test

// The reader of pcn/flow.h compared with package flow, on valid and on malformed packets, in one buffer and in several.

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

var (
	//go:embed testdata/flow.tc.o
	flowTC []byte
	//go:embed testdata/flow.xdp.o
	flowXDP []byte
)

// flowFound is struct flow_found.
type flowFound struct {
	Flow, Inlined, Common, Inner                      flow.Flow
	Packets, Result, Hash, HashBefore, HashAfter, Pad uint32
}

// flowTag is FLOW_TAG.
const flowTag = 0x88a8e04d

// flowRig is a cube that stores flows.
type flowRig struct {
	*bpftest.Lab
	t     *testing.T
	found table.Table[uint32, flowFound]
}

func newFlowRig(t *testing.T, l *bpftest.Lab) *flowRig {
	l.Create("flow", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}]}`)
	found, err := table.Of[uint32, flowFound]("found", l.Map("f", "found"))
	if err != nil {
		t.Fatal(err)
	}
	return &flowRig{l, t, found}
}

func (r *flowRig) get() flowFound {
	r.t.Helper()
	got, _, err := r.found.Get(0)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// expected is what Go reads from a frame, and from the packet in an ICMP error. A tag in the skb is not among the bytes.
func expected(frame []byte, inSkb bool) (f, inner flow.Flow, ok bool) {
	f, ok = flow.Read(frame)
	if isError(f) {
		inner = flow.ReadInner(frame, &f)
	}
	for _, at := range []*uint16{&f.L3, &f.L4, &inner.L3, &inner.L4} {
		if inSkb && *at > 0 {
			*at -= 4
		}
	}
	return f, inner, ok
}

// check compares what programs read with what Go reads from the frame as they saw it.
func (r *flowRig) check(frame []byte, inSkb bool) {
	r.t.Helper()
	got := r.get()
	want, inner, ok := expected(frame, inSkb)
	if ok != (got.Result == 0) {
		r.t.Fatalf("frame %x: result %d, in Go %v", frame, int32(got.Result), ok)
	}
	if !ok {
		return
	}
	if got.Flow != want || got.Inlined != want || got.Common != want || got.Inner != inner {
		r.t.Fatalf("frame %x:\n   got %+v\ninline %+v\ncommon %+v\n  want %+v\n inner %+v\n  want %+v", frame, got.Flow, got.Inlined, got.Common, want, got.Inner, inner)
	}
	if got.Hash != want.Hash() || got.HashBefore != 0 || got.HashAfter != got.Hash {
		r.t.Fatalf("frame %x: hash %#x, in the metadata %#x and then %#x, want %#x", frame, got.Hash, got.HashBefore, got.HashAfter, want.Hash())
	}
}

func isError(f flow.Flow) bool {
	if f.Has&flow.ICMP == 0 {
		return false
	}
	if f.Has&flow.IPv6 != 0 {
		return f.ICMPType < 128
	}
	return slices.Contains([]byte{3, 4, 5, 11, 12}, f.ICMPType)
}

// flowSamples are packets of all kinds: those for the parsers, with tags, as fragments, and in ICMP errors.
func flowSamples() [][]byte {
	all := samples()
	for _, f := range [][]byte{all[1], all[4], all[8]} {
		all = append(all, pkt.Tagged(f, 0x8100a00a), pkt.Tagged(f, 0x88a80014, 0x8100000a), pkt.Tagged(f, 0x81000001, 0x81000002, 0x81000003))
	}
	syn := pkt.TCPSegment("10.0.0.1", "10.0.0.2", 1000, 80, 2, make([]byte, 30))
	options := pkt.IPv4Header{From: "10.0.0.1", To: "10.0.0.2", Protocol: pkt.ProtoTCP, TOS: 0xb8, Options: make([]byte, 40)}.Packet(syn)
	quoted := pkt.IPv4Header{From: "10.0.0.2", To: "10.0.0.1", Protocol: pkt.ProtoTCP}.Packet(syn)
	echo := pkt.IPv4Header{From: "10.0.0.2", To: "10.0.0.1", Protocol: pkt.ProtoICMP}.Packet(pkt.ICMPMessage(8, 0, 7<<16, nil))
	udp6 := pkt.UDPDatagram("2001:db8::2", "2001:db8::1", 53, 1000, make([]byte, 30))
	quoted6 := pkt.IPv6Header{From: "2001:db8::2", To: "2001:db8::1", Next: pkt.ProtoUDP, Class: 0xb8}.Packet(udp6)
	extended6 := pkt.IPv6Header{From: "2001:db8::2", To: "2001:db8::1", Next: 60}.Packet(slices.Concat(
		pkt.IPv6Extension(pkt.NextFragment), pkt.IPv6Fragment(pkt.ProtoUDP, 1, 9), udp6))
	error4 := func(b []byte) []byte {
		return pkt.IPv4Header{From: "10.0.0.3", To: "10.0.0.1", Protocol: pkt.ProtoICMP}.Packet(pkt.ICMPMessage(3, 4, 1400, b))
	}
	error6 := func(b []byte) []byte {
		m := pkt.ICMPv6Message("2001:db8::3", "2001:db8::1", 2, 0, 1400, b)
		return pkt.IPv6Header{From: "2001:db8::3", To: "2001:db8::1", Next: pkt.ProtoICMPv6}.Packet(m)
	}
	for _, b := range [][]byte{
		options, error4(options), error4(quoted), error4(quoted[:28]), error4(quoted[:23]), error4(echo), error4(quoted[:15]),
		pkt.IPv4Header{From: "10.0.0.1", To: "10.0.0.2", Protocol: pkt.ProtoTCP, ID: 77, Fragment: 0x2000}.Packet(syn),
		pkt.IPv4Header{From: "10.0.0.1", To: "10.0.0.2", Protocol: pkt.ProtoTCP, ID: 77, Fragment: 0x2005}.Packet(syn),
		extended6, error6(quoted6), error6(quoted6[:48]), error6(extended6), error6(extended6[:60]), error6(quoted6[:30]),
	} {
		all = append(all, pkt.Eth(one, two).IP(b).Bytes())
	}
	return all
}

// mutated is a frame with a few other bytes, perhaps cut off.
func mutated(rnd *rand.Rand, frame []byte) []byte {
	frame = slices.Clone(frame)
	for range rnd.IntN(3) {
		frame[12+rnd.IntN(min(100, len(frame)-12))] = byte([]int{rnd.IntN(256), rnd.IntN(8), 44, 60, 0x45, 0x81}[rnd.IntN(6)])
	}
	return frame[:max(15, len(frame)-rnd.IntN(4)*rnd.IntN(30))]
}

func TestFlowsAreThoseOfThePackage(t *testing.T) {
	services := []cube.Service{bare("flow", flowTC, flowXDP)}
	seed := repeat.Seed(t)
	bpftest.Each(t, bpftest.Options{Hosts: 2, Services: services}, func(t *testing.T, l *bpftest.Lab) {
		r := newFlowRig(t, l)
		bpftest.Layout(t, flowTC, "found", flowFound{})
		rnd := rand.New(rand.NewPCG(seed, 0))
		for i := range 25 {
			for _, frame := range flowSamples() {
				if i > 0 {
					frame = mutated(rnd, frame)
				}
				dev, seen := "veth1", frame
				if rnd.IntN(3) == 0 {
					dev, seen = "veth2", pkt.Tagged(frame, flowTag)
				}
				before := r.get().Packets
				_, _, err := l.TryBytes(dev, frame)
				if errors.Is(err, bpftest.ErrRefused) {
					continue // at TC, a test run requires a complete IP header
				}
				if err != nil || r.get().Packets != before+1 {
					t.Fatalf("frame %x: %v, %d packets after %d", frame, err, r.get().Packets, before)
				}
				r.check(seen, l.Type == cube.TypeTC && dev == "veth2")
			}
		}
	})
}

// long is a frame that does not fit one page, whatever it is a sample of.
func long(frame []byte) []byte { return append(slices.Clone(frame), make([]byte, 4200)...) }

func TestFlowsInSeveralBuffers(t *testing.T) {
	services := []cube.Service{bare("flow", flowTC, flowXDP)}
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(string(typ), func(t *testing.T) {
			t.Parallel()
			mtu := bpftest.LongestMTU(t, typ)
			if mtu < 5000 {
				t.Skipf("frames of this kernel have at most %d bytes", mtu)
			}
			l := bpftest.New(t, bpftest.Options{Type: typ, Hosts: 2, Services: services, Host: []netns.Option{netns.WithMTU(mtu)}})
			r := newFlowRig(t, l)
			for i, frame := range flowSamples() {
				frame = long(frame)
				linear := 14 + i*5%60
				if typ == cube.TypeTC {
					r.sendSplit(frame, linear)
					continue
				}
				err := l.TrySplit("veth1", frame, linear)
				if errors.Is(err, bpftest.ErrRefused) {
					t.Skip("this kernel's test runs fill the first buffer")
				}
				if err != nil {
					t.Fatal(err)
				}
				r.check(frame, false)
			}
		})
	}
}

// sendSplit sends a frame from the first host, and waits until the cube has seen it. The kernel moves its outer tag into
// the skb.
func (r *flowRig) sendSplit(frame []byte, linear int) {
	r.t.Helper()
	inSkb := slices.Contains([]uint16{0x8100, 0x88a8}, binary.BigEndian.Uint16(frame[12:]))
	want, inner, _ := expected(frame, inSkb)
	deadline := time.Now().Add(10 * time.Second)
	for n, got := 0, r.get(); got.Flow != want || got.Inlined != want || got.Common != want || got.Inner != inner; n, got = n+1, r.get() {
		if time.Now().After(deadline) {
			r.t.Fatalf("frame %x, %d bytes linear:\n got %+v\nwant %+v", frame[:120], linear, got.Flow, want)
		}
		if n%10000 == 0 { // again, because a packet of the host itself may come after it
			if err := bpftest.SendSplit(r.Hosts[0], frame, linear); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

func TestTheHashDependsOnTheFlow(t *testing.T) {
	base := pkt.Eth(one, two).IPv4("10.0.0.1", "10.0.0.2").UDP(1000, 53).Payload(8).Bytes()
	f, _ := flow.Read(base)
	seen := map[uint32]int{f.Hash(): -1}
	for port := range 1 << 12 {
		b := slices.Clone(base)
		binary.BigEndian.PutUint16(b[34:], uint16(port+2000))
		f, _ := flow.Read(b)
		seen[f.Hash()] = port
	}
	if len(seen) < 1<<12-8 {
		t.Errorf("%d flows have %d hashes", 1<<12+1, len(seen))
	}
}
