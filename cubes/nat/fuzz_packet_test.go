// SPDX-License-Identifier: Apache-2.0

package nat

// Random packets: complete ones of every kind, replies to forwarded ones, errors about them, fragments, truncated ones,
// and ones with changed bytes.

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/pkt"
)

// noise draws from the seed of one operation.
type noise struct {
	*rand.Rand
	v6 bool
}

func (r noise) pick(of ...string) netip.Addr { return netip.MustParseAddr(of[r.IntN(len(of))]) }

// chance is true once in n times.
func (r noise) chance(n int) bool { return r.IntN(n) == 0 }

func among[T any](r noise, of ...T) T { return of[r.IntN(len(of))] }

// insider is an internal address, or one that should not be inside.
func (r noise) insider() netip.Addr {
	switch {
	case r.v6 && r.chance(4):
		return r.pick("fd00:0:0:1::7", "2001:db8::1", "fe80::1")
	case r.v6:
		return r.pick("fd00::7", "fd00::8", "fd00::9")
	case r.chance(4):
		return r.pick("10.0.1.7", "10.9.0.1", "203.0.113.1", "203.0.113.5", "192.0.2.9", "0.0.0.0")
	}
	return r.pick("10.0.0.7", "10.0.0.8", "10.0.0.9")
}

// outsider is an address outside.
func (r noise) outsider() netip.Addr {
	switch {
	case r.v6 && r.chance(4):
		return r.pick("2001:db8::1", "2001:db8::2", "ff02::1", "fe80::9", "::")
	case r.v6:
		return r.pick("2001:db8:9::1", "2001:db8:9::2")
	case r.chance(4):
		return r.pick("203.0.113.1", "203.0.113.2", "203.0.113.16", "224.0.0.5", "255.255.255.255")
	}
	return r.pick("198.51.100.1", "198.51.100.2")
}

// external is an address of the NAT, or another one.
func (r noise) external() netip.Addr {
	if r.v6 {
		return r.pick("2001:db8::1", "2001:db8::1", "2001:db8::2", "2001:db8::10", "2001:db8::3", "fd00::7")
	}
	return r.pick("203.0.113.1", "203.0.113.1", "203.0.113.2", "203.0.113.5", "203.0.113.17", "203.0.113.9", "10.0.0.7")
}

// port often returns a port that others have, too.
func (r noise) port() uint16 {
	if r.chance(8) {
		return uint16(1 + r.IntN(65535))
	}
	return among[uint16](r, 1, 53, 80, 999, 1023, 1024, 4000, 4001, 4002, 4003, 8080, 20000, 65535)
}

// local is a port of an internal host, or an id.
func (r noise) local() uint16 {
	if r.chance(20) {
		return 0
	}
	return r.port()
}

// proto is a protocol.
func (r noise) proto() uint8 {
	ping := uint8(unix.IPPROTO_ICMP)
	if r.v6 {
		ping = unix.IPPROTO_ICMPV6
	}
	switch n := r.IntN(40); {
	case n < 12:
		return unix.IPPROTO_TCP
	case n < 24:
		return unix.IPPROTO_UDP
	case n < 32:
		return ping
	case n < 34:
		return unix.IPPROTO_SCTP
	case n < 36:
		return among[uint8](r, unix.IPPROTO_UDPLITE, unix.IPPROTO_DCCP)
	case n < 39:
		return among[uint8](r, unix.IPPROTO_ESP, unix.IPPROTO_GRE, 59, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6)
	}
	return uint8(r.IntN(256))
}

// ends returns the endpoints of a packet that starts a conversation.
func (r noise) ends(in bool) (from, to endpoint) {
	if in {
		return endpoint{r.outsider(), r.port()}, endpoint{r.external(), among(r, 80, 80, 53, 4000, 4001, r.port(), r.port())}
	}
	return endpoint{r.insider(), r.local()}, endpoint{r.outsider(), r.port()}
}

// segment is a transport header with some data, and right checksums. A query has the id of one of its ends.
func (r noise) segment(proto uint8, from, to endpoint, id uint16) []byte {
	src, dst, data := from.addr.String(), to.addr.String(), bytesOf(r.IntN(60))
	switch proto {
	case unix.IPPROTO_TCP:
		flags := among[byte](r, 2, 2, 0x12, 0x10, 0x10, 0x18, 0x11, 4, 0x14, byte(r.IntN(256)))
		return tcp4(src, dst, from.port, to.port, flags, data)
	case unix.IPPROTO_UDP:
		d := udp(src, dst, from.port, to.port, data)
		if r.chance(10) {
			d[6], d[7] = 0, 0
		}
		return d
	case unix.IPPROTO_ICMP:
		kind := among[byte](r, 8, 8, 8, 0, 0, 0, 13, 14, 17, 18, byte(r.IntN(20)))
		return icmp(kind, 0, uint32(id)<<16|uint32(r.IntN(9)), data)
	case unix.IPPROTO_ICMPV6:
		kind := among[byte](r, 128, 128, 129, 129, 128, 129, byte(r.IntN(10)+126), byte(r.IntN(256)))
		return icmp6(src, dst, kind, 0, uint32(id)<<16|uint32(r.IntN(9)), data)
	case unix.IPPROTO_UDPLITE, unix.IPPROTO_DCCP:
		return checkedLater(src, dst, proto, from.port, to.port, append(make([]byte, 4), data...))
	case unix.IPPROTO_SCTP:
		d := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, from.port), to.port)
		return append(append(d, 1, 2, 3, 4, 5, 6, 7, 8), data...)
	}
	return data
}

// checkedLater is a segment of UDP-Lite or DCCP: its checksum is where that of UDP is, and covers everything.
func checkedLater(src, dst string, proto byte, sport, dport uint16, data []byte) []byte {
	h := slices.Concat(make([]byte, 8), data)
	binary.BigEndian.PutUint16(h, sport)
	binary.BigEndian.PutUint16(h[2:], dport)
	binary.BigEndian.PutUint16(h[6:], ^pkt.Sum(pkt.PseudoHeader(src, dst, proto, len(h)), h))
	return h
}

// packet puts an IP header before a segment, sometimes with options or extensions.
func (r noise) packet(proto uint8, from, to netip.Addr, segment []byte) []byte {
	if from.Is4() {
		options := 0
		if r.chance(6) {
			options = 4 * r.IntN(11)
		}
		return ip4(from.String(), to.String(), proto, uint16(r.Uint32()), 0, bytesOf(options), segment)
	}
	if r.chance(5) {
		for n := among(r, 1, 1, 2, 3, 8, 9); n > 0; n-- {
			segment, proto = append(r.extension(proto), segment...), among[uint8](r, 0, 43, 51, 60, 135)
			if proto == 51 {
				segment[1] = byte(len(segment[:8])/4 - 2)
			}
		}
	}
	return ip6(from.String(), to.String(), proto, segment)
}

// between is a packet of a protocol between two ends.
func (r noise) between(proto uint8, from, to endpoint, id uint16) []byte {
	return r.packet(proto, from.addr, to.addr, r.segment(proto, from, to, id))
}

// extension is a header of 8 bytes, or of more.
func (r noise) extension(next byte) []byte {
	if r.chance(4) {
		n := 1 + r.IntN(5)
		return append([]byte{next, byte(n)}, make([]byte, 6+8*n)...)
	}
	return extension(next)
}

// about is an ICMP error about a packet, of which it has the beginning.
func (r noise) about(from, to netip.Addr, packet []byte) []byte {
	packet = packet[:min(len(packet), among(r, 28, 28+r.IntN(20), 48+r.IntN(30), 1000, 20+r.IntN(8)))]
	word := among(r, 0, r.Uint32())
	if from.Is4() {
		return r.packet(unix.IPPROTO_ICMP, from, to, icmp(among[byte](r, 3, 3, 3, 11, 11, 4, 5, 12), byte(r.IntN(5)), word, packet))
	}
	kind := among[byte](r, 1, 1, 2, 3, 4, byte(r.IntN(128)))
	return r.packet(unix.IPPROTO_ICMPV6, from, to, icmp6(from.String(), to.String(), kind, 0, word, packet))
}

// cutUp is one of the pieces of a packet; they overlap sometimes.
func (r noise) cutUp(packet []byte, piece int) []byte {
	s := &sight{v6: packet[0]>>4 == 6}
	if _, ok := s.network(packet, false); !ok {
		return packet
	}
	// Properties common to all fragments are chosen before those of a single one.
	body, id := packet[s.l4:], r.Uint32()
	third := max(8, len(body)/3) &^ 7
	overlaps := r.chance(4)
	begin, end := min(piece*third, len(body)), min((piece+1)*third, len(body))
	if piece > 0 && overlaps {
		begin -= min(8, begin)
	}
	if piece == 2 {
		end = len(body)
	}
	more := uint16(0)
	if piece < 2 {
		more = 1
	}
	body = body[begin:max(begin, end)]
	if s.v6 {
		return ip6(s.from.addr.String(), s.to.addr.String(), nextFragment, append(fragment6(s.proto, uint16(begin)|more, id), body...))
	}
	return ip4(s.from.addr.String(), s.to.addr.String(), s.proto, uint16(id), more<<13|uint16(begin/8), nil, body)
}

// framed creates a frame from a packet, sometimes with tags.
func (r noise) framed(in bool, packet []byte) []byte {
	frame := []byte(outFrame(packet))
	if in {
		frame = inFrame(packet)
	}
	if !r.chance(8) {
		return frame
	}
	for range among(r, 1, 1, 2, 2, 3) {
		frame = pkt.Tagged(frame, among[uint32](r, 0x81000007, 0x88a82009))
	}
	return frame
}

// spoiled creates a malformed frame. Frames shorter than an Ethernet header are not sent.
func (r noise) spoiled(frame []byte) []byte {
	frame = bytes.Clone(frame)
	s := dissect(frame)
	switch r.IntN(5) {
	case 0:
		return frame[:14+r.IntN(len(frame)-13)]
	case 1:
		if s.check != 0 {
			frame[s.check+1] ^= byte(1 + r.IntN(255))
		}
	case 2: // a field that determines how the rest is read
		at := s.l3 + among(r, 0, 2, 3, 6, 7, 9)
		if s.v6 {
			at = s.l3 + among(r, 0, 4, 5, 6, 40, 41)
		}
		if at < len(frame) {
			frame[at] = byte(r.Uint32())
		}
	case 3:
		return append(frame, bytesOf(r.IntN(30))...)
	default:
		for range 1 + r.IntN(4) {
			frame[12+r.IntN(min(len(frame)-12, 80))] = byte(r.Uint32())
		}
	}
	return frame
}
