// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"net/netip"
)

// Kind is the meaning of an ICMP error.
type Kind uint8

// The kinds of errors.
const (
	// TimeExceeded: the TTL or hop limit expired here.
	TimeExceeded Kind = iota
	// NoRoute: there is no route to the destination.
	NoRoute
	// RouteUnreachable: an unreachable route.
	RouteUnreachable
	// NoNeighbour: the host, or the next router, does not answer.
	NoNeighbour
	// Prohibited: prohibited by policy.
	Prohibited
	// BeyondScope: a link-local source cannot be reached from there (IPv6).
	BeyondScope
	// NoProtocol: this router does not support the protocol.
	NoProtocol
	// NoPort: this router has no listener on the port.
	NoPort
	// TooBig: the packet exceeds the MTU, and must not be fragmented.
	TooBig
	// NetProhibited: the network is prohibited by policy.
	NetProhibited
	// HostProhibited: the host is prohibited by policy.
	HostProhibited
	// BadSource: the source address is prohibited by policy.
	BadSource
	// RejectRoute: a route that rejects packets.
	RejectRoute
)

// numbers are type and code in ICMP and in ICMPv6, as Linux uses them in the same cases.
var numbers = [...]struct{ v4, v6 [2]byte }{
	TimeExceeded:     {[2]byte{11, 0}, [2]byte{3, 0}},
	NoRoute:          {[2]byte{3, 0}, [2]byte{1, 0}},
	RouteUnreachable: {[2]byte{3, 1}, [2]byte{1, 0}},
	NoNeighbour:      {[2]byte{3, 1}, [2]byte{1, 3}},
	Prohibited:       {[2]byte{3, 13}, [2]byte{1, 1}},
	BeyondScope:      {[2]byte{3, 0}, [2]byte{1, 2}},
	NoProtocol:       {[2]byte{3, 2}, [2]byte{4, 1}},
	NoPort:           {[2]byte{3, 3}, [2]byte{1, 4}},
	TooBig:           {[2]byte{3, 4}, [2]byte{2, 0}},
	NetProhibited:    {[2]byte{3, 9}, [2]byte{1, 1}},
	HostProhibited:   {[2]byte{3, 10}, [2]byte{1, 1}},
	BadSource:        {[2]byte{3, 13}, [2]byte{1, 5}},
	RejectRoute:      {[2]byte{3, 1}, [2]byte{1, 6}},
}

// The maximum length of an error, including headers: RFC 1812 4.3.2.3, RFC 4443 2.4(c).
const (
	maxError4 = 576
	maxError6 = 1280
	icmpLen   = 8
	hopLimit  = 64
)

// Answerable reports whether a packet may be answered with an error at all: RFC 1812 4.3.2.7, RFC 4443 2.4(e).
func (p *Packet) Answerable(k Kind) bool {
	if p.V6() {
		return p.answerable6(k)
	}
	src := p.Src.As4()
	return Destination(p.Frame)[0]&1 == 0 && !group4(p.Dst) && !group4(p.Src) && src[0] != 0 && src[0] != 127 &&
		p.Offset == 0 && (p.Proto != ProtoICMP || len(p.Payload) > 0 && query(p.Payload[0]))
}

// group4 reports whether an address is not that of a single host: multicast, reserved, broadcast.
func group4(a netip.Addr) bool { return a.As4()[0] >= 224 }

// query reports whether an ICMP message is a query or a reply, and so not an error.
func query(t byte) bool {
	return t == 0 || t >= 8 && t <= 10 || t >= 13 && t <= 18 || t == 42 || t == 43
}

func (p *Packet) answerable6(k Kind) bool {
	toGroup := p.Dst.IsMulticast() || Destination(p.Frame)[0]&1 != 0
	if toGroup && k != TooBig || p.Src.IsUnspecified() || p.Src.IsMulticast() || p.Src.IsLoopback() {
		return false
	}
	if p.Proto != ProtoICMPv6 || p.Offset > 0 {
		return true
	}
	return len(p.Payload) > 0 && p.Payload[0] >= 128 && p.Payload[0] != Redirect
}

// Error is an ICMP or ICMPv6 error.
type Error struct {
	Kind Kind
	// MTU is the MTU in TooBig.
	MTU int
	// From is the router's address that sends it, of the family of the packet.
	From netip.Addr
	// ID is the ID of the IPv4 header.
	ID uint16
}

// Frame encodes the error that answers a packet; to and from are the MAC addresses of the frame.
func (e Error) Frame(p *Packet, to, from MAC) []byte {
	n := numbers[e.Kind].v4
	if p.V6() {
		n = numbers[e.Kind].v6
	}
	b := make([]byte, icmpLen, icmpLen+len(p.Data))
	b[0], b[1] = n[0], n[1]
	if p.V6() {
		if e.Kind == TooBig {
			binary.BigEndian.PutUint32(b[4:], uint32(e.MTU))
		} else if e.Kind == NoProtocol {
			binary.BigEndian.PutUint32(b[4:], uint32(p.nextHeaderAt()))
		}
		b = append(b, p.Data[:min(len(p.Data), maxError6-ipv6Len-icmpLen)]...)
		return frame6(to, from, e.From, p.Src, hopLimit, b)
	}
	if e.Kind == TooBig {
		binary.BigEndian.PutUint16(b[6:], uint16(min(e.MTU, 0xffff)))
	}
	b = append(b, p.Data[:min(len(p.Data), maxError4-ipv4Len-icmpLen)]...)
	binary.BigEndian.PutUint16(b[2:], fold(sum(0, b)))
	// The precedence is internetwork control (RFC 1812 4.3.2.5).
	return frame4(to, from, header4{src: e.From, dst: p.Src, proto: ProtoICMP, tos: p.Data[1]&0x1e | 0xc0, id: e.ID}, b)
}

// nextHeaderAt returns the offset of the field with the packet's protocol, to which ICMPv6 points if it does not
// support it.
func (p *Packet) nextHeaderAt() int {
	at, length := 6, ipv6Len
	for length < p.header {
		next := p.Data[at]
		at = length
		if next == fragment6 {
			length += 8
		} else {
			length += 8 + int(p.Data[at+1])*8
		}
	}
	return at
}

// header4 contains the variable fields of the IPv4 headers encoded here.
type header4 struct {
	src, dst   netip.Addr
	proto, tos byte
	id         uint16
	whole      bool // routers must not fragment it, so that its id means nothing (RFC 6864)
}

// dontFragment is a flag in the first byte of the fragment offset.
const dontFragment = 0x40

func frame4(to, from MAC, h header4, payload []byte) []byte {
	f := ethernet(to, from, EtherIPv4)
	f = append(f, 0x45, h.tos)
	f = binary.BigEndian.AppendUint16(f, uint16(ipv4Len+len(payload)))
	f = binary.BigEndian.AppendUint16(f, h.id)
	flags := byte(0)
	if h.whole {
		flags = dontFragment
	}
	f = append(f, flags, 0, hopLimit, h.proto, 0, 0)
	f = append(f, h.src.AsSlice()...)
	f = append(f, h.dst.AsSlice()...)
	binary.BigEndian.PutUint16(f[ethLen+10:], fold(sum(0, f[ethLen:])))
	return append(f, payload...)
}
