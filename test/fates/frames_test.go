// SPDX-License-Identifier: Apache-2.0

package fates

// Frames similar to those that a cube expects: each is one of those with a few errors at places that parsers read.

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/polycube/polycube/test/pkt"
)

// Addresses of the hosts of a setup, by their number from 1.
var (
	macs = []string{"", "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03"}
	v4   = []string{"", "10.0.1.2", "10.0.2.2", "10.0.3.2"}
	v6   = []string{"", "fd00:1::2", "fd00:2::2", "fd00:3::2"}
)

// cubeMACs are the MAC addresses of the ports of a cube with addresses, by number from 1.
var cubeMACs = []string{"", "02:00:00:00:01:01", "02:00:00:00:01:02", "02:00:00:00:01:03"}

// meant are frames that make sense, from host 1.
func meant() [][]byte {
	var out [][]byte
	for _, to := range []string{macs[2], cubeMACs[1], pkt.Broadcast, "01:80:c2:00:00:00", "33:33:ff:00:00:01", "01:00:5e:00:00:05"} {
		eth := func() *pkt.Frame { return pkt.Eth(macs[1], to) }
		out = append(out,
			eth().IPv4(v4[1], v4[2]).UDP(1000, 53).Payload(40).Bytes(),
			eth().IPv4(v4[1], v4[2]).TCP(1000, 80, pkt.TCPFlags{SYN: true}).Bytes(),
			eth().IPv4(v4[1], v4[2], pkt.IPv4Options{MoreFragments: true, ID: 7}).UDP(1000, 53).Payload(40).Bytes(),
			eth().IPv4(v4[1], v4[2], pkt.IPv4Options{Offset: 6, ID: 7}).Payload(40).Bytes(),
			eth().IPv4(v4[1], v4[2], pkt.IPv4Options{TTL: 1}).UDP(1000, 53).Payload(600).Bytes(),
			eth().IPv4(v4[1], "10.0.1.1").Echo(1, 1).Payload(32).Bytes(),
			eth().IPv4(v4[1], "224.0.0.5").Payload(48).Bytes(),
			eth().ARPRequest(macs[1], v4[1], "10.0.1.1").Bytes(),
			eth().IPv6(v6[1], v6[2]).UDP(1000, 53).Payload(40).Bytes(),
			eth().IPv6(v6[1], v6[2]).TCP(1000, 80, pkt.TCPFlags{ACK: true}).Payload(40).Bytes(),
			eth().VLAN(10).IPv4(v4[1], v4[2]).UDP(1000, 53).Payload(40).Bytes(),
			eth().ServiceVLAN(20).VLAN(10).IPv6(v6[1], v6[2]).UDP(1000, 53).Payload(40).Bytes(),
			eth().Data(bpdu).Bytes(),
			icmp4Error(eth()), icmp6(eth(), 135), icmp6(eth(), 2), extensions(eth()),
		)
	}
	return out
}

// bpdu is LLC and a configuration BPDU of 802.1D.
var bpdu = append([]byte{0, 38, 0x42, 0x42, 3}, make([]byte, 35)...)

// icmp4Error is "port unreachable" about a datagram that host 1 got from host 2.
func icmp4Error(f *pkt.Frame) []byte {
	about := pkt.Eth(macs[2], macs[1]).IPv4(v4[2], v4[1]).UDP(53, 1000).Payload(8).Bytes()[14:]
	b := f.IPv4(v4[1], v4[2]).Echo(0, 0).Data(about).Bytes()
	b[34], b[35] = 3, 3
	return b
}

// icmp6 is an ICMPv6 message of a type, with the data of that type after its header.
func icmp6(f *pkt.Frame, kind byte) []byte {
	about := pkt.Eth(macs[2], macs[1]).IPv6(v6[2], v6[1]).UDP(53, 1000).Payload(8).Bytes()[14:]
	return f.IPv6(v6[1], v6[2]).Protocol(pkt.ProtoICMPv6).Data(append([]byte{kind, 0, 0, 0, 0, 0, 5, 0}, about...)).Bytes()
}

// extensions is a datagram after extension headers: hop by hop, destination options, a first fragment.
func extensions(f *pkt.Frame) []byte {
	return f.IPv6(v6[1], v6[2]).Protocol(pkt.NextHopByHop).Data([]byte{60, 0, 1, 4, 0, 0, 0, 0, 44, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 1, 0, 0, 0, 9,
		3, 232, 0, 53, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}).Bytes()
}

// wrong returns a frame with a few errors.
func wrong(rng *rand.Rand, frame []byte) []byte {
	b := slices.Clone(frame)
	for range 1 + rng.IntN(4) {
		b = faults[rng.IntN(len(faults))](rng, b)
	}
	// The kernel's test run requires a byte after the Ethernet header, and an IP header if the type says so.
	least := 15
	switch [2]byte(append(b, make([]byte, 14)...)[12:]) {
	case [2]byte{0x08, 0x00}:
		least = 14 + 20
	case [2]byte{0x86, 0xdd}:
		least = 14 + 40
	}
	return append(b, make([]byte, max(0, least-len(b)))...)
}

// head is the number of bytes that parsers read.
const head = 96

var faults = []func(*rand.Rand, []byte) []byte{
	func(rng *rand.Rand, b []byte) []byte { // a bit
		b[rng.IntN(min(len(b), head))] ^= 1 << rng.IntN(8)
		return b
	},
	func(rng *rand.Rand, b []byte) []byte { // a byte at a limit
		b[rng.IntN(min(len(b), head))] = []byte{0, 1, 0x7f, 0x80, 0xff}[rng.IntN(5)]
		return b
	},
	func(rng *rand.Rand, b []byte) []byte { // a number at a limit
		at := rng.IntN(min(len(b), head) - 1)
		binary.BigEndian.PutUint16(b[at:], []uint16{0, 1, 0x0800, 0x86dd, 0x8100, 0x7fff, 0xffff}[rng.IntN(7)])
		return b
	},
	func(rng *rand.Rand, b []byte) []byte { return b[:max(14, rng.IntN(len(b)+1))] }, // the end is missing
	func(rng *rand.Rand, b []byte) []byte { return append(b, make([]byte, rng.IntN(64))...) },
	func(rng *rand.Rand, b []byte) []byte { // a header length
		if len(b) > 14 {
			b[14] = b[14]&0xf0 | byte(rng.IntN(16))
		}
		return b
	},
	func(rng *rand.Rand, b []byte) []byte { // a protocol
		if at := []int{14 + 9, 14 + 6}[rng.IntN(2)]; len(b) > at {
			b[at] = []byte{0, 1, 6, 17, 41, 43, 44, 47, 50, 51, 58, 59, 60, 89, 132, 255}[rng.IntN(16)]
		}
		return b
	},
	func(rng *rand.Rand, b []byte) []byte { // a tag
		tag := []byte{0x81, 0, byte(rng.IntN(256)), byte(rng.IntN(256))}
		if rng.IntN(3) == 0 {
			tag[0], tag[1] = 0x88, 0xa8
		}
		return slices.Insert(b, 12, tag...)
	},
	func(rng *rand.Rand, b []byte) []byte { // remove a tag, or other bytes
		if len(b) < 18 {
			return b
		}
		return slices.Delete(b, 12, 16)
	},
	func(rng *rand.Rand, b []byte) []byte { // a packet in itself
		if len(b) < 40 || len(b) > 600 {
			return b
		}
		return append(b[:14+rng.IntN(26)], frameBody(b)...)
	},
}

func frameBody(b []byte) []byte { return slices.Clone(b[14:]) }
