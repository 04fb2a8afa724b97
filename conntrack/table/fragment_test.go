// SPDX-License-Identifier: Apache-2.0

package table

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/test/pkt"
)

// IPv6 addresses of the two ends.
const hostA6, hostB6 = "2001:db8::a", "2001:db8::b"

// fragments4 cuts a datagram after some bytes of its payload, a multiple of 8.
func fragments4(from, to string, protocol byte, id uint16, payload []byte, at int) (first, later []byte) {
	h := pkt.IPv4Header{From: from, To: to, Protocol: protocol, TTL: 64, ID: id, Fragment: 0x2000}
	first = framed(h.Packet(payload[:at]))
	h.Fragment = uint16(at / 8)
	return first, framed(h.Packet(payload[at:]))
}

// fragments6 is the same for IPv6.
func fragments6(from, to string, protocol byte, id uint32, payload []byte, at int) (first, later []byte) {
	h := pkt.IPv6Header{From: from, To: to, Next: 44, HopLimit: 64}
	first = framed(h.Packet(slices.Concat(pkt.IPv6Fragment(protocol, 1, id), payload[:at])))
	return first, framed(h.Packet(slices.Concat(pkt.IPv6Fragment(protocol, uint16(at), id), payload[at:])))
}

// is compares what a packet is to the table.
func (l *packetLab) is(what string, got verdict, class conntrack.Class, reply, accepted uint8) {
	l.t.Helper()
	if conntrack.Class(got.Class) != class || got.Reply != reply || got.Accepted != accepted || got.Refusal != 0 {
		l.t.Errorf("%s: %+v, want %v, reply %d, accepted %d", what, got, class, reply, accepted)
	}
}

func TestLaterFragmentsBelongToTheConnectionOfTheFirst(t *testing.T) {
	type cut func(from, to string, id int, sport, dport uint16) (first, later []byte)
	v4 := func(from, to string, id int, sport, dport uint16) (first, later []byte) {
		return fragments4(from, to, udp, uint16(id), pkt.UDPDatagram(from, to, sport, dport, make([]byte, 100)), 48)
	}
	v6 := func(from, to string, id int, sport, dport uint16) (first, later []byte) {
		return fragments6(from, to, udp, uint32(id)<<16, pkt.UDPDatagram(from, to, sport, dport, make([]byte, 100)), 48)
	}
	for _, family := range []struct {
		name string
		a, b string
		cut  cut
	}{{"IPv4", hostA, hostB, v4}, {"IPv6", hostA6, hostB6, v6}} {
		for hook, object := range packetObjects {
			t.Run(hook+" "+family.name, func(t *testing.T) {
				l := newPacketLab(t, object, 1024)
				first, later := family.cut(family.a, family.b, 7, 1000, 53)
				_, other := family.cut(family.a, family.b, 8, 1000, 53)
				firstBack, laterBack := family.cut(family.b, family.a, 7, 53, 1000)
				l.is("a later fragment comes first", l.pass(later, 0), conntrack.Untracked, 0, 0)
				l.is("the rules refuse the first", l.pass(first, 1), conntrack.New, 0, 0)
				l.is("a later one of what the rules refused", l.pass(later, 0), conntrack.Untracked, 0, 0)
				l.is("the first", l.pass(first, 0), conntrack.New, 0, 0)
				l.is("a later one of a half-open connection", l.pass(later, 0), conntrack.Established, 0, 1)
				l.is("one of another datagram", l.pass(other, 0), conntrack.Untracked, 0, 0)
				l.is("one of the other direction", l.pass(laterBack, 0), conntrack.Untracked, 0, 0)
				l.is("the first of the reply", l.pass(firstBack, 0), conntrack.Established, 1, 1)
				l.is("a later one of the reply", l.pass(laterBack, 0), conntrack.Established, 1, 1)
				l.is("a later one of an open connection", l.pass(later, 0), conntrack.Established, 0, 1)

				l.v.Zone = 1
				l.is("in another zone", l.pass(later, 0), conntrack.Untracked, 0, 0)
				l.v.Zone = 0
				l.NextGeneration(0)
				l.is("the rules have changed, and refuse what has no ports", l.pass(later, 1), conntrack.Established, 0, 0)
				if n := l.Count(0); n != 1 {
					t.Errorf("there are %d connections after a fragment that the rules refuse, want 1", n)
				}
				l.is("they accept what has no ports", l.pass(later, 0), conntrack.Established, 0, 0)
				l.is("which accepts no connection", l.pass(later, 0), conntrack.Established, 0, 0)
				l.pass(first, 0)
				l.is("they accept the first", l.pass(later, 0), conntrack.Established, 0, 1)

				all, _ := l.Page(0, 2, nil)
				if len(all) != 1 || !l.End(all[0].Key) {
					t.Fatalf("the connections are %+v", all)
				}
				l.is("the connection has ended", l.pass(later, 0), conntrack.Untracked, 0, 0)
			})
		}
	}
}

// TestAFragmentDoesNotOverwriteTheHeaderOfTCP: the rules have seen the ports and flags of the first one, and a host may
// take those of a later one.
func TestAFragmentDoesNotOverwriteTheHeaderOfTCP(t *testing.T) {
	segment := func(from, to string, dport uint16) []byte {
		return pkt.TCPSegment(from, to, 1000, dport, byte(conntrack.SYN), make([]byte, 100))
	}
	for hook, object := range packetObjects {
		t.Run(hook, func(t *testing.T) {
			l := newPacketLab(t, object, 1024)
			check := func(family string, first, over8, over16, behind []byte) {
				t.Helper()
				l.is(family+": the first", l.pass(first, 0), conntrack.New, 0, 0)
				l.is(family+": one that overwrites the flags", l.pass(over8, 0), conntrack.Untracked, 0, 0)
				l.is(family+": one that overwrites the checksum", l.pass(over16, 0), conntrack.Untracked, 0, 0)
				l.is(family+": one behind the header", l.pass(behind, 0), conntrack.Established, 0, 1)
			}
			v4 := func(dport uint16, at int) (first, later []byte) {
				return fragments4(hostA, hostB, tcp, 7, segment(hostA, hostB, dport), at)
			}
			v6 := func(dport uint16, at int) (first, later []byte) {
				return fragments6(hostA6, hostB6, tcp, 7, segment(hostA6, hostB6, dport), at)
			}
			for family, cut := range map[string]func(uint16, int) (first, later []byte){"IPv4": v4, "IPv6": v6} {
				first, _ := cut(80, 104)
				_, over8 := cut(22, 8)
				_, over16 := cut(22, 16)
				_, behind := cut(80, 24)
				check(family, first, over8, over16, behind)
			}
		})
	}
}

// fragment is struct pcn_ct_fragment.
type fragment struct {
	Key        Key
	Seen       uint64
	Side, Base uint32
}

func TestFragmentsAreForgottenAfterHalfAMinute(t *testing.T) {
	for hook, object := range packetObjects {
		t.Run(hook, func(t *testing.T) {
			l := newPacketLab(t, object, 1024)
			first, later := fragments4(hostA, hostB, udp, 1, pkt.UDPDatagram(hostA, hostB, 1000, 53, make([]byte, 100)), 48)
			l.pass(first, 0)
			for _, age := range []time.Duration{29 * time.Second, 31 * time.Second} {
				var key [40]byte
				var is fragment
				if !l.maps["ct_fragments"].Iterate().Next(&key, &is) {
					t.Fatal("no fragment is known")
				}
				is.Seen = uint64(max(monotonic()-age, 1))
				if err := l.maps["ct_fragments"].Put(key, is); err != nil {
					t.Fatal(err)
				}
				want := conntrack.Established
				if age > 30*time.Second && monotonic() > age {
					want = conntrack.Untracked
				}
				if got := conntrack.Class(l.pass(later, 0).Class); got != want {
					t.Errorf("after %s a later fragment is %v, want %v", age, got, want)
				}
			}
		})
	}
}

// TestWindowsKnowTheDataOfAllFragments: the other side acknowledges what later fragments contain, and the state is that
// after the whole segment.
func TestWindowsKnowTheDataOfAllFragments(t *testing.T) {
	segment := func(from, to string, sport, dport uint16, p conntrack.Segment) []byte {
		s := pkt.TCPSegment(from, to, sport, dport, byte(p.Flags), make([]byte, p.Length))
		binary.BigEndian.PutUint32(s[4:], p.Seq)
		binary.BigEndian.PutUint32(s[8:], p.Ack)
		binary.BigEndian.PutUint16(s[14:], p.Window)
		return s
	}
	handshake := []conntrack.Segment{
		{Seq: 100, Window: 60000, Flags: conntrack.SYN, Scale: conntrack.NoScale},
		{Seq: 500, Ack: 101, Window: 60000, Flags: conntrack.SYN | conntrack.ACK, Scale: conntrack.NoScale},
		{Seq: 101, Ack: 501, Window: 60000, Flags: conntrack.ACK, Scale: conntrack.NoScale},
	}
	data := conntrack.Segment{Seq: 101, Ack: 501, Length: 900, Window: 60000, Flags: conntrack.ACK, Scale: conntrack.NoScale}
	last := conntrack.Segment{Seq: 1001, Ack: 501, Length: 300, Window: 60000, Flags: conntrack.FIN | conntrack.ACK, Scale: conntrack.NoScale}
	for hook, object := range packetObjects {
		for _, ipv6 := range []bool{false, true} {
			l := newPacketLab(t, object, 1024)
			a, b, framing := hostA, hostB, func(s []byte, from, to string) []byte {
				return framed(pkt.IPv4Header{From: from, To: to, Protocol: tcp, TTL: 64}.Packet(s))
			}
			if ipv6 {
				a, b, framing = hostA6, hostB6, func(s []byte, from, to string) []byte {
					return framed(pkt.IPv6Header{From: from, To: to, Next: tcp, HopLimit: 64}.Packet(s))
				}
			}
			var want conntrack.State
			f, _ := flow.Read(framing(segment(a, b, 1000, 80, data), a, b))
			_, client, _ := KeyOf(&f, 0)
			for i, p := range handshake {
				from, to, sport, dport := a, b, uint16(1000), uint16(80)
				if i == 1 {
					from, to, sport, dport = b, a, 80, 1000
				}
				l.pass(framing(segment(from, to, sport, dport, p), from, to), 0)
				want.TCP(client^uint8(i&1), p, conntrack.Options{})
			}
			for i, p := range []conntrack.Segment{data, last} {
				whole := segment(a, b, 1000, 80, p)
				first, later := fragments4(a, b, tcp, uint16(i), whole, 104)
				if ipv6 {
					first, later = fragments6(a, b, tcp, uint32(i), whole, 104)
				}
				l.is("the first fragment", l.pass(first, 0), conntrack.Established, 0, 1)
				l.is("the later one", l.pass(later, 0), conntrack.Established, 0, 1)
				want.TCP(client, p, conntrack.Options{})
				end := p.Seq + p.Length
				if p.Flags&conntrack.FIN != 0 {
					end++
				}
				ack := conntrack.Segment{Seq: 501, Ack: end, Window: 60000, Flags: conntrack.ACK, Scale: conntrack.NoScale}
				l.is("the acknowledgement of all", l.pass(framing(segment(b, a, 80, 1000, ack), b, a), 0), conntrack.Established, 1, 1)
				want.TCP(client^1, ack, conntrack.Options{})
			}
			all, _ := l.Page(0, 2, nil)
			if len(all) != 1 || all[0].State.Side != want.Side {
				t.Errorf("%s, IPv6 %t: the connections are %+v, want the state %+v", hook, ipv6, all, want)
			}
		}
	}
}
