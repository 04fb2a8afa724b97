// SPDX-License-Identifier: Apache-2.0

// Package flow reads a frame from Ethernet to the ports, as <pcn/flow.h> does in programs: tags, IP with options and
// extension headers, fragments, ICMP. Flow is struct pcn_flow, so programs and Go code can share maps with flows in
// them.
package flow

import (
	"encoding/binary"

	"github.com/polycube/polycube/inet"
)

// Has are the headers of a packet: enum pcn_flow_has.
type Has uint8

// The headers that a packet has.
const (
	IPv6  Has = 0x80 // the IP header is one of IPv6
	IP    Has = 0x40 // the fixed IP header: addresses, DSCP, L3, fragment
	L4    Has = 0x20 // all options or extension headers: protocol, L4
	Ports Has = 0x10 // the ports; later fragments have none
	TCP   Has = 0x08 // the flags of TCP
	ICMP  Has = 0x04 // the first eight bytes of ICMP, or of ICMPv6
)

// Fragment is which part of a packet a frame contains: enum pcn_fragment.
type Fragment uint8

// The parts of a packet.
const (
	Whole Fragment = iota
	First          // the beginning: it has ports
	Later          // a later part: it has no headers after the IP header
)

// Untagged is the VLAN of an untagged packet.
const Untagged = 0xffff

// Port is a port, or the id of an ICMP query, in the byte order of the packet.
type Port [2]byte

// Number is the port as a number.
func (p Port) Number() uint16 { return binary.BigEndian.Uint16(p[:]) }

// Flow is a packet: struct pcn_flow. What the packet does not have is zero.
type Flow struct {
	Source, Destination         inet.Address
	SourcePort, DestinationPort Port // both are the id of an ICMP query or its reply
	VLAN                        uint16
	Protocol                    uint8
	Zero                        uint8
	EtherType                   [2]byte // after the tags, in the byte order of the packet
	Has                         Has
	Fragment                    Fragment
	TCPFlags                    uint8
	DSCP                        uint8
	ICMPType                    uint8
	ICMPCode                    uint8
	ID                          [4]byte // of the fragments of a datagram; of IPv4 in the first two bytes, also for whole packets
	L3, L4                      uint16  // bytes from the start of the frame to the IP header, and to the header after it
}

// Hash is the hash of a flow, never 0: of its addresses, ports and protocol. All fragments of a datagram have the same,
// which only depends on the addresses.
func (f *Flow) Hash() uint32 {
	h := mix(fold(f.Source), fold(f.Destination))
	if f.Fragment == Whole {
		h = mix(h, uint32(binary.NativeEndian.Uint16(f.SourcePort[:]))|uint32(binary.NativeEndian.Uint16(f.DestinationPort[:]))<<16)
		h = mix(h, uint32(f.Protocol))
	}
	return max(h, 1)
}

func mix(hash, word uint32) uint32 {
	hash = (hash ^ word) * 0x85ebca6b
	return hash ^ hash>>15
}

func fold(a inet.Address) uint32 {
	half := func(b []byte) uint64 {
		return uint64(binary.NativeEndian.Uint32(b))<<32 | uint64(binary.NativeEndian.Uint32(b[4:]))
	}
	return uint32((half(a[:8])*0x9e3779b97f4a7c15 ^ half(a[8:])*0xc2b2ae3d27d4eb4f) >> 32)
}
