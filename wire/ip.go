// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Packet is an IP packet in a frame.
type Packet struct {
	// Frame is the whole frame, and Data the IP packet, without padding.
	Frame, Data []byte
	Src, Dst    netip.Addr
	TTL         uint8
	// Proto is the protocol of Payload; in IPv6 the one after the known extension headers.
	Proto   uint8
	Payload []byte
	// Offset is the position of the payload in a fragmented packet, in bytes; More says that others follow; ID
	// identifies the fragments of one packet.
	Offset uint16
	More   bool
	ID     uint32
	// DontFragment is the IPv4 flag.
	DontFragment bool
	// header is the length of the IPv4 header, or of the IPv6 headers before the payload.
	header int
}

// V6 reports whether it is IPv6.
func (p *Packet) V6() bool { return p.Src.Is6() }

// Fragment reports whether it is a fragment.
func (p *Packet) Fragment() bool { return p.Offset > 0 || p.More }

// udpLen is the length of the UDP header.
const udpLen = 8

// BrokenUDP reports whether a packet that is no fragment is too short for its UDP datagram (RFC 768).
func (p *Packet) BrokenUDP() bool {
	if p.Proto != ProtoUDP || p.Fragment() {
		return false
	}
	room := int(binary.BigEndian.Uint16(p.Data[2:])) - p.header
	if p.V6() {
		room = ipv6Len + int(binary.BigEndian.Uint16(p.Data[4:])) - p.header
	}
	if room < udpLen || len(p.Payload) < udpLen {
		return true
	}
	length := int(binary.BigEndian.Uint16(p.Payload[4:]))
	jumbo := p.V6() && length == 0 // RFC 2675 4
	return length > room || length < udpLen && !jumbo
}

// ParseIP parses a frame.
func ParseIP(frame []byte) (Packet, error) {
	switch EtherType(frame) {
	case EtherIPv4:
		return parse4(frame)
	case EtherIPv6:
		return parse6(frame)
	}
	return Packet{}, fmt.Errorf("ethertype %#04x: %w", EtherType(frame), ErrMalformed)
}

func parse4(frame []byte) (Packet, error) {
	b := frame[ethLen:]
	if len(b) < ipv4Len || b[0]>>4 != 4 {
		return Packet{}, fmt.Errorf("IPv4: %w", ErrMalformed)
	}
	header, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	// The slow path may return a truncated packet.
	if header < ipv4Len || total < header || len(b) < header {
		return Packet{}, fmt.Errorf("IPv4: %w", ErrMalformed)
	}
	b = b[:min(total, len(b))]
	frag := binary.BigEndian.Uint16(b[6:])
	return Packet{
		Frame: frame, Data: b,
		Src: netip.AddrFrom4([4]byte(b[12:16])), Dst: netip.AddrFrom4([4]byte(b[16:20])),
		TTL: b[8], Proto: b[9], Payload: b[header:],
		Offset: frag & 0x1fff * 8, More: frag&0x2000 != 0, DontFragment: frag&0x4000 != 0,
		ID: uint32(binary.BigEndian.Uint16(b[4:])), header: header,
	}, nil
}

// IPv6 extension headers that may precede the payload.
const (
	hopByHop    = 0
	routing     = 43
	fragment6   = 44
	destination = 60
)

// maxHeaders is the maximum number of extension headers; a packet has each of them once, and one twice.
const maxHeaders = 8

func parse6(frame []byte) (Packet, error) {
	b := frame[ethLen:]
	if len(b) < ipv6Len || b[0]>>4 != 6 {
		return Packet{}, fmt.Errorf("IPv6: %w", ErrMalformed)
	}
	b = b[:min(ipv6Len+int(binary.BigEndian.Uint16(b[4:])), len(b))]
	p := Packet{
		Frame: frame, Data: b,
		Src: netip.AddrFrom16([16]byte(b[8:24])), Dst: netip.AddrFrom16([16]byte(b[24:40])),
		TTL: b[7], Proto: b[6], header: ipv6Len,
	}
	for range maxHeaders {
		length := 8
		switch p.Proto {
		case hopByHop, routing, destination:
			if p.Offset == 0 && len(b) > p.header+1 {
				length += int(b[p.header+1]) * 8
			}
		case fragment6:
		default:
			p.Payload = b[p.header:]
			return p, nil
		}
		if len(b) < p.header+length {
			return Packet{}, fmt.Errorf("IPv6: extension headers: %w", ErrMalformed)
		}
		if p.Proto == fragment6 {
			frag := binary.BigEndian.Uint16(b[p.header+2:])
			p.Offset, p.More, p.ID = frag&0xfff8, frag&1 != 0, binary.BigEndian.Uint32(b[p.header+4:])
		}
		p.Proto = b[p.header]
		p.header += length
		if p.Offset > 0 { // the following bytes are from the middle
			break
		}
	}
	p.Payload = b[p.header:]
	return p, nil
}
