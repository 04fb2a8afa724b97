// SPDX-License-Identifier: Apache-2.0

package classifier

// Reads the fields of a packet in Go, as the fast path does: the oracle for tests, and used to find the matching rule
// of a packet.

import "encoding/binary"

// Key contains the fields that rules match, as pcn_classify_read reads them from a packet.
type Key [words]uint64

// KeyOf reads a frame received on a port; false if it has no Ethernet header. A VLAN tag is in the packet data. mark is
// the traffic class.
func KeyOf(frame []byte, inPort uint16, mark uint32) (Key, bool) {
	var k Key
	if len(frame) < 14 {
		return k, false
	}
	k[wordDestinationMAC], k[wordSourceMAC] = number(frame[:6]), number(frame[6:12])
	k[wordMark] = uint64(mark)
	vlan, ethertype, rest := uint64(untagged), binary.BigEndian.Uint16(frame[12:]), frame[14:]
	for range 2 {
		if ethertype != 0x8100 && ethertype != 0x88a8 || len(rest) < 4 {
			break
		}
		if vlan == untagged {
			vlan = uint64(binary.BigEndian.Uint16(rest)) & 0xfff
		}
		ethertype, rest = binary.BigEndian.Uint16(rest[2:]), rest[4:]
	}
	k[wordLink] = uint64(inPort)<<48 | vlan<<32 | uint64(ethertype)<<16
	switch ethertype {
	case 0x0800:
		k.ipv4(rest)
	case 0x86dd:
		k.ipv6(rest)
	}
	return k, true
}

func (k *Key) ipv4(b []byte) {
	if len(b) < 20 || b[0]>>4 != 4 || b[0]&15 < 5 || int(binary.BigEndian.Uint16(b[2:])) < int(b[0]&15)*4 {
		return
	}
	k[wordLink] |= kindIP
	k[wordSource], k[wordDestination] = number(b[12:16])<<32, number(b[16:20])<<32
	k[wordPorts] = uint64(b[1]>>2) << 16
	fragment := binary.BigEndian.Uint16(b[6:])
	header := b[min(int(b[0]&15)*4, len(b)):]
	k.transport(b[9], header, fragment&0x3fff != 0, fragment&0x1fff != 0)
}

func (k *Key) ipv6(b []byte) {
	if len(b) < 40 || b[0]>>4 != 6 {
		return
	}
	k[wordLink] |= kindIP | kindIPv6
	k[wordSource], k[wordSourceLow] = number(b[8:16]), number(b[16:24])
	k[wordDestination], k[wordDestinationLow] = number(b[24:32]), number(b[32:40])
	k[wordPorts] = uint64((b[0]<<4|b[1]>>4)>>2) << 16
	protocol, rest, skipped, isFragment, isLater := b[6], b[40:], 0, false, false
	for headers := 0; isExtension(protocol) && !isLater; headers++ {
		if headers == 8 || len(rest) < 8 {
			return
		}
		size := (int(rest[1]) + 1) * 8
		switch protocol {
		case 44:
			size = 8
			offset := binary.BigEndian.Uint16(rest[2:])
			isLater = offset&0xfff8 != 0
			isFragment = isFragment || offset&0xfff9 != 0
		case 51:
			size = (int(rest[1]) + 2) * 4
		}
		if skipped += size; skipped > 256 || size > len(rest) {
			return
		}
		protocol, rest = rest[0], rest[size:]
	}
	k.transport(protocol, rest, isFragment, isLater)
}

// isExtension reports whether an IPv6 header of this type is followed by another one.
func isExtension(protocol uint8) bool {
	switch protocol {
	case 0, 43, 44, 51, 60, 135, 139, 140:
		return true
	}
	return false
}

func (k *Key) transport(protocol uint8, b []byte, isFragment, isLater bool) {
	k[wordLink] |= uint64(protocol)<<8 | kindProtocol
	if isFragment {
		k[wordLink] |= kindFragment
	}
	switch protocol {
	case 6, 17, 33, 132, 136:
	default:
		return
	}
	if isLater || len(b) < 4 {
		return
	}
	k[wordLink] |= kindPorts
	k[wordPorts] |= number(b[:4]) << 32
	if protocol == 6 && len(b) >= 14 {
		k[wordPorts] |= uint64(b[13]) << 24
	}
}
