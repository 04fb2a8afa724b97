// SPDX-License-Identifier: Apache-2.0

package pkt

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// The expected bytes were written by hand from the RFCs; the checksums were computed by hand.
func TestHeadersAndMessagesHaveTheBytesOfTheStandards(t *testing.T) {
	const v6 = "fe80000000000000" + "0000000000000001" + "fe80000000000000" + "0000000000000002"
	header4 := IPv4Header{From: "10.0.0.1", To: "10.0.0.2", Protocol: ProtoUDP, TTL: 64}
	options, bare := header4, header4
	options.Options, options.Fragment, options.TOS, options.ID = []byte{1, 1, 1, 0}, 0x2001, 0xb8, 0x1234
	bare.NoChecksum = true
	tests := []struct {
		name string
		is   []byte
		want string
	}{
		{"an IPv4 header", header4.Packet([]byte{7}), "45000015" + "00000000" + "401166d6" + "0a000001" + "0a000002" + "07"},
		{"with options", options.Packet(nil), "46b80018" + "12342001" + "4011" + "30e5" + "0a000001" + "0a000002" + "01010100"},
		{"without a checksum", bare.Packet(nil), "45000014" + "00000000" + "40110000" + "0a000001" + "0a000002"},
		{"an IPv6 header", IPv6Header{From: "fe80::1", To: "fe80::2", Next: ProtoICMPv6, HopLimit: 255, Class: 0xb8}.Packet([]byte{7}),
			"6b800000" + "0001" + "3aff" + v6 + "07"},
		{"an extension header", IPv6Extension(ProtoTCP), "0600010400000000"},
		{"a fragment header", IPv6Fragment(ProtoUDP, 0x0009, 0xdeadbeef), "11000009deadbeef"},
		{"UDP", UDPDatagram("10.0.0.1", "10.0.0.2", 1, 2, []byte{0, 1}), "00010002000aebd30001"},
		{"UDP in IPv6", UDPDatagram("fe80::1", "fe80::2", 1, 2, nil), "000100020008" + "02d7"},
		{"UDP whose checksum is 0", UDPDatagram("10.0.0.1", "10.0.0.2", 1, 2, []byte{0xeb, 0xd4}), "00010002000affffebd4"},
		{"TCP", TCPSegment("10.0.0.1", "10.0.0.2", 1, 2, 0x12, nil), "00010002" + "00000000" + "00000000" + "50120000" + "9bcd0000"},
		{"ICMP", ICMPMessage(3, 4, 1400, []byte{7}), "0304" + "f083" + "00000578" + "07"},
		{"ICMPv6", ICMPv6Message("fe80::1", "fe80::2", 128, 0, 1<<16|2, nil), "8000" + "82b5" + "00010002"},
		{"a frame", EthernetFrame([]byte{2, 0, 0, 0, 0, 2}, []byte{2, 0, 0, 0, 0, 1}, 0x0bad, []byte{7}), "020000000002" + "020000000001" + "0bad" + "07"},
		{"a frame with tags", Tagged(Eth(one, two).Data([]byte{7}).Bytes(), 0x88a80064, 0x8100000a),
			"020000000002" + "020000000001" + "88a80064" + "8100000a" + "88b5" + "07"},
		{"a frame without", Tagged(Eth(one, two).Bytes()), "020000000002" + "020000000001" + "88b5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := hex.EncodeToString(tt.is); got != strings.ReplaceAll(tt.want, " ", "") {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// A Frame and the functions for bytes give the same packet.
func TestFramesAndBytesAgree(t *testing.T) {
	udp4 := IPv4Header{From: "10.0.0.1", To: "10.0.0.2", Protocol: ProtoUDP, TTL: 64}.Packet(UDPDatagram("10.0.0.1", "10.0.0.2", 1000, 53, []byte{0, 1, 2}))
	udp6 := IPv6Header{From: "fd00::1", To: "fd00::2", Next: ProtoUDP, HopLimit: 64}.Packet(UDPDatagram("fd00::1", "fd00::2", 1000, 53, []byte{0, 1, 2}))
	echo := IPv4Header{From: "10.0.0.1", To: "10.0.0.2", Protocol: ProtoICMP, TTL: 64}.Packet(ICMPMessage(8, 0, 7<<16|9, []byte{0, 1}))
	for name, tt := range map[string]struct {
		packet []byte
		frame  *Frame
	}{
		"UDP":           {udp4, Eth(one, two).IPv4("10.0.0.1", "10.0.0.2").UDP(1000, 53).Payload(3)},
		"UDP in IPv6":   {udp6, Eth(one, two).IPv6("fd00::1", "fd00::2").UDP(1000, 53).Payload(3)},
		"an echo":       {echo, Eth(one, two).IPv4("10.0.0.1", "10.0.0.2").Echo(7, 9).Payload(2)},
		"by its number": {echo, Eth(one, two).IPv4("10.0.0.1", "10.0.0.2").Protocol(ProtoICMP).Data(echo[20:])},
	} {
		if got, want := tt.frame.Bytes(), Eth(one, two).IP(tt.packet).Bytes(); !bytes.Equal(got, want) {
			t.Errorf("%s: the frame is\n     %x\nnot  %x", name, got, want)
		}
	}
}

func TestAHopTakesOneFromTheTTL(t *testing.T) {
	for name, tt := range map[string]struct{ before, after *Frame }{
		"IPv4": {Eth(one, two).IPv4("10.0.0.1", "10.0.0.2", IPv4Options{TTL: 9}).Payload(8), Eth(one, two).IPv4("10.0.0.1", "10.0.0.2", IPv4Options{TTL: 8}).Payload(8)},
	} {
		frame := tt.before.Bytes()
		if got := Hop(frame); !bytes.Equal(got, tt.after.Bytes()) || !bytes.Equal(frame, tt.before.Bytes()) {
			t.Errorf("%s: the frame is %x, want %x", name, got, tt.after.Bytes())
		}
	}
	six := Eth(one, two).IPv6("fd00::1", "fd00::2").Payload(8).Bytes()
	if got := Hop(six); got[21] != 63 || six[21] != 64 {
		t.Errorf("IPv6: the hop limit is %d, and was %d", got[21], six[21])
	}
}

func TestSumsOfOddPartsArePadded(t *testing.T) {
	if got := Sum([]byte{1}, []byte{0, 2, 3}); got != 0x0402 {
		t.Errorf("the sum is %#x, want 0x402", got)
	}
	if got := Sum(bytes.Repeat([]byte{0xff}, 1<<17)); got != 0xffff {
		t.Errorf("the sum of ones is %#x, want 0xffff", got)
	}
}
