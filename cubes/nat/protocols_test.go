// SPDX-License-Identifier: Apache-2.0

package nat

// Protocols whose ports are unknown, or cannot be changed.

import (
	"fmt"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
)

func TestProtocolsWithoutPorts(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		config := `{"behaviour":{"other-protocols":%q},"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"},
			{"id":2,"internal-net":"fd00::/64","external-ip":"2001:db8::1"}]},"dnat":{"entry":[{"id":1,"external-ip":"203.0.113.2","internal-ip":"10.0.0.8"}]}}}`
		esp := func(from, to string) []byte { return plain4(from, to, nextESP, bytesOf(40)) }
		b := newBench(t, l, fmt.Sprintf(config, "translate"))
		b.steps(
			step{"translate: out", false, outFrame(esp(host, other)), outFrame(esp(ours, other)), ""},
			step{"translate: its answer", true, inFrame(esp(other, ours)), inFrame(esp(other, host)), ""},
			step{"translate: another host to the same", false, outFrame(esp("10.0.0.9", other)), nil, "endpoint-taken"},
			step{"translate: another host to another", false, outFrame(esp("10.0.0.9", "198.51.100.9")), outFrame(esp(ours, "198.51.100.9")), ""},
			step{"translate: in", true, inFrame(esp(other, "203.0.113.2")), inFrame(esp(other, "10.0.0.8")), ""},
			step{"translate: IPv6", false, outFrame(ip6(host6, other6, nextESP, bytesOf(40))), outFrame(ip6(ours6, other6, nextESP, bytesOf(40))), ""},
			same("translate: no rule", false, outFrame(esp("10.9.0.7", other))),
		)
		l.Set("PATCH", "n behaviour", `{"other-protocols":"drop"}`)
		b.steps(
			step{"drop: out", false, outFrame(esp(host, "198.51.100.2")), nil, "protocol"},
			step{"drop: in", true, inFrame(esp("198.51.100.2", "203.0.113.2")), nil, "protocol"},
			same("drop: no rule", false, outFrame(esp("10.9.0.7", other))),
			same("drop: no rule on the way in", true, inFrame(esp("198.51.100.2", ours))),
		)
		l.Set("PATCH", "n behaviour", `{"other-protocols":"pass"}`)
		b.steps(
			same("pass: out", false, outFrame(esp(host, "198.51.100.2"))),
			same("pass: in", true, inFrame(esp("198.51.100.2", "203.0.113.2"))),
		)
	})
}

// ICMP without an id belongs to no session, not even to one with id 0.
func TestICMPWithoutAnIDIsOfNoSession(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, `{"behaviour":{"other-protocols":"pass"},"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"},
			{"id":2,"internal-net":"fd00::/64","external-ip":"2001:db8::1"}]}}}`)
		message := func(from, to string, kind byte) []byte {
			return plain4(from, to, nextICMP, icmp(kind, 0, 0, bytesOf(8)))
		}
		message6 := func(from, to string, kind byte) []byte {
			return ip6(from, to, nextICMPv6, icmp6(from, to, kind, 0, 0, bytesOf(8)))
		}
		b.steps(
			step{"echo with id 0", false, outFrame(message(host, other, 8)), outFrame(message(ours, other, 8)), ""},
			step{"its answer", true, inFrame(message(other, ours, 0)), inFrame(message(other, host, 0)), ""},
			same("another message", false, outFrame(message(host, other, 40))),
			same("another message from outside", true, inFrame(message(other, ours, 40))),
			step{"echo of IPv6 with id 0", false, outFrame(message6(host6, other6, 128)), outFrame(message6(ours6, other6, 128)), ""},
			same("another message of IPv6", false, outFrame(message6(host6, other6, 160))),
			same("another message of IPv6 from outside", true, inFrame(message6(other6, ours6, 160))),
		)
		l.Set("PATCH", "n behaviour", `{"other-protocols":"translate"}`)
		b.steps(step{"another message that cannot be translated", false, outFrame(message(host, other, 40)), nil, "protocol"})
	})
}

// The checksum of SCTP (a CRC over all of the packet) does not cover addresses, but ports.
func TestSCTPKeepsItsPorts(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"}]},
			"dnat":{"entry":[{"id":1,"external-ip":"203.0.113.2","internal-ip":"10.0.0.8"}]}}}`)
		sctp := func(from, to string, sport, dport byte) []byte {
			return plain4(from, to, nextSCTP, append([]byte{0, sport, 0, dport, 0, 0, 0, 1, 0xca, 0xfe, 0xba, 0xbe}, bytesOf(20)...))
		}
		b.steps(
			step{"out", false, outFrame(sctp(host, other, 50, 60)), outFrame(sctp(ours, other, 50, 60)), ""},
			step{"its answer", true, inFrame(sctp(other, ours, 60, 50)), inFrame(sctp(other, host, 60, 50)), ""},
			step{"another host from the same port", false, outFrame(sctp("10.0.0.9", other, 50, 60)), nil, "endpoint-taken"},
			step{"another host to another remote", false, outFrame(sctp("10.0.0.9", "198.51.100.2", 50, 60)), outFrame(sctp(ours, "198.51.100.2", 50, 60)), ""},
			step{"in", true, inFrame(sctp(other, "203.0.113.2", 60, 50)), inFrame(sctp(other, "10.0.0.8", 60, 50)), ""},
		)
	})
}
