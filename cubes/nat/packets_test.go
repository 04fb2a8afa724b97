// SPDX-License-Identifier: Apache-2.0

package nat

// Packets of each kind of rule, byte for byte, at both hooks.

import (
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

const snat = `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"},
	{"id":2,"internal-net":"fd00::/64","external-ip":"2001:db8::1"}]}}}`

func TestSourceNAT(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, snat)
		syn, ack := pkt.TCPFlags{SYN: true}, pkt.TCPFlags{SYN: true, ACK: true}
		b.steps(
			step{"TCP out", false, out4("10.0.0.7", "198.51.100.1").TCP(4000, 80, syn), out4("203.0.113.1", "198.51.100.1").TCP(4000, 80, syn), ""},
			step{"its answer", true, in4("198.51.100.1", "203.0.113.1").TCP(80, 4000, ack), in4("198.51.100.1", "10.0.0.7").TCP(80, 4000, ack), ""},
			step{"UDP out", false, out4("10.0.0.7", "198.51.100.1").UDP(4000, 53).Payload(9), out4("203.0.113.1", "198.51.100.1").UDP(4000, 53).Payload(9), ""},
			step{"its answer", true, in4("198.51.100.1", "203.0.113.1").UDP(53, 4000).Payload(8), in4("198.51.100.1", "10.0.0.7").UDP(53, 4000).Payload(8), ""},
			step{"echo out", false, out4("10.0.0.7", "198.51.100.1").Echo(77, 1).Payload(56), out4("203.0.113.1", "198.51.100.1").Echo(77, 1).Payload(56), ""},
			step{"UDP of IPv6 out", false, out6("fd00::7", "2001:db8:9::1").UDP(4000, 53).Payload(9), out6("2001:db8::1", "2001:db8:9::1").UDP(4000, 53).Payload(9), ""},
			step{"its answer", true, in6("2001:db8:9::1", "2001:db8::1").UDP(53, 4000).Payload(8), in6("2001:db8:9::1", "fd00::7").UDP(53, 4000).Payload(8), ""},
			step{"from another network", false, out4("10.9.0.7", "198.51.100.1").UDP(4000, 53), out4("10.9.0.7", "198.51.100.1").UDP(4000, 53), ""},
			step{"unasked for", true, in4("198.51.100.9", "203.0.113.1").UDP(53, 4000), nil, "filtered"},
			step{"to a free port", true, in4("198.51.100.9", "203.0.113.1").UDP(53, 4001), in4("198.51.100.9", "203.0.113.1").UDP(53, 4001), ""},
		)
	})
}
