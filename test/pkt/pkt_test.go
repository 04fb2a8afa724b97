// SPDX-License-Identifier: Apache-2.0

package pkt

import (
	"encoding/hex"
	"strings"
	"testing"
)

const one, two = "02:00:00:00:00:01", "02:00:00:00:00:02"

// The expected bytes were written by hand from the RFCs; the checksums were computed by hand.
func TestFramesHaveTheBytesOfTheStandards(t *testing.T) {
	const header = "020000000002" + "020000000001"
	tests := []struct {
		name  string
		frame *Frame
		want  string
	}{
		{"a bare header", Eth(one, two), header + "88b5"},
		{"a type of its own", Eth(one, two).EtherType(0x0bad).Payload(2), header + "0bad" + "0001"},
		{"a VLAN tag", Eth(one, two).VLAN(10).Payload(1), header + "8100" + "000a" + "88b5" + "00"},
		{"a priority", Eth(one, two).PriorityVLAN(10, 5), header + "8100" + "a00a" + "88b5"},
		{"two tags", Eth(one, two).ServiceVLAN(100).VLAN(10).Data([]byte{7}), header + "88a8" + "0064" + "8100" + "000a" + "88b5" + "07"},
		{"an ARP request", Eth(one, Broadcast).ARPRequest(one, "10.0.0.1", "10.0.0.2"),
			"ffffffffffff" + "020000000001" + "0806" + "0001080006040001" + "020000000001" + "0a000001" + "000000000000" + "0a000002"},
		{"an ARP reply", Eth(two, one).ARPReply(two, "10.0.0.2", one, "10.0.0.1"),
			"020000000001" + "020000000002" + "0806" + "0001080006040002" + "020000000002" + "0a000002" + "020000000001" + "0a000001"},
		{"a protocol by its number", Eth(one, two).IPv6("fe80::1", "fe80::2").Protocol(58).Data([]byte{7}),
			header + "86dd" + "6000000000013a40" + "fe80000000000000" + "0000000000000001" + "fe80000000000000" + "0000000000000002" + "07"},
		{"UDP in IPv4", Eth(one, two).IPv4("10.0.0.1", "10.0.0.2").UDP(1, 2).Payload(2),
			header + "0800" + "4500001e00000000401166cd0a0000010a000002" + "00010002000aebd3" + "0001"},
		{"a fragment", Eth(one, two).IPv4("10.0.0.1", "10.0.0.2", IPv4Options{MoreFragments: true, Offset: 1, ID: 1, TTL: 1}).Payload(1),
			header + "0800" + "45000015000120010" + "1fd" + "84e80a0000010a000002" + "00"},
		{"UDP in IPv6 behind a tag", Eth(one, two).VLAN(1).IPv6("fe80::1", "fe80::2").UDP(1, 2),
			header + "8100" + "0001" + "86dd" + "6000000000081140" + "fe80000000000000" + "0000000000000001" + "fe80000000000000" + "0000000000000002" + "000100020008" + "02d7"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := hex.EncodeToString(tt.frame.Bytes()); got != strings.ReplaceAll(tt.want, " ", "") {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestChecksumsAddUp(t *testing.T) {
	ip := Eth(one, two).IPv4("192.168.1.1", "8.8.8.8").TCP(40000, 443, TCPFlags{SYN: true, Seq: 1}).Payload(33).Bytes()[14:]
	pseudo := append([]byte{}, ip[12:20]...)
	pseudo = append(pseudo, 0, 6, 0, byte(len(ip)-20))
	echo := Eth(one, two).IPv4("1.1.1.1", "2.2.2.2").Echo(1, 2).Payload(9).Bytes()[34:]
	for name, data := range map[string][]byte{"IPv4 header": ip[:20], "TCP": append(pseudo, ip[20:]...), "ICMP": echo} {
		if got := Sum(data); got != 0xffff {
			t.Errorf("%s: the sum is %#x, want 0xffff", name, got)
		}
	}
}

func TestMistakesOfATestPanic(t *testing.T) {
	for name, build := range map[string]func(){
		"no MAC address":          func() { Eth("x", two) },
		"transport without IP":    func() { Eth(one, two).UDP(1, 2) },
		"protocol without IP":     func() { Eth(one, two).Protocol(1) },
		"no IP address":           func() { Eth(one, two).IPv4("10.0.0", "10.0.0.1") },
		"an IPv6 address as IPv4": func() { Eth(one, two).IPv4("::1", "::2").Bytes() },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			build()
		})
	}
}
