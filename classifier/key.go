// SPDX-License-Identifier: Apache-2.0

package classifier

// The fields of a packet in Go, as the fast path reads them: the oracle for tests, and used to find the matching rule of
// a packet.

import (
	"encoding/binary"
	"net/netip"

	"github.com/polycube/polycube/flow"
)

// Key contains the fields that rules match, as pcn_classify_read reads them from a packet.
type Key [words]uint64

// KeyOf reads a frame received on a port; false if its Ethernet header or a VLAN tag is incomplete. All VLAN tags are in
// the packet data. mark is the traffic class.
func KeyOf(frame []byte, inPort uint16, mark uint32) (Key, bool) {
	f, ok := flow.Read(frame)
	if !ok {
		return Key{}, false
	}
	k := Key{wordDestinationMAC: number(frame[:6]), wordSourceMAC: number(frame[6:12]), wordMark: uint64(mark)}
	k[wordLink] = uint64(inPort)<<48 | uint64(f.VLAN)<<32 | number(f.EtherType[:])<<16 | uint64(f.Protocol)<<8 | uint64(f.Has)
	if f.Fragment != flow.Whole {
		k[wordLink] |= kindFragment
	}
	if f.Has&flow.IPv6 != 0 {
		k[wordSource], k[wordSourceLow] = number(f.Source[:8]), number(f.Source[8:])
		k[wordDestination], k[wordDestinationLow] = number(f.Destination[:8]), number(f.Destination[8:])
	} else {
		k[wordSource], k[wordDestination] = number(f.Source[12:])<<32, number(f.Destination[12:])<<32
	}
	ports := number(f.SourcePort[:])<<16 | number(f.DestinationPort[:])
	if f.Has&flow.ICMP != 0 {
		ports = uint64(f.ICMPType)<<8 | uint64(f.ICMPCode)
	}
	k[wordPorts] = ports<<32 | uint64(f.TCPFlags)<<24 | uint64(f.DSCP)<<16
	return k, true
}

// address returns the address of an IP packet that begins in a word.
func (k *Key) address(word int) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], k[word])
	binary.BigEndian.PutUint64(b[8:], k[word+wordSourceLow-wordSource])
	if k[wordLink]&kindIPv6 == 0 {
		return netip.AddrFrom4([4]byte(b[:4]))
	}
	return netip.AddrFrom16(b)
}
