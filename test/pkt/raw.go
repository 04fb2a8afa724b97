// SPDX-License-Identifier: Apache-2.0

package pkt

// Headers and messages as bytes, for packets that a Frame cannot describe: fragments, packets in ICMP errors,
// contradictory fields. Lengths and checksums are correct; a test that needs wrong ones changes the bytes.

import (
	"encoding/binary"
	"slices"
)

// Protocols above IP, and next headers of IPv6.
const (
	ProtoICMP    = 1
	ProtoTCP     = 6
	ProtoUDP     = 17
	ProtoESP     = 50
	ProtoICMPv6  = 58
	ProtoSCTP    = 132
	NextHopByHop = 0
	NextFragment = 44
)

// EthernetFrame is a frame with a given payload, from one MAC address to another.
func EthernetFrame(to, from []byte, etherType uint16, payload []byte) []byte {
	return slices.Concat(to, from, []byte{byte(etherType >> 8), byte(etherType)}, payload)
}

// Sum is the folded one's complement sum of 16-bit words (RFC 1071); each part is padded to whole words. Data with a
// correct checksum has the sum 0xffff. The complement is the checksum of data whose checksum field is 0.
func Sum(parts ...[]byte) uint16 {
	var s uint64
	for _, p := range parts {
		for i := range p {
			s += uint64(p[i]) << (8 * (1 - i%2))
		}
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// PseudoHeader sums up to the pseudo header of a transport checksum, of IPv4 (RFC 9293) or of IPv6 (RFC 8200 8.1).
func PseudoHeader(from, to string, proto byte, length int) []byte {
	return binary.BigEndian.AppendUint32(slices.Concat(ip(from), ip(to), []byte{0, proto}), uint32(length))
}

// IPv4Header are the fields of an IPv4 header (RFC 791); length and checksum follow from them.
type IPv4Header struct {
	From, To           string
	Protocol, TTL, TOS byte
	ID                 uint16
	Fragment           uint16 // flags and offset, as in the header
	Options            []byte // a multiple of 4 bytes
	NoChecksum         bool   // leaves it 0
}

// Packet is the header and a payload.
func (h IPv4Header) Packet(payload []byte) []byte {
	b := []byte{0x45 + byte(len(h.Options)/4), h.TOS}
	b = binary.BigEndian.AppendUint16(b, uint16(20+len(h.Options)+len(payload)))
	b = binary.BigEndian.AppendUint16(b, h.ID)
	b = binary.BigEndian.AppendUint16(b, h.Fragment)
	b = slices.Concat(b, []byte{h.TTL, h.Protocol, 0, 0}, ip(h.From), ip(h.To), h.Options)
	if !h.NoChecksum {
		SumIPv4(b)
	}
	return append(b, payload...)
}

// SumIPv4 writes the checksum of an IPv4 header, at the beginning of b.
func SumIPv4(b []byte) {
	b[10], b[11] = 0, 0
	binary.BigEndian.PutUint16(b[10:], ^Sum(b[:int(b[0]&15)*4]))
}

// IPv6Header are the fields of an IPv6 header (RFC 8200); the length follows from the payload.
type IPv6Header struct {
	From, To       string
	Next, HopLimit byte
	Class          byte
}

// Packet is the header and a payload, extension headers included.
func (h IPv6Header) Packet(payload []byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0x60 | h.Class>>4, h.Class << 4, 0, 0}, uint16(len(payload)))
	return slices.Concat(b, []byte{h.Next, h.HopLimit}, ip(h.From), ip(h.To), payload)
}

// IPv6Extension is an extension header of 8 bytes, with padding in it.
func IPv6Extension(next byte) []byte { return []byte{next, 0, 1, 4, 0, 0, 0, 0} }

// IPv6Fragment is a fragment header; the lowest bit of offset says that more fragments follow.
func IPv6Fragment(next byte, offset uint16, id uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{next, 0, byte(offset >> 8), byte(offset)}, id)
}

// UDPDatagram is a UDP datagram (RFC 768) between two addresses.
func UDPDatagram(from, to string, sport, dport uint16, payload []byte) []byte {
	b := binary.BigEndian.AppendUint16(ports(sport, dport), uint16(8+len(payload)))
	b = slices.Concat(b, []byte{0, 0}, payload)
	check := ^Sum(PseudoHeader(from, to, ProtoUDP, len(b)), b)
	if check == 0 {
		check = 0xffff // 0 means that there is none
	}
	binary.BigEndian.PutUint16(b[6:], check)
	return b
}

// TCPSegment is a TCP segment (RFC 9293) between two addresses; sequence numbers and window are 0.
func TCPSegment(from, to string, sport, dport uint16, flags byte, payload []byte) []byte {
	b := slices.Concat(ports(sport, dport), make([]byte, 8), []byte{0x50, flags}, make([]byte, 6), payload)
	binary.BigEndian.PutUint16(b[16:], ^Sum(PseudoHeader(from, to, ProtoTCP, len(b)), b))
	return b
}

func ports(from, to uint16) []byte {
	return []byte{byte(from >> 8), byte(from), byte(to >> 8), byte(to)}
}

// ICMPMessage is an ICMP message (RFC 792); word follows the checksum.
func ICMPMessage(kind, code byte, word uint32, payload []byte) []byte {
	b := append(binary.BigEndian.AppendUint32([]byte{kind, code, 0, 0}, word), payload...)
	binary.BigEndian.PutUint16(b[2:], ^Sum(b))
	return b
}

// ICMPv6Message is an ICMPv6 message (RFC 4443) between two addresses.
func ICMPv6Message(from, to string, kind, code byte, word uint32, payload []byte) []byte {
	b := append(binary.BigEndian.AppendUint32([]byte{kind, code, 0, 0}, word), payload...)
	binary.BigEndian.PutUint16(b[2:], ^Sum(PseudoHeader(from, to, ProtoICMPv6, len(b)), b))
	return b
}

// IP adds an IP packet that is there as bytes.
func (f *Frame) IP(packet []byte) *Frame {
	if packet[0]>>4 == 6 {
		return f.EtherType(0x86dd).Data(packet)
	}
	return f.EtherType(0x0800).Data(packet)
}

// Hop returns a frame after a router: its TTL or hop limit is decremented.
func Hop(frame []byte) []byte {
	b := slices.Clone(frame)
	if binary.BigEndian.Uint16(b[12:]) == 0x86dd {
		b[21]--
		return b
	}
	b[22]--
	SumIPv4(b[14:])
	return b
}

// Tagged is a frame with tags (TPID and TCI) before its ethertype, the outer one first.
func Tagged(frame []byte, tags ...uint32) []byte {
	b := slices.Clone(frame[:12])
	for _, t := range tags {
		b = binary.BigEndian.AppendUint32(b, t)
	}
	return append(b, frame[12:]...)
}
