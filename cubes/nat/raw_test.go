// SPDX-License-Identifier: Apache-2.0

package nat

// Packets in packets and fragments, and a check of all checksums in a packet.

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/test/pkt"
)

// raw is a frame sent unchanged.
type raw []byte

func (r raw) Bytes() []byte { return r }

const (
	nextICMP, nextTCP, nextUDP, nextESP, nextICMPv6, nextSCTP = pkt.ProtoICMP, pkt.ProtoTCP, pkt.ProtoUDP, pkt.ProtoESP, pkt.ProtoICMPv6, pkt.ProtoSCTP
	nextFragment, nextHopByHop                                = pkt.NextFragment, pkt.NextHopByHop
)

func outFrame(ip []byte) raw { return frameOf(1, 2, ip) }
func inFrame(ip []byte) raw  { return frameOf(2, 1, ip) }

// frameOf puts an IP packet into a frame between the stations 02:00:00:00:00:0x.
func frameOf(from, to byte, ip []byte) raw {
	const station = "02:00:00:00:00:%02x"
	return pkt.Eth(fmt.Sprintf(station, from), fmt.Sprintf(station, to)).IP(ip).Bytes()
}

// ip4 creates an IPv4 packet; offset includes the flags and the fragment offset.
func ip4(from, to string, proto byte, id, offset uint16, options, payload []byte) []byte {
	return pkt.IPv4Header{From: from, To: to, Protocol: proto, TTL: 64, ID: id, Fragment: offset, Options: options}.Packet(payload)
}

func plain4(from, to string, proto byte, payload []byte) []byte {
	return ip4(from, to, proto, 0, 0, nil, payload)
}

// ip6 creates an IPv6 packet; next is the type of the first header in the payload.
func ip6(from, to string, next byte, payload []byte) []byte {
	return pkt.IPv6Header{From: from, To: to, Next: next, HopLimit: 64}.Packet(payload)
}

// The tables of these tests are dense: short names for the contents of packets.
var (
	udp       = pkt.UDPDatagram
	tcp4      = pkt.TCPSegment
	icmp      = pkt.ICMPMessage
	icmp6     = pkt.ICMPv6Message
	extension = pkt.IPv6Extension
	fragment6 = pkt.IPv6Fragment
)

func bytesOf(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(i*7 + 3)
	}
	return out
}

// checked returns what is wrong with the checksums of a frame with plain headers.
func checked(frame []byte) error {
	ip := frame[14:]
	var from, to string
	var l4 []byte
	var proto byte
	if frame[12] == 0x08 {
		n := int(ip[0]&15) * 4
		if s := pkt.Sum(ip[:n]); s != 0xffff {
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
	at, head := map[byte]int{nextTCP: 16, nextUDP: 6, nextICMP: 2, nextICMPv6: 2}[proto], pkt.PseudoHeader(from, to, proto, len(l4))
	switch {
	case at == 0, proto == nextUDP && l4[6] == 0 && l4[7] == 0:
		return nil
	case proto == nextICMP:
		head = nil
	}
	if s := pkt.Sum(head, l4); s != 0xffff {
		return fmt.Errorf("protocol %d sums up to %04x", proto, s)
	}
	return nil
}

func addr4(b []byte) string { return netip.AddrFrom4([4]byte(b)).String() }
func addr6(b []byte) string { return netip.AddrFrom16([16]byte(b)).String() }
