// SPDX-License-Identifier: Apache-2.0

package wire

// Answers to TCP segments.

import "encoding/binary"

// tcpLen is the length of a TCP header without options.
const tcpLen = 20

// The flags of TCP that answers depend on.
const (
	tcpFIN = 1 << iota
	tcpSYN
	tcpRST
	_
	tcpACK
)

// Reset returns the frame with the segment that resets the connection of a segment, as RFC 9293 3.5.2 says for one that
// is not acceptable; to and from are the MAC addresses of the frame. It is nil if there is no answer: to a reset, a
// fragment, a group, or what is no whole TCP header.
func Reset(p *Packet, to, from MAC) []byte {
	if p.Proto != ProtoTCP || p.Fragment() || len(p.Payload) < tcpLen || Destination(p.Frame)[0]&1 != 0 || p.Dst.IsMulticast() || p.Src.IsMulticast() {
		return nil
	}
	is := p.Payload
	flags, header := is[13], int(is[12]>>4)*4
	total := int(binary.BigEndian.Uint16(p.Data[2:]))
	if p.V6() {
		total = ipv6Len + int(binary.BigEndian.Uint16(p.Data[4:]))
	}
	length := total - p.header - header // of the data; the packet may be cut off
	if flags&tcpRST != 0 || header < tcpLen || length < 0 {
		return nil
	}
	b := make([]byte, tcpLen)
	copy(b, is[2:4])
	copy(b[2:], is[:2])
	b[12], b[13] = tcpLen/4<<4, tcpRST
	if flags&tcpACK != 0 {
		copy(b[4:8], is[8:12])
	} else {
		next := binary.BigEndian.Uint32(is[4:]) + uint32(length)
		for _, flag := range []byte{tcpSYN, tcpFIN} {
			if flags&flag != 0 {
				next++
			}
		}
		binary.BigEndian.PutUint32(b[8:], next)
		b[13] |= tcpACK
	}
	if p.V6() {
		binary.BigEndian.PutUint16(b[16:], fold(sum(pseudo(p.Dst, p.Src, len(b), ProtoTCP), b)))
		return header6(to, from, p.Dst, p.Src, ProtoTCP, hopLimit, b)
	}
	s, d := p.Dst.As4(), p.Src.As4()
	binary.BigEndian.PutUint16(b[16:], fold(sum(sum(sum(uint32(len(b))+uint32(ProtoTCP), s[:]), d[:]), b)))
	return frame4(to, from, header4{src: p.Dst, dst: p.Src, proto: ProtoTCP, whole: true}, b)
}
