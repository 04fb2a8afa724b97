// SPDX-License-Identifier: Apache-2.0

package nat

// Internal hosts that reach each other by external addresses (RFC 4787, REQ-9).

import (
	"strconv"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// back4 creates a frame that left the cube inside and came back.
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

// TestEchoToTheExternalAddressDoesNotTurn: its id is its own, so that no mapping of another host is meant, not even one
// for the id 0.
func TestEchoToTheExternalAddressDoesNotTurn(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, hairpinRules)
		b.turn("id 0 of another host", out4("10.0.0.8", other).Echo(0, 1), out4(ours, other).Echo(0, 1), "f:p2")
		b.turn("to the external address", out4("10.0.0.7", ours).Echo(5, 1), out4(ours, ours).Echo(5, 1), "f:p2")
	})
}

// turn sends a frame from inside, which must leave through a port.
func (b *bench) turn(name string, send, want framer, port string) {
	b.t.Helper()
	out, got := b.RunBytes("veth1", send.Bytes())
	if (out != bpftest.Outcome{Verdict: "send", Sent: port}) {
		b.t.Errorf("%s: %+v, want it sent by %s", name, out, port)
	} else if string(got) != string(want.Bytes()) {
		b.t.Errorf("%s:\n got %x\nwant %x", name, got, want.Bytes())
	}
}

// TestHairpinOnANetdev: the kernel routes, and packets that it sends to an external address come back in through the
// same netdev, TCP with superframes and UDP in both families. The addresses are not the machine's own, which it would
// answer itself.
func TestHairpinOnANetdev(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, typ cube.Type) {
		const pool, pool6 = "203.0.113.16", "2001:db8::10"
		e := newEdge(t, typ, `{"rule":{
			"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"`+pool+`"},{"id":2,"internal-net":"fd00::/64","external-ip":"`+pool6+`"}]},
			"port-forwarding":{"entry":[{"id":1,"external-ip":"`+pool+`","external-port":80,"internal-ip":"10.0.0.8","internal-port":8000},
				{"id":3,"external-ip":"`+pool+`","external-port":81,"internal-ip":"10.0.0.8","internal-port":8001},
				{"id":4,"external-ip":"`+pool6+`","external-port":81,"internal-ip":"fd00::8","internal-port":8001},
				{"id":2,"external-ip":"`+pool6+`","external-port":80,"internal-ip":"fd00::8","internal-port":8000}]}}}`)
		// The second host inside; connections are begun from the first one's addresses.
		e.inside.Run("ip", "addr", "add", "10.0.0.8/24", "dev", netns.Inner)
		e.inside.Run("ip", "addr", "add", "fd00::8/64", "dev", netns.Inner, "nodad", "preferred_lft", "0")
		for _, a := range []string{pool, pool6} {
			e.Lab.Lab.Run("ip", "neigh", "replace", a, "lladdr", e.outside.MAC.String(), "dev", "veth2")
		}
		for address, seen := range map[string]string{"10.0.0.8:8000": pool, "[fd00::8]:8000": pool6} {
			e.serve(e.inside, address)
			to := map[string]string{pool: pool + ":80", pool6: "[" + pool6 + "]:80"}[seen]
			for _, network := range []string{"tcp", "udp"} {
				before := e.hairpinned()
				c := e.dial(e.inside.Namespace, network, to)
				e.wantSeenAs(c, seen)
				e.wantSeenAs(c, seen)
				if n := e.hairpinned() - before; n < 4 {
					t.Errorf("%s to %s: %d packets turned, want at least two there and two back", network, to, n)
				}
			}
		}
		e.wantWhole(e.inside, "10.0.0.8:8001", pool+":81")
		e.wantWhole(e.inside, "[fd00::8]:8001", "["+pool6+"]:81")
	})
}

// hairpinned returns the number of packets between two internal hosts.
func (e *edge) hairpinned() uint64 {
	e.t.Helper()
	n, err := strconv.ParseUint(e.Read("n sessions hairpinned"), 10, 64)
	if err != nil {
		e.t.Fatal(err)
	}
	return n
}
