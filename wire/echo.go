// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"net/netip"
)

// Types of echo messages.
const (
	EchoRequest4 = 8
	echoReply4   = 0
	EchoRequest6 = 128
	echoReply6   = 129
)

// Echo reports whether the packet, or its first fragment, is a valid echo request.
func (p *Packet) Echo() bool {
	b := p.Payload
	if p.Offset > 0 || len(b) < icmpLen || b[1] != 0 {
		return false
	}
	switch {
	case p.V6():
		return p.Proto == ProtoICMPv6 && b[0] == EchoRequest6 &&
			(p.More || fold(sum(pseudo(p.Src, p.Dst, len(b), ProtoICMPv6), b)) == 0)
	default:
		return p.Proto == ProtoICMP && b[0] == EchoRequest4 && (p.More || fold(sum(0, b)) == 0)
	}
}

// SentTo returns the IPv6 echo request as if it had been sent to another address.
func (p *Packet) SentTo(a netip.Addr) Packet {
	q := *p
	q.Dst, q.Payload = a, append([]byte(nil), p.Payload...)
	binary.BigEndian.PutUint16(q.Payload[2:], 0)
	binary.BigEndian.PutUint16(q.Payload[2:], fold(sum(pseudo(q.Src, q.Dst, len(q.Payload), ProtoICMPv6), q.Payload)))
	return q
}

// EchoReply answers a packet for which Echo is true, or a later fragment of one, with a frame of the same size:
// addresses swapped, the type changed to a reply, the checksum updated for that. So a fragmented request is answered in
// the same fragments, without reassembly. IPv4 options and IPv6 extension headers other than a fragment header are
// dropped.
func (p *Packet) EchoReply(to, from MAC) []byte {
	if p.V6() {
		return p.echoReply6(to, from)
	}
	body := append([]byte(nil), p.Payload...)
	if p.Offset == 0 {
		binary.BigEndian.PutUint16(body[2:], replace(binary.BigEndian.Uint16(body[2:]), EchoRequest4<<8, echoReply4<<8))
		body[0] = echoReply4
	}
	f := frame4(to, from, header4{src: p.Dst, dst: p.Src, proto: ProtoICMP, tos: p.Data[1], id: uint16(p.ID)}, body)
	if p.Fragment() {
		setFragment(f[ethLen:], p.Offset, p.More)
	}
	return f
}

func (p *Packet) echoReply6(to, from MAC) []byte {
	body := append([]byte(nil), p.Payload...)
	if p.Offset == 0 {
		binary.BigEndian.PutUint16(body[2:], replace(binary.BigEndian.Uint16(body[2:]), EchoRequest6<<8, echoReply6<<8))
		body[0] = echoReply6
	}
	f := ethernet(to, from, EtherIPv6)
	f = append(f, p.Data[0], p.Data[1]&0xf0, 0, 0) // the class stays, the flow label does not
	length, next := len(body), ProtoICMPv6
	if p.Fragment() {
		length, next = length+8, fragment6
	}
	f = binary.BigEndian.AppendUint16(f, uint16(length))
	f = append(f, next, hopLimit)
	f = append(f, p.Dst.AsSlice()...)
	f = append(f, p.Src.AsSlice()...)
	if p.Fragment() {
		frag := p.Offset
		if p.More {
			frag |= 1
		}
		f = append(f, ProtoICMPv6, 0)
		f = binary.BigEndian.AppendUint16(f, frag)
		f = binary.BigEndian.AppendUint32(f, p.ID)
	}
	return append(f, body...)
}
