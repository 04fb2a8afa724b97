// SPDX-License-Identifier: Apache-2.0

package nat

// Internal hosts that reach each other by external addresses (RFC 4787, REQ-9).

import (
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

// back4 makes a frame that left the cube inside and came back.
func back4(from, to string, o ...pkt.IPv4Options) *pkt.Frame { return in4(from, to, o...) }

const hairpinRules = `{"behaviour":{"filtering":"endpoint-independent"},"rule":{
	"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"},
		{"id":2,"internal-net":"fd00::/64","external-ip":"2001:db8::1"}]},
	"port-forwarding":{"entry":[{"id":1,"external-ip":"203.0.113.1","external-port":80,"proto":"tcp","internal-ip":"10.0.0.8","internal-port":8080}]}}}`

func TestHairpin(t *testing.T) {
	t.Parallel()
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, hairpinRules)
		syn := pkt.TCPFlags{SYN: true}
		b.turn("a mapping of another host", out4("10.0.0.8", "198.51.100.1").UDP(5000, 53), out4("203.0.113.1", "198.51.100.1").UDP(5000, 53), "f:p2")
		b.turn("its external endpoint", out4("10.0.0.7", "203.0.113.1").UDP(4000, 5000).Payload(7), back4("203.0.113.1", "10.0.0.8").UDP(4000, 5000).Payload(7), "f:p1")
		b.turn("the answer", out4("10.0.0.8", "203.0.113.1").UDP(5000, 4000).Payload(7), back4("203.0.113.1", "10.0.0.7").UDP(5000, 4000).Payload(7), "f:p1")
		b.turn("a forwarded port", out4("10.0.0.7", "203.0.113.1").TCP(4001, 80, syn), back4("203.0.113.1", "10.0.0.8").TCP(4001, 8080, syn), "f:p1")
		b.turn("its answer", out4("10.0.0.8", "203.0.113.1").TCP(8080, 4001, syn), back4("203.0.113.1", "10.0.0.7").TCP(80, 4001, syn), "f:p1")
		b.turn("a mapping of IPv6", out6("fd00::8", "2001:db8:9::1").UDP(5000, 53), out6("2001:db8::1", "2001:db8:9::1").UDP(5000, 53), "f:p2")
		b.turn("its external endpoint", out6("fd00::7", "2001:db8::1").UDP(4000, 5000), in6("2001:db8::1", "fd00::8").UDP(4000, 5000), "f:p1")
	})
}

// turn gives a frame from inside, which must leave by a port.
func (b *bench) turn(name string, send, want framer, port string) {
	b.t.Helper()
	out, got := b.RunBytes("veth1", send.Bytes())
	if (out != bpftest.Outcome{Verdict: "send", Sent: port}) {
		b.t.Errorf("%s: %+v, want it sent by %s", name, out, port)
	} else if string(got) != string(want.Bytes()) {
		b.t.Errorf("%s:\n got %x\nwant %x", name, got, want.Bytes())
	}
}
