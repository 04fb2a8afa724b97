// SPDX-License-Identifier: Apache-2.0

package wire

// TCP segments, and answers to them.

import (
	"encoding/binary"
	"net/netip"
)

// tcpLen is the length of a TCP header without options.
const tcpLen = 20

// The flags of TCP that answers depend on.
const (
	tcpFIN = 1 << iota
	tcpSYN
	tcpRST
	tcpPSH
	tcpACK
)

// Segment is a TCP segment (RFC 9293) between addresses of one family.
type Segment struct {
	Src, Dst netip.AddrPort
	Seq, Ack uint32
	Window   uint16
	// The flags that are there; others are neither read nor written.
	FIN, SYN, RST, PSH, ACK bool
	// MSS is the option that a SYN is written with; 0: none. Options are not read.
	MSS     uint16
	Payload []byte
}

// Segment returns the TCP segment of a packet; false if it has none, is cut off, or a fragment. The result refers to the packet.
// Its checksum is not checked.
func (p *Packet) Segment() (s Segment, ok bool) {
	is := p.Payload
	if p.Proto != ProtoTCP || p.Fragment() || len(is) < tcpLen {
		return s, false
	}
	total := int(binary.BigEndian.Uint16(p.Data[2:]))
	if p.V6() {
		total = ipv6Len + int(binary.BigEndian.Uint16(p.Data[4:]))
	}
	header, length := int(is[12]>>4)*4, total-p.header
	if header < tcpLen || length < header || length > len(is) {
		return s, false
	}
	return Segment{
		Src: netip.AddrPortFrom(p.Src, binary.BigEndian.Uint16(is)), Dst: netip.AddrPortFrom(p.Dst, binary.BigEndian.Uint16(is[2:])),
		Seq: binary.BigEndian.Uint32(is[4:]), Ack: binary.BigEndian.Uint32(is[8:]), Window: binary.BigEndian.Uint16(is[14:]),
		FIN: is[13]&tcpFIN != 0, SYN: is[13]&tcpSYN != 0, RST: is[13]&tcpRST != 0, PSH: is[13]&tcpPSH != 0, ACK: is[13]&tcpACK != 0,
		Payload: is[header:length],
	}, true
}

// flags returns those of a segment as a byte.
func (s *Segment) flags() (all byte) {
	for i, set := range []bool{s.FIN, s.SYN, s.RST, s.PSH, s.ACK} {
		if set {
			all |= 1 << i
		}
	}
	return all
}

// Frame encodes the segment; to and from are the MAC addresses of the frame. Routers may not fragment it.
func (s Segment) Frame(to, from MAC) []byte {
	b := binary.BigEndian.AppendUint16(nil, s.Src.Port())
	b = binary.BigEndian.AppendUint16(b, s.Dst.Port())
	b = binary.BigEndian.AppendUint32(b, s.Seq)
	b = binary.BigEndian.AppendUint32(b, s.Ack)
	b = append(b, tcpLen/4<<4, s.flags())
	b = binary.BigEndian.AppendUint16(b, s.Window)
	b = append(b, 0, 0, 0, 0)
	if s.MSS != 0 {
		const kind, length = 2, 4
		b[12] += length / 4 << 4
		b = binary.BigEndian.AppendUint16(append(b, kind, length), s.MSS)
	}
	return tcpFrame(to, from, s.Src.Addr(), s.Dst.Addr(), append(b, s.Payload...))
}

// tcpFrame completes the checksum of a segment, and encodes the frame.
func tcpFrame(to, from MAC, src, dst netip.Addr, b []byte) []byte {
	pseudo := sum(uint32(ProtoTCP)+uint32(len(b)), append(src.AsSlice(), dst.AsSlice()...))
	binary.BigEndian.PutUint16(b[16:], fold(sum(pseudo, b)))
	if src.Is4() {
		return frame4(to, from, header4{src: src, dst: dst, proto: ProtoTCP, whole: true}, b)
	}
	return header6(to, from, src, dst, ProtoTCP, hopLimit, b)
}

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
	return tcpFrame(to, from, p.Dst, p.Src, b)
}
