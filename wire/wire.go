// SPDX-License-Identifier: Apache-2.0

package wire

// Ethernet, and checksums.

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"

	"github.com/polycube/polycube/inet"
)

// Sizes of headers in bytes.
const (
	ethLen  = 14
	ipv4Len = 20
	ipv6Len = 40
)

// EtherTypes.
const (
	EtherIPv4 = 0x0800
	EtherARP  = 0x0806
	EtherIPv6 = 0x86dd
)

// Protocol numbers.
const (
	ProtoICMP   = uint8(inet.ICMP)
	ProtoTCP    = uint8(inet.TCP)
	ProtoUDP    = uint8(inet.UDP)
	ProtoICMPv6 = uint8(inet.ICMPv6)
)

// ErrMalformed is returned for a packet that violates the rules of its protocol.
var ErrMalformed = errors.New("malformed packet")

// MAC is an Ethernet address.
type MAC [6]byte

// Broadcast is the address of all stations.
var Broadcast = MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// String returns the form of the model, in lower case.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// Station reports whether the address can be that of a single station.
func (m MAC) Station() bool { return m != MAC{} && m[0]&1 == 0 }

// Multicast returns the destination of frames to a group (RFC 1112 6.4, RFC 2464 7).
func Multicast(group netip.Addr) MAC {
	if group.Is4() {
		a := group.As4()
		return MAC{0x01, 0x00, 0x5e, a[1] & 0x7f, a[2], a[3]}
	}
	a := group.As16()
	return MAC{0x33, 0x33, a[12], a[13], a[14], a[15]}
}

// LinkLocal returns the link-local address derived from a MAC address (RFC 4291, appendix A).
func LinkLocal(m MAC) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]})
}

// SolicitedNode returns the group in which a station with the address receives solicitations (RFC 4291 2.7.1).
func SolicitedNode(a netip.Addr) netip.Addr {
	b := a.As16()
	return netip.AddrFrom16([16]byte{0: 0xff, 1: 0x02, 11: 1, 12: 0xff, 13: b[13], 14: b[14], 15: b[15]})
}

// ethernet writes an Ethernet header.
func ethernet(to, from MAC, etherType uint16) []byte {
	b := make([]byte, ethLen, 128)
	copy(b, to[:])
	copy(b[6:], from[:])
	binary.BigEndian.PutUint16(b[12:], etherType)
	return b
}

// EtherType returns the EtherType of an untagged frame, 0 for one that is too short.
func EtherType(frame []byte) uint16 {
	if len(frame) < ethLen {
		return 0
	}
	return binary.BigEndian.Uint16(frame[12:])
}

// Source returns the source address of a frame.
func Source(frame []byte) (m MAC) {
	if len(frame) >= ethLen {
		copy(m[:], frame[6:])
	}
	return m
}

// Destination returns the destination address of a frame.
func Destination(frame []byte) (m MAC) {
	if len(frame) >= ethLen {
		copy(m[:], frame)
	}
	return m
}

// sum adds bytes to an Internet checksum (RFC 1071) that is not folded yet.
func sum(acc uint32, b []byte) uint32 {
	for len(b) >= 2 {
		acc += uint32(binary.BigEndian.Uint16(b))
		b = b[2:]
		if acc >= 1<<31 { // 64 KB of ones do not reach this, more may
			acc = acc&0xffff + acc>>16
		}
	}
	if len(b) == 1 {
		acc += uint32(b[0]) << 8
	}
	return acc
}

// fold finishes a checksum.
func fold(acc uint32) uint16 {
	for acc > 0xffff {
		acc = acc&0xffff + acc>>16
	}
	return ^uint16(acc)
}

// pseudo returns the sum of the IPv6 pseudo header (RFC 8200 8.1).
func pseudo(src, dst netip.Addr, length int, proto uint8) uint32 {
	s, d := src.As16(), dst.As16()
	return sum(sum(uint32(length)+uint32(proto), s[:]), d[:])
}

// replace returns a checksum after a word of the data that it covers changed (RFC 1624, equation 3).
func replace(check, old, now uint16) uint16 {
	return fold(uint32(^check) + uint32(^old) + uint32(now))
}
