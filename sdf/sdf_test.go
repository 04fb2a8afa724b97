// SPDX-License-Identifier: Apache-2.0

package sdf

// Programs find the flow that the flows one after the other in Go say, and rows are shared and used again.

import (
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

var (
	//go:embed testdata/sdf.tc.o
	programsTC []byte
	//go:embed testdata/sdf.xdp.o
	programsXDP []byte
)

// searching is struct sdf_case.
type searching struct{ Row, QFI, Sender, Other uint32 }

func TestTheStructsAreAlike(t *testing.T) {
	bpftest.Layout(t, programsTC, "cases", searching{})
	bpftest.Layout(t, programsTC, "lists", List{})
}

// packet is a packet as its device sees it; one of ICMP, which has no ports, may also be in IPv6.
type packet struct {
	remote                netip.Addr
	proto                 uint8
	localPort, remotePort uint16
	dscp, qfi             uint8
	sender                bool
}

// matches says what NewList and the program have to do.
func (f *Flow) matches(p *packet) bool {
	byte := func(want *uint8, is uint8) bool { return want == nil || *want == is }
	port := func(want *inet.Ports, is uint16) bool {
		return want == nil || p.proto != pkt.ProtoICMP && want.First <= is && is <= want.Last
	}
	return byte(f.L4Proto, p.proto) && byte(f.DSCP, p.dscp) && byte(f.QFI, p.qfi) && (f.Remote == nil || f.Remote.Contains(p.remote)) &&
		port(f.RemotePort, p.remotePort) && port(f.LocalPort, p.localPort)
}

// dice throws flows and packets that often meet.
type dice struct{ *rand.Rand }

func one[T any](d dice, values ...T) T { return values[d.IntN(len(values))] }

// maybe returns one of some values, or none.
func maybe[T any](d dice, values ...T) *T {
	if d.IntN(2) == 0 {
		return nil
	}
	v := one(d, values...)
	return &v
}

func (d dice) port() uint16 { return one[uint16](d, 0, 1, 80, 1024, 32767, 32768, 65534, 65535) }

func (d dice) ports() inet.Ports {
	a, b := d.port(), d.port()
	return inet.Ports{First: min(a, b), Last: max(a, b)}
}

func (d dice) address(six bool) netip.Addr {
	if six {
		a := netip.MustParseAddr("2001:db8::").As16()
		a[7], a[8], a[15] = byte(d.IntN(4)), byte(d.IntN(2)<<7), byte(d.IntN(4))
		return netip.AddrFrom16(a)
	}
	return netip.AddrFrom4([4]byte{192, 0, byte(d.IntN(4)), byte(d.IntN(4))})
}

func (d dice) flow() Flow {
	return Flow{
		Remote:  maybe(d, netip.PrefixFrom(d.address(false), one(d, 0, 1, 22, 24, 30, 32)), netip.PrefixFrom(d.address(true), one(d, 0, 1, 62, 63, 64, 65, 126, 128))),
		L4Proto: maybe[uint8](d, 6, 17, 1, 58), RemotePort: maybe(d, d.ports()), LocalPort: maybe(d, d.ports()),
		DSCP: maybe[uint8](d, 0, 46), QFI: maybe[uint8](d, 5, 6),
	}
}

func (d dice) packet() packet {
	return packet{remote: d.address(d.IntN(2) == 1), proto: one[uint8](d, 6, 17, 1), localPort: d.port(), remotePort: d.port(),
		dscp: one[uint8](d, 0, 46), qfi: one[uint8](d, 5, 6), sender: d.IntN(2) == 1}
}

// frame builds the packet.
func (p *packet) frame() []byte {
	local := "10.1.0.1"
	if p.remote.Is6() {
		local = "2001:db8:1:1::77"
	}
	from, to, sport, dport := local, p.remote.String(), p.localPort, p.remotePort
	if !p.sender {
		from, to, sport, dport = to, from, dport, sport
	}
	var body []byte
	switch p.proto {
	case pkt.ProtoTCP:
		body = pkt.TCPSegment(from, to, sport, dport, 0x10, nil)
	case pkt.ProtoUDP:
		body = pkt.UDPDatagram(from, to, sport, dport, nil)
	default:
		body = make([]byte, 8)
	}
	if p.remote.Is6() {
		return pkt.EthernetFrame(make([]byte, 6), make([]byte, 6), 0x86dd, pkt.IPv6Header{From: from, To: to, Next: p.proto, HopLimit: 64, Class: p.dscp << 2}.Packet(body))
	}
	return pkt.EthernetFrame(make([]byte, 6), make([]byte, 6), 0x0800, pkt.IPv4Header{From: from, To: to, Protocol: p.proto, TTL: 64, TOS: p.dscp << 2}.Packet(body))
}

func TestProgramsFindTheFirstFlowThatMatches(t *testing.T) {
	seed := repeat.Seed(t)
	for hook, object := range map[string][]byte{"TC": programsTC, "XDP": programsXDP} {
		t.Run(hook, func(t *testing.T) {
			c, d, hits := bpftest.Load(t, object), dice{rand.New(rand.NewPCG(seed, 0))}, map[uint32]int{}
			for range 40 {
				flows, values := make([]Flow, d.IntN(Max+1)), make([]uint32, Max)
				for i := range flows {
					flows[i], values[i] = d.flow(), 1000+uint32(i)
				}
				list, err := NewList(flows, values[:len(flows)])
				if err == nil {
					err = c.Maps["lists"].Put(uint32(3), *list)
				}
				if err != nil {
					t.Fatal(err)
				}
				for range 100 {
					p, want := d.packet(), uint32(1)
					if i := slices.IndexFunc(flows, func(f Flow) bool { return f.matches(&p) }); i >= 0 {
						want = values[i]
					}
					is := searching{Row: 3, QFI: uint32(p.qfi), Other: 1}
					if p.sender {
						is.Sender = 1
					}
					if err := c.Maps["cases"].Put(uint32(0), is); err != nil {
						t.Fatal(err)
					}
					got, err := c.Programs["sdf_search"].Run(&ebpf.RunOptions{Data: p.frame()})
					if err != nil || got != want {
						t.Fatalf("%+v: %d, %v, want %d of %+v", p, got, err, want, flows)
					}
					hits[want]++
				}
			}
			if len(hits) < 20 || hits[1] == 0 {
				t.Errorf("packets match only these: %v", hits)
			}
		})
	}
}

// dscp is a list of one flow.
func dscp(t *testing.T, n uint8) List {
	t.Helper()
	l, err := NewList([]Flow{{DSCP: &n}}, []uint32{7})
	if err != nil {
		t.Fatal(err)
	}
	return *l
}

func TestListsOfEqualFlowsAreEqual(t *testing.T) {
	if one, same := dscp(t, 1), dscp(t, 1); one != same || one == dscp(t, 2) {
		t.Error("equal lists differ, or different lists are equal")
	}
	if l, err := NewList(make([]Flow, Max), make([]uint32, Max)); err != nil || l.Count != Max {
		t.Errorf("the longest list: %v", err)
	}
	for _, n := range [][2]int{{Max + 1, Max + 1}, {2, 1}} {
		if _, err := NewList(make([]Flow, n[0]), make([]uint32, n[1])); !errors.Is(err, cube.ErrInvalid) {
			t.Errorf("%d flows with %d values: %v", n[0], n[1], err)
		}
	}
}

// TestRowsAreSharedAndUsedAgain, also by a daemon that starts again.
func TestRowsAreSharedAndUsedAgain(t *testing.T) {
	rows, err := table.MappedOf[List]("lists", bpftest.Load(t, programsTC).Maps["lists"])
	if err != nil {
		t.Fatal(err)
	}
	l := NewLists(rows)
	defer func() { _ = l.Close() }()
	take := func(what string, n uint8, want uint32) {
		t.Helper()
		if row, err := l.Take(dscp(t, n)); err != nil || row != want {
			t.Errorf("%s: row %d, %v, want %d", what, row, err, want)
		}
	}
	drop := func(n uint8) {
		t.Helper()
		if err := l.Drop([]List{dscp(t, n)}); err != nil {
			t.Error(err)
		}
	}
	take("the first", 1, 1)
	take("the same", 1, 1)
	take("another", 2, 2)
	take("a third", 3, 3)
	if _, err := l.Take(dscp(t, 4)); !errors.Is(err, cube.ErrFull) {
		t.Errorf("a fourth: %v", err)
	}
	if n := l.After(map[List]int{dscp(t, 1): -1, dscp(t, 2): -1, dscp(t, 3): 1, dscp(t, 4): 1}); n != 3 {
		t.Errorf("%d lists after a change, want 3", n)
	}
	drop(1)
	take("the first, which is still used", 1, 1)
	drop(2)
	take("a fourth in a free row", 4, 2)

	l = NewLists(rows)
	if err := l.Begin(map[uint32]bool{1: true, 2: true}); err != nil {
		t.Fatal(err)
	}
	take("after a restart", 4, 2)
	l.Abandon()
	take("in a row that was never given", 5, 3)
	take("in the row that nobody took again", 6, 1)
	if err := l.Begin(map[uint32]bool{9: true}); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("a row that does not exist: %v", err)
	}
}

func ExampleNewList() {
	dns, web := inet.Ports{First: 53, Last: 53}, inet.Ports{First: 443, Last: 443}
	list, err := NewList([]Flow{{RemotePort: &dns}, {RemotePort: &web}}, []uint32{10, 20})
	fmt.Println(list.Count, err)
	// Output: 2 <nil>
}
