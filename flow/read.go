// SPDX-License-Identifier: Apache-2.0

package flow

// The reader, in the order of the headers.

import (
	"encoding/binary"
	"slices"
)

// EtherTypes.
const (
	typeIPv4 = 0x0800
	typeIPv6 = 0x86dd
	typeVLAN = 0x8100
	typeQinQ = 0x88a8
)

// The limits of programs: tags, extension headers and their bytes.
const (
	mostTags           = 2
	mostExtensions     = 8
	mostExtensionBytes = 256
)

// Protocols above IP, and next headers of IPv6.
const (
	protoICMP     = 1
	protoTCP      = 6
	protoFragment = 44
	protoAH       = 51
	protoICMPv6   = 58
)

// Read reads a frame whose tags are all in its bytes; false if its Ethernet header or a tag is incomplete. Lengths in
// headers are not compared with that of the frame, and checksums are not verified.
func Read(frame []byte) (Flow, bool) {
	f := Flow{VLAN: Untagged}
	if len(frame) < 14 {
		return Flow{}, false
	}
	etherType, at := binary.BigEndian.Uint16(frame[12:]), 14
	for tags := 0; tags < mostTags && (etherType == typeVLAN || etherType == typeQinQ); tags++ {
		if at+4 > len(frame) {
			return Flow{}, false
		}
		if tags == 0 {
			f.VLAN = binary.BigEndian.Uint16(frame[at:]) & 0xfff
		}
		etherType = binary.BigEndian.Uint16(frame[at+2:])
		at += 4
	}
	f.read(frame, at, etherType, false)
	return f, true
}

// ReadInner reads the packet in an ICMP error, whose flow it gets. The packet may be cut off: the flags of TCP are not
// read, and the length in its header is ignored.
func ReadInner(frame []byte, of *Flow) Flow {
	f := Flow{VLAN: Untagged}
	f.read(frame, int(of.L4)+8, binary.BigEndian.Uint16(of.EtherType[:]), true)
	return f
}

func (f *Flow) read(frame []byte, at int, etherType uint16, inner bool) {
	binary.BigEndian.PutUint16(f.EtherType[:], etherType)
	var l4 int
	switch etherType {
	case typeIPv4:
		l4 = f.ipv4(frame, at, inner)
	case typeIPv6:
		l4 = f.ipv6(frame, at)
	default:
		return
	}
	f.L3 = uint16(at)
	if l4 == 0 || l4 > len(frame) {
		return
	}
	f.Has |= L4
	f.L4 = uint16(l4)
	if f.Fragment != Later {
		f.transport(frame[l4:], inner)
	}
}

// ipv4 reads an IPv4 header, and returns where the next header begins; 0: nowhere.
func (f *Flow) ipv4(frame []byte, at int, inner bool) int {
	if len(frame) < at+20 {
		return 0
	}
	ip := frame[at:]
	length := int(ip[0]&15) * 4
	if ip[0]>>4 != 4 || length < 20 || !inner && int(binary.BigEndian.Uint16(ip[2:])) < length {
		return 0
	}
	f.Has = IP
	f.Source[10], f.Source[11], f.Destination[10], f.Destination[11] = 0xff, 0xff, 0xff, 0xff
	copy(f.Source[12:], ip[12:16])
	copy(f.Destination[12:], ip[16:20])
	f.Protocol, f.DSCP = ip[9], ip[1]>>2
	copy(f.ID[:], ip[4:6])
	switch fragment := binary.BigEndian.Uint16(ip[6:]); {
	case fragment&0x1fff != 0:
		f.Fragment = Later
	case fragment&0x2000 != 0:
		f.Fragment = First
	}
	return at + length
}

// ipv6 does the same for IPv6 and its extension headers, the last of which may be incomplete.
func (f *Flow) ipv6(frame []byte, at int) int {
	if len(frame) < at+40 || frame[at]>>4 != 6 {
		return 0
	}
	ip := frame[at:]
	f.Has = IP | IPv6
	copy(f.Source[:], ip[8:24])
	copy(f.Destination[:], ip[24:40])
	f.DSCP = (ip[0]<<4 | ip[1]>>4) >> 2
	protocol, id, fragment, first := ip[6], [4]byte{}, Whole, at+40
	at = first
	for n := 0; isExtension(protocol) && fragment != Later; n++ {
		if n == mostExtensions || at+8 > len(frame) {
			return 0
		}
		e := frame[at:]
		size := (int(e[1]) + 1) * 8
		switch protocol {
		case protoAH:
			size = (int(e[1]) + 2) * 4
		case protoFragment:
			size = 8
			copy(id[:], e[4:8])
			if offset := binary.BigEndian.Uint16(e[2:]); offset&0xfff8 != 0 {
				fragment = Later
			} else if offset&1 != 0 {
				fragment = First
			}
		}
		if at += size; at-first > mostExtensionBytes {
			return 0
		}
		protocol = e[0]
	}
	f.Protocol, f.ID, f.Fragment = protocol, id, fragment
	return at
}

// isExtension reports whether an IPv6 header of this type is followed by another one.
func isExtension(protocol uint8) bool {
	return slices.Contains([]uint8{0, 43, 44, 51, 60, 135, 139, 140}, protocol)
}

// transport reads the header after the IP header.
func (f *Flow) transport(b []byte, inner bool) {
	switch f.Protocol {
	case protoICMP, protoICMPv6:
		if (f.Protocol == protoICMPv6) != (f.Has&IPv6 != 0) || len(b) < 8 {
			return
		}
		f.Has |= ICMP
		f.ICMPType, f.ICMPCode = b[0], b[1]
		if hasID(f.Protocol, b[0]) {
			f.SourcePort, f.DestinationPort = Port(b[4:6]), Port(b[4:6])
		}
	case protoTCP, 17, 33, 132, 136:
		if len(b) < 4 {
			return
		}
		f.Has |= Ports
		f.SourcePort, f.DestinationPort = Port(b[:2]), Port(b[2:4])
		if f.Protocol == protoTCP && !inner && len(b) >= 14 {
			f.Has |= TCP
			f.TCPFlags = b[13]
		}
	}
}

// hasID reports whether an ICMP type is a query or a reply, which have an id.
func hasID(protocol, kind uint8) bool {
	if protocol == protoICMPv6 {
		return kind == 128 || kind == 129
	}
	return kind == 0 || kind == 8 || kind >= 13 && kind <= 18
}
