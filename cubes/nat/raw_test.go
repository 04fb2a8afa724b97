// SPDX-License-Identifier: Apache-2.0

package nat

// Packets that test/pkt does not make, byte by byte, and a check of all checksums in a packet that
// shares no code with what makes them.

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

// raw is a frame as it is.
type raw []byte

func (r raw) Bytes() []byte { return r }

const (
	nextICMP, nextTCP, nextUDP, nextESP, nextICMPv6, nextSCTP = 1, 6, 17, 50, 58, 132
	nextFragment, nextHopByHop                                = 44, 0
)

func outFrame(ip []byte) raw { return frameOf(1, 2, ip) }
func inFrame(ip []byte) raw  { return frameOf(2, 1, ip) }

// frameOf puts an IP packet into a frame between the stations 02:00:00:00:00:0x.
func frameOf(from, to byte, ip []byte) raw {
	etherType := []byte{0x08, 0x00}
	if ip[0]>>4 == 6 {
		etherType = []byte{0x86, 0xdd}
	}
	head := append([]byte{2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from}, etherType...)
	return append(head, ip...)
}

// sum is the folded sum of 16-bit words.
func sum(parts ...[]byte) uint16 {
	var s uint32
	for _, p := range parts {
		for i := 0; i+1 < len(p); i += 2 {
			s += uint32(p[i])<<8 | uint32(p[i+1])
		}
		if len(p)%2 == 1 {
			s += uint32(p[len(p)-1]) << 8
		}
	}
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// ip4 makes an IPv4 packet; offset has the flags and the fragment offset.
func ip4(from, to string, proto byte, id, offset uint16, options, payload []byte) []byte {
	src, dst := netip.MustParseAddr(from).As4(), netip.MustParseAddr(to).As4()
	h := make([]byte, 20, 20+len(options))
	h[0] = 0x40 | byte(5+len(options)/4)
	binary.BigEndian.PutUint16(h[2:], uint16(20+len(options)+len(payload)))
	binary.BigEndian.PutUint16(h[4:], id)
	binary.BigEndian.PutUint16(h[6:], offset)
	h[8], h[9] = 64, proto
	copy(h[12:], src[:])
	copy(h[16:], dst[:])
	h = append(h, options...)
	binary.BigEndian.PutUint16(h[10:], ^sum(h))
	return append(h, payload...)
}

func plain4(from, to string, proto byte, payload []byte) []byte {
	return ip4(from, to, proto, 0, 0, nil, payload)
}

// ip6 makes an IPv6 packet; next is the type of what the payload begins with.
func ip6(from, to string, next byte, payload []byte) []byte {
	src, dst := netip.MustParseAddr(from).As16(), netip.MustParseAddr(to).As16()
	h := make([]byte, 8)
	h[0], h[6], h[7] = 0x60, next, 64
	binary.BigEndian.PutUint16(h[4:], uint16(len(payload)))
	return slices.Concat(h, src[:], dst[:], payload)
}

// pseudo is the pseudo header of a checksum.
func pseudo(from, to string, proto byte, length int) []byte {
	src, dst := netip.MustParseAddr(from), netip.MustParseAddr(to)
	return append(append(src.AsSlice(), dst.AsSlice()...), 0, proto, byte(length>>8), byte(length))
}

// udp makes a datagram with its checksum.
func udp(from, to string, sport, dport uint16, payload []byte) []byte {
	h := make([]byte, 8)
	binary.BigEndian.PutUint16(h, sport)
	binary.BigEndian.PutUint16(h[2:], dport)
	binary.BigEndian.PutUint16(h[4:], uint16(8+len(payload)))
	h = slices.Concat(h, payload)
	check := ^sum(pseudo(from, to, nextUDP, len(h)), h)
	if check == 0 {
		check = 0xffff
	}
	binary.BigEndian.PutUint16(h[6:], check)
	return h
}

// tcp makes a segment with its checksum.
func tcp4(from, to string, sport, dport uint16, flags byte, payload []byte) []byte {
	h := make([]byte, 20)
	binary.BigEndian.PutUint16(h, sport)
	binary.BigEndian.PutUint16(h[2:], dport)
	h[12], h[13] = 0x50, flags
	h = slices.Concat(h, payload)
	binary.BigEndian.PutUint16(h[16:], ^sum(pseudo(from, to, nextTCP, len(h)), h))
	return h
}

// icmp makes a message of ICMP; word is what follows the checksum.
func icmp(kind, code byte, word uint32, payload []byte) []byte {
	h := make([]byte, 8)
	h[0], h[1] = kind, code
	binary.BigEndian.PutUint32(h[4:], word)
	h = slices.Concat(h, payload)
	binary.BigEndian.PutUint16(h[2:], ^sum(h))
	return h
}

// icmp6 makes a message of ICMPv6.
func icmp6(from, to string, kind, code byte, word uint32, payload []byte) []byte {
	h := icmp(kind, code, word, payload)
	h[2], h[3] = 0, 0
	binary.BigEndian.PutUint16(h[2:], ^sum(pseudo(from, to, nextICMPv6, len(h)), h))
	return h
}

// extension is an IPv6 extension header of 8 bytes.
func extension(next byte) []byte { return []byte{next, 0, 1, 4, 0, 0, 0, 0} }

// fragment6 is a fragment header; offset has the flag in its lowest bit.
func fragment6(next byte, offset uint16, id uint32) []byte {
	h := []byte{next, 0, byte(offset >> 8), byte(offset), 0, 0, 0, 0}
	binary.BigEndian.PutUint32(h[4:], id)
	return h
}

func bytesOf(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i*7 + 3)
	}
	return out
}

// checked returns what is wrong with the checksums of a frame whose headers are plain.
func checked(frame []byte) error {
	ip := frame[14:]
	var from, to string
	var l4 []byte
	var proto byte
	if frame[12] == 0x08 {
		n := int(ip[0]&15) * 4
		if s := sum(ip[:n]); s != 0xffff {
			return fmt.Errorf("the IPv4 header sums up to %04x", s)
		}
		from, to = addr4(ip[12:16]), addr4(ip[16:20])
		l4, proto = ip[n:binary.BigEndian.Uint16(ip[2:])], ip[9]
	} else {
		from, to = addr6(ip[8:24]), addr6(ip[24:40])
		l4, proto = ip[40:], ip[6]
	}
	return checkedL4(from, to, proto, l4)
}

func checkedL4(from, to string, proto byte, l4 []byte) error {
	at, head := map[byte]int{nextTCP: 16, nextUDP: 6, nextICMP: 2, nextICMPv6: 2}[proto], pseudo(from, to, proto, len(l4))
	switch {
	case at == 0, proto == nextUDP && l4[6] == 0 && l4[7] == 0:
		return nil
	case proto == nextICMP:
		head = nil
	}
	if s := sum(head, l4); s != 0xffff {
		return fmt.Errorf("protocol %d sums up to %04x", proto, s)
	}
	return nil
}

func addr4(b []byte) string { return netip.AddrFrom4([4]byte(b)).String() }
func addr6(b []byte) string { return netip.AddrFrom16([16]byte(b)).String() }
