// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/pkt"
)

const (
	macA = "02:00:00:00:00:01"
	macB = "02:00:00:00:00:02"
)

func TestPacketsAreWhatTheyAreSaidToBe(t *testing.T) {
	ping := pkt.Eth(macA, macB).IPv4("10.0.0.1", "10.0.0.2").Echo(1, 1).Payload(40).Bytes()
	for text, want := range map[string][]byte{
		"ip 10.0.0.1 > 10.0.0.2 / icmp echo / payload 40":                                              ping,
		"eth " + macA + " > " + macB + " / ip 10.0.0.1 > 10.0.0.2 / icmp echo id 1 seq 1 / payload 40": ping,
		hex.EncodeToString(ping):                                                    ping,
		fmt.Sprintf("0x % x", ping):                                                 ping,
		strings.ReplaceAll(fmt.Sprintf("% x", ping), " ", ":"):                      ping,
		"arp who-has 10.0.0.2 tell 10.0.0.1":                                        pkt.Eth(macA, macB).ARPRequest(macA, "10.0.0.1", "10.0.0.2").Bytes(),
		"vlan 10 / ip 10.0.0.1 > 10.0.0.2 / udp 1000 > 53 / payload 40":             pkt.Eth(macA, macB).VLAN(10).IPv4("10.0.0.1", "10.0.0.2").UDP(1000, 53).Payload(40).Bytes(),
		`ip 10.0.0.1 > 10.0.0.2 / tcp 1000 > 80 flags A / payload "GET / HTTP/1.1"`: pkt.Eth(macA, macB).IPv4("10.0.0.1", "10.0.0.2").TCP(1000, 80, pkt.TCPFlags{ACK: true}).Data([]byte("GET / HTTP/1.1")).Bytes(),
		"ip 2001:db8::1 > 2001:db8::2 / udp 1 > 2 / payload 0x010203":               pkt.Eth(macA, macB).IPv6("2001:db8::1", "2001:db8::2").UDP(1, 2).Data([]byte{1, 2, 3}).Bytes(),
		"eth " + macA + " > ff:ff:ff:ff:ff:ff":                                      append([]byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1}, make([]byte, 48)...),
	} {
		got, err := ParsePacket(text, nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		// what describes a packet leaves the IP identification and the TCP window open
		if Summarise(got, len(got)) != Summarise(pad(want), len(pad(want))) || !bytes.Equal(got[:14], want[:14]) {
			t.Errorf("%s:\n% x, %s; want\n% x, %s", text, got, Summarise(got, len(got)), pad(want), Summarise(pad(want), len(pad(want))))
		}
	}
}

// TestAStationIsTheDestination of a description without an eth layer.
func TestAStationIsTheDestination(t *testing.T) {
	station := net.HardwareAddr{2, 0, 0, 0, 0, 0xcc}
	raw := hex.EncodeToString(pad(pkt.Eth(macA, macB).IPv4("10.0.0.1", "10.0.0.2").UDP(1, 2).Bytes()))
	for text, want := range map[string]string{
		"ip 10.0.0.1 > 10.0.0.2 / udp 1 > 2": "02:00:00:00:00:cc", "vlan 7 / payload 50": "02:00:00:00:00:cc",
		"eth " + macA + " > " + macB + " / ip 10.0.0.1 > 10.0.0.2": macB, raw: macB,
	} {
		frame, err := ParsePacket(text, station)
		if err != nil || net.HardwareAddr(frame[:6]).String() != want || net.HardwareAddr(frame[6:12]).String() != macA {
			t.Errorf("%s: % x, %v, want it sent to %s", text, frame, err, want)
		}
	}
}

func pad(frame []byte) []byte {
	return append(bytes.Clone(frame), make([]byte, max(0, minFrame-len(frame)))...)
}

func TestPacketsThatMakeNoSenseAreAnsweredWithASentence(t *testing.T) {
	for text, says := range map[string]string{
		"":                             "a layer is empty",
		"ip":                           "write ip IP > IP",
		"ip 10.0.0.1 > ::1":            "the same version",
		"ip 10.0.0.1 > 10.0.0.2 / ":    "a layer is empty",
		"ip 1.1.1.1 > 1.1.1.2 ttl 256": "256 is not a number from 0 to 255",
		"udp 1 > 2":                    "an ip layer must come right before it",
		"ip 1.1.1.1 > 1.1.1.2 / udp 1 > 2 / tcp 1 > 2": "an ip layer must come right before it",
		"ip 1.1.1.1 > 1.1.1.2 / udp 1 > 65536":         "not a number from 0 to 65535",
		"ip ::1 > ::2 / icmp echo":                     "IPv4",
		"payload 4 / ip 1.1.1.1 > 1.1.1.2":             "nothing can follow a payload",
		"vlan 4096":                                    "not a number from 0 to 4095",
		"vlan 1 / eth " + macA + " > " + macB:          "eth must come first",
		"eth x > y":                                    "x is not a MAC address",
		"quic 1 > 2":                                   "unknown layer",
		`payload "open`:                                "a quote is not closed",
		"payload 9999":                                 "not a number",
		"payload 9018":                                 "a frame has 14 to 9018",
		"0102":                                         "it has 2 bytes",
		"ip 1.1.1.1 > 1.1.1.2 / tcp 1 > 2 flags X":     "is not a flag",
		"ip fe80::1%eth0 > fe80::2":                    "two IP addresses",
		strings.Repeat("f", 1<<19):                     "longer than",
	} {
		_, err := ParsePacket(text, nil)
		if err == nil || !strings.Contains(err.Error(), says) || !errors.Is(err, cube.ErrInvalid) {
			t.Errorf("%.60s: %v, want %q", text, err, says)
		}
	}
}

func FuzzParsePacket(f *testing.F) {
	for _, seed := range []string{"ip 10.0.0.1 > 10.0.0.2 / icmp echo / payload 40", "arp who-has 1.1.1.1 tell 2.2.2.2",
		`vlan 1 / ip ::1 > ::2 / tcp 1 > 2 flags SA / payload "x"`, "00:01:02", "eth " + macA + " > " + macB} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		frame, err := ParsePacket(text, nil)
		if err != nil {
			return
		}
		if len(frame) < 14 || len(frame) > MaxInjected {
			t.Errorf("%q makes %d bytes", text, len(frame))
		}
		Summarise(frame, len(frame))
	})
}

func FuzzSummarise(f *testing.F) {
	f.Add(pkt.Eth(macA, macB).VLAN(1).IPv4("10.0.0.1", "10.0.0.2").TCP(1, 2, pkt.TCPFlags{SYN: true}).Bytes())
	f.Add(pkt.Eth(macA, macB).ARPRequest(macA, "10.0.0.1", "10.0.0.2").Bytes())
	f.Fuzz(func(t *testing.T, frame []byte) {
		if s := Summarise(frame, len(frame)); s == "" || strings.Contains(s, "\n") {
			t.Errorf("%q is no line", s)
		}
	})
}

func TestSummariesAreOneLine(t *testing.T) {
	for want, frame := range map[string]*pkt.Frame{
		"10.0.0.1 > 10.0.0.2: ICMP echo request, id 3, seq 4, length 52":     pkt.Eth(macA, macB).IPv4("10.0.0.1", "10.0.0.2").Echo(3, 4).Payload(10),
		"vlan 10, 10.0.0.1.1000 > 10.0.0.2.53: UDP, length 56":               pkt.Eth(macA, macB).VLAN(10).IPv4("10.0.0.1", "10.0.0.2").UDP(1000, 53).Payload(10),
		"10.0.0.1.1000 > 10.0.0.2.80: TCP [S], seq 0, length 54":             pkt.Eth(macA, macB).IPv4("10.0.0.1", "10.0.0.2").TCP(1000, 80, pkt.TCPFlags{SYN: true}),
		"ARP who has 10.0.0.2, tell 10.0.0.1, length 42":                     pkt.Eth(macA, macB).ARPRequest(macA, "10.0.0.1", "10.0.0.2"),
		"2001:db8::1.1 > 2001:db8::2.2: UDP, length 62":                      pkt.Eth(macA, macB).IPv6("2001:db8::1", "2001:db8::2").UDP(1, 2),
		"02:00:00:00:00:01 > 02:00:00:00:00:02, ethertype 0x88b5, length 14": pkt.Eth(macA, macB).EtherType(0x88b5),
	} {
		data := frame.Bytes()
		if got := Summarise(data, len(data)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := Summarise([]byte{1, 2}, 2); got != "not an Ethernet frame, length 2" {
		t.Errorf("two bytes: %s", got)
	}
}
