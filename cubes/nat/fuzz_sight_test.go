// SPDX-License-Identifier: Apache-2.0

package nat

// How a NAT parses a frame, by code that is independent of the fast path, and how a translation must change it.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/pkt"
)

// look is the kind of a frame.
type look int

const (
	foreign    look = iota // neither IPv4 nor IPv6, or after more than two VLAN tags
	broken                 // headers that are not whole or not well formed
	ported                 // with ports that can be changed
	unchanging             // with ports under a checksum that covers too much: SCTP
	query                  // ICMP with an id
	portless               // another protocol
	failure                // ICMP about another packet
	laterPiece             // a fragment without the headers after the IP header
	otherICMP
	neighbourly // neighbour discovery and router discovery
)

var lookNames = [...]string{"no IP", "broken", "ports", "SCTP", "query", "other protocol", "ICMP error", "later fragment", "other ICMP", "neighbour discovery"}

func (l look) String() string { return lookNames[l] }

// sight contains the fields of a packet. Offsets are from the start of the frame.
type sight struct {
	look     look
	v6       bool
	l3, l4   int
	proto    uint8
	from, to endpoint // of a query, both have its id
	tcp      byte     // flags
	first    bool     // of several fragments
	id       uint32   // of the datagram of which it is one
	check    int      // offset of the transport checksum, 0: there is none
	// inner is the packet that an ICMP error is about, nil where its IP header is not whole or it has no ports or id.
	inner *sight
}

// checksums are the offsets of checksums from the transport header.
var checksums = map[uint8]int{unix.IPPROTO_TCP: 16, unix.IPPROTO_UDP: 6, unix.IPPROTO_UDPLITE: 6, unix.IPPROTO_DCCP: 6}

// dissect reads a frame.
func dissect(frame []byte) *sight {
	s := &sight{l3: 14}
	kind := binary.BigEndian.Uint16(frame[12:])
	for tags := 0; tags < 2 && (kind == 0x8100 || kind == 0x88a8); tags++ {
		if len(frame) < s.l3+4 {
			s.look = broken
			return s
		}
		kind = binary.BigEndian.Uint16(frame[s.l3+2:])
		s.l3 += 4
	}
	if kind != 0x0800 && kind != 0x86dd {
		return s
	}
	s.v6 = kind == 0x86dd
	piece, ok := s.network(frame, false)
	if ok {
		ok = s.transport(frame, piece)
	}
	if !ok {
		s.look = broken
	}
	return s
}

// The part of a datagram that a packet contains.
const (
	allOfIt = iota
	firstPiece
	lastPiece
)

// network reads the IP header at l3. The one inside of an error may have any length.
func (s *sight) network(frame []byte, inside bool) (piece int, ok bool) {
	if s.v6 {
		return s.network6(frame)
	}
	if len(frame) < s.l3+20 {
		return 0, false
	}
	h := frame[s.l3:]
	length := int(h[0]&15) * 4
	if h[0]>>4 != 4 || length < 20 || len(h) < length || !inside && int(binary.BigEndian.Uint16(h[2:])) < length {
		return 0, false
	}
	s.l4, s.proto, s.id = s.l3+length, h[9], uint32(binary.BigEndian.Uint16(h[4:]))
	s.from.addr, s.to.addr = netip.AddrFrom4([4]byte(h[12:])), netip.AddrFrom4([4]byte(h[16:]))
	switch offset := binary.BigEndian.Uint16(h[6:]); {
	case offset&0x1fff != 0:
		piece = lastPiece
	case offset&0x2000 != 0:
		piece = firstPiece
	}
	return piece, true
}

func (s *sight) network6(frame []byte) (piece int, ok bool) {
	if len(frame) < s.l3+40 || frame[s.l3]>>4 != 6 {
		return 0, false
	}
	h := frame[s.l3:]
	s.proto, s.l4 = h[6], s.l3+40
	s.from.addr, s.to.addr = netip.AddrFrom16([16]byte(h[8:])), netip.AddrFrom16([16]byte(h[24:]))
	extensions := []uint8{0, 43, 44, 51, 60, 135, 139, 140}
	for n := 0; slices.Contains(extensions, s.proto) && piece != lastPiece; n++ {
		if n == 8 || len(frame) < s.l4+8 {
			return 0, false
		}
		var size int
		e := frame[s.l4:]
		switch s.proto {
		case 44:
			size, s.id = 8, binary.BigEndian.Uint32(e[4:])
			if offset := binary.BigEndian.Uint16(e[2:]); offset&0xfff8 != 0 {
				piece = lastPiece
			} else if offset&1 != 0 {
				piece = firstPiece
			}
		case 51:
			size = (int(e[1]) + 2) * 4
		default:
			size = (int(e[1]) + 1) * 8
		}
		s.proto = e[0]
		if s.l4 += size; s.l4-s.l3-40 > 256 {
			return 0, false
		}
	}
	return piece, s.l4 <= len(frame)
}

// transport reads the header after the IP header: false if it is incomplete.
func (s *sight) transport(frame []byte, piece int) bool {
	if piece == lastPiece {
		s.look = laterPiece
		return true
	}
	s.first = piece == firstPiece
	h := frame[s.l4:]
	if s.isICMP() {
		return s.icmp(frame)
	}
	if s.proto != unix.IPPROTO_SCTP && checksums[s.proto] == 0 {
		s.look = portless
		return true
	}
	if len(h) < 8 || s.proto == unix.IPPROTO_TCP && len(h) < 20 {
		return false
	}
	s.from.port, s.to.port = binary.BigEndian.Uint16(h), binary.BigEndian.Uint16(h[2:])
	if s.look = ported; s.proto == unix.IPPROTO_SCTP {
		s.look = unchanging
		return true
	}
	s.check = s.l4 + checksums[s.proto]
	if s.proto == unix.IPPROTO_TCP {
		s.tcp = h[13]
	}
	return true
}

func (s *sight) isICMP() bool {
	return s.proto == unix.IPPROTO_ICMP && !s.v6 || s.proto == unix.IPPROTO_ICMPV6 && s.v6
}

// hasID reports whether an ICMP type is a query or a reply.
func (s *sight) hasID(kind byte) bool {
	if s.v6 {
		return kind == 128 || kind == 129
	}
	return slices.Contains([]byte{0, 8, 13, 14, 15, 16, 17, 18}, kind)
}

func (s *sight) icmp(frame []byte) bool {
	h := frame[s.l4:]
	if len(h) < 8 {
		return false
	}
	s.check = s.l4 + 2
	switch kind := h[0]; {
	case s.hasID(kind):
		s.look = query
		s.from.port = binary.BigEndian.Uint16(h[4:])
		s.to.port = s.from.port
	case s.v6 && kind < 128, !s.v6 && slices.Contains([]byte{3, 4, 5, 11, 12}, kind):
		s.look = failure
		inner := &sight{v6: s.v6, l3: s.l4 + 8}
		piece, ok := inner.network(frame, true)
		if ok && piece != lastPiece && inner.about(frame) {
			s.inner = inner
		}
		if ok && s.inner == nil {
			s.inner = &sight{look: broken, v6: s.v6, from: endpoint{addr: inner.from.addr}, to: endpoint{addr: inner.to.addr}}
		}
		return ok
	case s.v6 && kind >= 133 && kind <= 137:
		s.look = neighbourly
	default:
		s.look = otherICMP
	}
	return true
}

// about reads the beginning of a transport header inside of an error: false if the fields that identify its session are
// missing.
func (s *sight) about(frame []byte) bool {
	h := frame[s.l4:]
	switch {
	case s.isICMP():
		if len(h) < 8 || !s.hasID(h[0]) {
			return false
		}
		s.look, s.check = query, s.l4+2
		s.from.port = binary.BigEndian.Uint16(h[4:])
		s.to.port = s.from.port
	case s.proto == unix.IPPROTO_SCTP || checksums[s.proto] != 0:
		if len(h) < 8 {
			return false
		}
		s.from.port, s.to.port = binary.BigEndian.Uint16(h), binary.BigEndian.Uint16(h[2:])
		if s.look = ported; s.proto == unix.IPPROTO_SCTP {
			s.look = unchanging
		} else if at := checksums[s.proto]; at+2 <= len(h) {
			s.check = s.l4 + at
		}
	default:
		s.look = portless
	}
	return true
}

// sides returns the two ends of a packet: the local one, or its external endpoint, and the remote. A query only has an
// id on the first.
func (s *sight) sides(in bool) (local, remote endpoint) {
	local, remote = s.from, s.to
	if in {
		local, remote = s.to, s.from
	}
	if s.look == query {
		remote.port = 0
	}
	return local, remote
}

// translated returns a frame with another endpoint on the local side, except for checksums.
func (s *sight) translated(frame []byte, in bool, to endpoint) []byte {
	out := bytes.Clone(frame)
	s.write(out, in, to)
	if s.look == failure {
		s.inner.write(out, !in, to)
	}
	return out
}

// write changes the source, or with in the destination.
func (s *sight) write(frame []byte, in bool, to endpoint) {
	at, size := s.l3+12, 4
	if s.v6 {
		at, size = s.l3+8, 16
	}
	if in {
		at += size
	}
	copy(frame[at:], to.addr.AsSlice())
	switch {
	case s.look == query:
		binary.BigEndian.PutUint16(frame[s.l4+4:], to.port)
	case s.look == ported && in:
		binary.BigEndian.PutUint16(frame[s.l4+2:], to.port)
	case s.look == ported:
		binary.BigEndian.PutUint16(frame[s.l4:], to.port)
	}
}

// residue is the sum of the words under a checksum. It is 0 if the checksum is correct, and an update of words and
// checksum preserves it, right or wrong.
type residue struct {
	name string
	at   int // of the checksum
	sum  uint16
	none bool // a UDP checksum of 0: there is none
}

func (s *sight) residues(frame []byte) (all []residue) {
	if s.look == foreign || s.look == broken {
		return nil
	}
	if !s.v6 {
		all = append(all, residue{"IPv4 header", s.l3 + 10, pkt.Sum(frame[s.l3:s.l4]) % 0xffff, false})
	}
	if s.check != 0 {
		head := s.pseudo(frame)
		if s.proto == unix.IPPROTO_ICMP {
			head = nil
		}
		none := s.proto == unix.IPPROTO_UDP && frame[s.check] == 0 && frame[s.check+1] == 0
		all = append(all, residue{fmt.Sprintf("protocol %d", s.proto), s.check, pkt.Sum(head, frame[s.l4:]) % 0xffff, none})
	}
	if s.look == failure {
		for _, r := range s.inner.residues(frame) {
			r.name += " inside"
			all = append(all, r)
		}
	}
	return all
}

// pseudo is the pseudo header of a packet without its length, which no NAT changes.
func (s *sight) pseudo(frame []byte) []byte {
	if s.v6 {
		return append(bytes.Clone(frame[s.l3+8:s.l3+40]), 0, s.proto)
	}
	return append(bytes.Clone(frame[s.l3+12:s.l3+20]), 0, s.proto)
}

// differ returns how a frame differs from the required one; with checksums, relative to those of the original frame.
func (s *sight) differ(before, want, got []byte) error {
	if len(got) != len(want) {
		return fmt.Errorf("it has %d bytes and had %d", len(got), len(want))
	}
	was, is := s.residues(before), s.residues(got)
	want = bytes.Clone(want)
	for i, r := range is {
		copy(want[r.at:r.at+2], got[r.at:])
		switch {
		case was[i].none != r.none:
			return fmt.Errorf("the checksum of %s is none: %v, and was none: %v", r.name, r.none, was[i].none)
		case !r.none && was[i].sum != r.sum:
			return fmt.Errorf("the words under the checksum of %s add up to %#04x, and did to %#04x", r.name, r.sum, was[i].sum)
		}
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("it is not as it has to be, apart from checksums:\n%x", want)
	}
	return nil
}
