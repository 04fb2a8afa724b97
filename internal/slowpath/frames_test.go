// SPDX-License-Identifier: Apache-2.0

// Frames with TCP and UDP in them, made and judged by arithmetic of their own.

package slowpath

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/polycube/polycube/test/pkt"
)

// sums says what a test frame has in its checksum field.
type sums int

const (
	finished sums = iota // the right checksum
	pseudo               // the sum of the pseudo header
	none                 // 0
	wrong
)

// layout says how a test frame is made.
type layout struct {
	tags    []uint16 // Ethernet types of VLAN tags
	v6      bool
	options int    // bytes of IPv4 options
	ext     []byte // IPv6 extension headers, the last one's next header is set
	first   byte   // the first extension header
	udp     bool
	payload int
	sum     sums
	flags   byte // of TCP
	frag    uint16
	padding []byte
	final   string // the destination that counts, if it is not the one in the IPv6 header
}

var (
	v4src, v4dst = "10.0.0.1", "10.0.0.2"
	v6src, v6dst = "fd00::1", "fd00::2"
)

func (l layout) proto() byte {
	if l.udp {
		return 17
	}
	return 6
}

// pseudoHeader is what RFC 9293 and RFC 8200 put in front of the segment for its checksum.
func (l layout) pseudoHeader(length int) []byte {
	from, to := v4src, v4dst
	if l.v6 {
		from, to = v6src, v6dst
		if l.final != "" {
			to = l.final
		}
	}
	return pkt.PseudoHeader(from, to, l.proto(), length)
}

// transport is the TCP or UDP segment.
func (l layout) transport(payload []byte) []byte {
	var s []byte
	at := tcpSumAt
	if l.udp {
		at = udpSumAt
		s = append(s, 0x10, 0, 0x20, 0)
		s = binary.BigEndian.AppendUint16(s, uint16(8+len(payload)))
		s = append(s, 0, 0)
	} else {
		s = append(s, 0x10, 0, 0x20, 0, 0, 0, 0, 1, 0, 0, 0, 1, 8<<4, 0x10|l.flags, 0xff, 0xff, 0, 0, 0, 0)
		s = append(s, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2) // NOP, NOP, timestamps
	}
	s = append(s, payload...)
	head := l.pseudoHeader(len(s))
	value := map[sums]uint16{finished: ^pkt.Sum(head, s), pseudo: pkt.Sum(head), wrong: 0x1234}[l.sum]
	binary.BigEndian.PutUint16(s[at:], value)
	return s
}

// frame makes the frame.
func (l layout) frame() []byte {
	f := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}
	for i, tag := range l.tags {
		f = append(binary.BigEndian.AppendUint16(f, tag), 0, byte(100+i))
	}
	seg := l.transport(payloadBytes(l.payload))
	if l.v6 {
		first := l.proto()
		if l.ext != nil {
			first = l.first
		}
		ip := pkt.IPv6Header{From: v6src, To: v6dst, Next: first, HopLimit: 64}
		return slices.Concat(f, []byte{0x86, 0xdd}, ip.Packet(slices.Concat(l.ext, seg)), l.padding)
	}
	ip := pkt.IPv4Header{From: v4src, To: v4dst, Protocol: l.proto(), TTL: 64, ID: 7, Fragment: l.frag}
	ip.Options = bytes.Repeat([]byte{1}, l.options)
	return slices.Concat(f, []byte{8, 0}, ip.Packet(seg), l.padding)
}

func payloadBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	return b
}

// offset is where the transport header is.
func (l layout) offset() int {
	if l.v6 {
		return 14 + 4*len(l.tags) + 40 + len(l.ext)
	}
	return 14 + 4*len(l.tags) + 20 + l.options
}

// head is the length of the transport header.
func (l layout) head() int {
	if l.udp {
		return 8
	}
	return 32
}

// good reports whether the checksum of a received frame of this layout is right.
func (l layout) good(f []byte) bool {
	seg := f[l.offset():]
	return pkt.Sum(l.pseudoHeader(len(seg)), seg) == 0xffff
}
