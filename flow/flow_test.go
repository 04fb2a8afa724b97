// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/polycube/polycube/test/pkt"
)

const (
	macA, macB   = "02:00:00:00:00:01", "02:00:00:00:00:02"
	addrA, addrB = "10.0.0.1", "10.0.0.2"
	addr6, peer6 = "2001:db8::1", "2001:db8::2"
)

func packet4(h pkt.IPv4Header, payload []byte) []byte {
	h.From, h.To = addrA, addrB
	return pkt.Eth(macA, macB).IP(h.Packet(payload)).Bytes()
}

func packet6(next byte, payload ...[]byte) []byte {
	h := pkt.IPv6Header{From: addr6, To: peer6, Next: next, Class: 0xb8}
	return pkt.Eth(macA, macB).IP(h.Packet(slices.Concat(payload...))).Bytes()
}

var (
	syn   = pkt.TCPSegment(addrA, addrB, 1000, 80, 2, nil)
	udp   = pkt.UDPDatagram(addr6, peer6, 1000, 53, make([]byte, 8))
	plain = packet4(pkt.IPv4Header{Protocol: pkt.ProtoTCP, TOS: 0xb8, ID: 7}, syn)
)

// fields are what a test expects of a flow, addresses apart.
type fields struct {
	has              Has
	vlan             uint16
	protocol         uint8
	from, to         uint16
	fragment         Fragment
	flags, dscp      uint8
	icmpType, code   uint8
	id               uint32
	l3, l4           uint16
	etherType        uint16
	withoutAddresses bool
}

func fieldsOf(f Flow) fields {
	return fields{
		f.Has, f.VLAN, f.Protocol, f.SourcePort.Number(), f.DestinationPort.Number(), f.Fragment, f.TCPFlags, f.DSCP,
		f.ICMPType, f.ICMPCode, binary.BigEndian.Uint32(f.ID[:]), f.L3, f.L4, binary.BigEndian.Uint16(f.EtherType[:]),
		f.Source.Addr().IsUnspecified() && f.Destination.Addr().IsUnspecified(),
	}
}

func TestWhatIsReadOfAFrame(t *testing.T) {
	extended := packet6(0, pkt.IPv6Extension(43), pkt.IPv6Extension(51), []byte{60, 2, 0, 0}, make([]byte, 12), pkt.IPv6Extension(pkt.ProtoUDP), udp)
	for _, tt := range []struct {
		name  string
		frame []byte
		want  fields
	}{
		{"TCP", plain, fields{IP | L4 | Ports | TCP, Untagged, 6, 1000, 80, Whole, 2, 46, 0, 0, 7 << 16, 14, 34, 0x0800, false}},
		{"options", packet4(pkt.IPv4Header{Protocol: 6, Options: make([]byte, 8)}, syn),
			fields{IP | L4 | Ports | TCP, Untagged, 6, 1000, 80, Whole, 2, 0, 0, 0, 0, 14, 42, 0x0800, false}},
		{"options that are cut off", packet4(pkt.IPv4Header{Protocol: 6, Options: make([]byte, 40)}, nil)[:50],
			fields{IP, Untagged, 6, 0, 0, Whole, 0, 0, 0, 0, 0, 14, 0, 0x0800, false}},
		{"ports without the rest of TCP", plain[:42], fields{IP | L4 | Ports, Untagged, 6, 1000, 80, Whole, 0, 46, 0, 0, 7 << 16, 14, 34, 0x0800, false}},
		{"a tag", pkt.Tagged(plain, 0x8100e00a), fields{IP | L4 | Ports | TCP, 10, 6, 1000, 80, Whole, 2, 46, 0, 0, 7 << 16, 18, 38, 0x0800, false}},
		{"two tags", pkt.Tagged(plain, 0x88a80014, 0x8100000a),
			fields{IP | L4 | Ports | TCP, 20, 6, 1000, 80, Whole, 2, 46, 0, 0, 7 << 16, 22, 42, 0x0800, false}},
		{"three tags", pkt.Tagged(plain, 0x88a80014, 0x8100000a, 0x8100000b), fields{vlan: 20, etherType: 0x8100, withoutAddresses: true}},
		{"a first fragment", packet4(pkt.IPv4Header{Protocol: 6, ID: 9, Fragment: 0x2000}, syn),
			fields{IP | L4 | Ports | TCP, Untagged, 6, 1000, 80, First, 2, 0, 0, 0, 9 << 16, 14, 34, 0x0800, false}},
		{"a later fragment", packet4(pkt.IPv4Header{Protocol: 6, ID: 9, Fragment: 5}, syn),
			fields{IP | L4, Untagged, 6, 0, 0, Later, 0, 0, 0, 0, 9 << 16, 14, 34, 0x0800, false}},
		{"an echo request", packet4(pkt.IPv4Header{Protocol: 1}, pkt.ICMPMessage(8, 0, 77<<16|1, nil)),
			fields{IP | L4 | ICMP, Untagged, 1, 77, 77, Whole, 0, 0, 8, 0, 0, 14, 34, 0x0800, false}},
		{"an error", packet4(pkt.IPv4Header{Protocol: 1}, pkt.ICMPMessage(3, 4, 1400, nil)),
			fields{IP | L4 | ICMP, Untagged, 1, 0, 0, Whole, 0, 0, 3, 4, 0, 14, 34, 0x0800, false}},
		{"ICMPv6 over IPv4", packet4(pkt.IPv4Header{Protocol: 58}, make([]byte, 8)),
			fields{IP | L4, Untagged, 58, 0, 0, Whole, 0, 0, 0, 0, 0, 14, 34, 0x0800, false}},
		{"a total length below the header's", slices.Replace(slices.Clone(plain), 16, 18, 0, 19), fields{vlan: Untagged, l3: 14, etherType: 0x0800, withoutAddresses: true}},
		{"IPv6", packet6(17, udp), fields{IP | IPv6 | L4 | Ports, Untagged, 17, 1000, 53, Whole, 0, 46, 0, 0, 0, 14, 54, 0x86dd, false}},
		{"extension headers", extended, fields{IP | IPv6 | L4 | Ports, Untagged, 17, 1000, 53, Whole, 0, 46, 0, 0, 0, 14, 94, 0x86dd, false}},
		{"a first fragment of IPv6", packet6(44, pkt.IPv6Fragment(17, 1, 0x01020304), udp),
			fields{IP | IPv6 | L4 | Ports, Untagged, 17, 1000, 53, First, 0, 46, 0, 0, 0x01020304, 14, 62, 0x86dd, false}},
		{"an atomic fragment", packet6(44, pkt.IPv6Fragment(17, 0, 5), udp),
			fields{IP | IPv6 | L4 | Ports, Untagged, 17, 1000, 53, Whole, 0, 46, 0, 0, 5, 14, 62, 0x86dd, false}},
		{"a later fragment, whatever it says is next", packet6(44, pkt.IPv6Fragment(60, 0x10, 5), udp),
			fields{IP | IPv6 | L4, Untagged, 60, 0, 0, Later, 0, 46, 0, 0, 5, 14, 62, 0x86dd, false}},
		{"nine extension headers", packet6(60, slices.Repeat(pkt.IPv6Extension(60), 9), udp),
			fields{IP | IPv6, Untagged, 0, 0, 0, Whole, 0, 46, 0, 0, 0, 14, 0, 0x86dd, false}},
		{"another EtherType", pkt.Eth(macA, macB).Payload(46).Bytes(), fields{vlan: Untagged, etherType: 0x88b5, withoutAddresses: true}},
	} {
		f, ok := Read(tt.frame)
		if got := fieldsOf(f); !ok || got != tt.want {
			t.Errorf("%s:\n got %+v\nwant %+v", tt.name, got, tt.want)
		}
	}
	for _, frame := range [][]byte{plain[:13], pkt.Tagged(plain, 0x8100000a)[:17]} {
		if f, ok := Read(frame); ok {
			t.Errorf("%x is read as %+v", frame, f)
		}
	}
}

func TestThePacketInAnErrorMayBeCutOff(t *testing.T) {
	quoted := plain[14 : 14+28]
	frame := packet4(pkt.IPv4Header{Protocol: 1}, pkt.ICMPMessage(11, 0, 0, quoted))
	f, _ := Read(frame)
	want := fields{IP | L4 | Ports, Untagged, 6, 1000, 80, Whole, 0, 46, 0, 0, 7 << 16, 42, 62, 0x0800, false}
	if got := fieldsOf(ReadInner(frame, &f)); got != want {
		t.Errorf(" got %+v\nwant %+v", got, want)
	}
	if got := ReadInner(frame[:64], &f); got.Has != IP|L4 || got.Source != f.Source {
		t.Errorf("without ports: %+v", got)
	}
}

func TestFragmentsHaveTheHashOfTheirAddresses(t *testing.T) {
	first, _ := Read(packet4(pkt.IPv4Header{Protocol: 6, ID: 9, Fragment: 0x2000}, syn))
	later, _ := Read(packet4(pkt.IPv4Header{Protocol: 6, ID: 9, Fragment: 5}, syn))
	whole, _ := Read(plain)
	if first.Hash() != later.Hash() || first.Hash() == whole.Hash() {
		t.Errorf("hashes: first %#x, later %#x, whole %#x", first.Hash(), later.Hash(), whole.Hash())
	}
}

// FuzzRead compares the reader with gopacket, where that decodes a packet to its ports.
func FuzzRead(f *testing.F) {
	for _, frame := range [][]byte{plain, pkt.Tagged(plain, 0x88a80014, 0x8100000a), packet6(17, udp), packet6(44, pkt.IPv6Fragment(17, 1, 5), udp), packet6(0, pkt.IPv6Extension(17), udp)} {
		f.Add(frame)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		got, ok := Read(frame)
		if !ok {
			if got != (Flow{}) {
				t.Fatalf("%x: no flow, but %+v", frame, got)
			}
			return
		}
		if int(got.L4) > len(frame) || got.Has&(Ports|ICMP) != 0 && got.Has&L4 == 0 || got.Hash() == 0 {
			t.Fatalf("%x is read as %+v", frame, got)
		}
		ReadInner(frame, &got)
		compare(t, frame, got)
	})
}

func compare(t *testing.T, frame []byte, got Flow) {
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
	if got.Has&Ports == 0 || p.ErrorLayer() != nil || p.TransportLayer() == nil || got.Fragment != Whole {
		return
	}
	from, to := p.TransportLayer().TransportFlow().Endpoints()
	a, b := p.NetworkLayer().NetworkFlow().Endpoints()
	source, destination := got.Source, got.Destination
	if got.Has&IPv6 == 0 {
		if !slices.Equal(a.Raw(), source[12:]) || !slices.Equal(b.Raw(), destination[12:]) {
			t.Fatalf("%x: %v > %v, want %v > %v", frame, source.Addr(), destination.Addr(), a, b)
		}
	} else if !slices.Equal(a.Raw(), source[:]) || !slices.Equal(b.Raw(), destination[:]) {
		t.Fatalf("%x: %v > %v, want %v > %v", frame, source.Addr(), destination.Addr(), a, b)
	}
	if !slices.Equal(from.Raw(), got.SourcePort[:]) || !slices.Equal(to.Raw(), got.DestinationPort[:]) {
		t.Fatalf("%x: ports %v > %v, want %v > %v", frame, got.SourcePort.Number(), got.DestinationPort.Number(), from, to)
	}
}
