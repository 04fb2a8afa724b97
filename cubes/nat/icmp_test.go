// SPDX-License-Identifier: Apache-2.0

package nat

// ICMP errors (RFC 5508, 4): translated outside and inside, in both directions.

import (
	"testing"

	"github.com/polycube/polycube/test/bpftest"
)

const hop, hop6 = "192.0.2.77", "2001:db8:77::1" // a router on the path

// errors4 are ICMP errors: kind, code and the word after the checksum.
var errors4 = map[string][3]uint32{
	"host unreachable": {3, 1, 0}, "fragmentation needed": {3, 4, 1400}, "time exceeded": {11, 0, 0},
	"parameter problem": {12, 0, 9 << 24}, "source quench": {4, 0, 0},
}

func TestErrorsAboutWhatWentOut(t *testing.T) {
	t.Parallel()
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, snat)
		// The port that the host gets is another than its own: so ports inside change, too.
		taken := out4("10.0.0.9", other).UDP(4000, 53)
		b.steps(step{"the port is taken", false, taken, out4(ours, other).UDP(4000, 53), ""})
		sent := func(from string, sport uint16) []byte {
			return ip4(from, other, nextUDP, 7, 0, nil, udp(from, other, sport, 53, bytesOf(30)))
		}
		got, err := b.pass(false, outFrame(sent(host, 4000)))
		if err != nil {
			t.Fatal(err)
		}
		port := uint16(got[34])<<8 | uint16(got[35])
		if port == 4000 || port%2 != 0 {
			t.Fatalf("the port is %d", port)
		}
		for name, e := range errors4 {
			for _, n := range []int{28, 29, 40, 58} { // RFC 792 requires 28 bytes
				about := func(to, from string, sport uint16) raw {
					return inFrame(plain4(hop, to, nextICMP, icmp(byte(e[0]), byte(e[1]), e[2], sent(from, sport)[:n])))
				}
				b.steps(step{name, true, about(ours, ours, port), about(host, host, 4000), ""})
			}
		}
		segment := func(from string) []byte {
			return plain4(from, other, nextTCP, tcp4(from, other, 4000, 80, 2, nil))
		}
		echo := func(from string) []byte { return plain4(from, other, nextICMP, icmp(8, 0, 9<<16|1, bytesOf(8))) }
		unreachable := func(to string, about []byte) raw {
			return inFrame(plain4(hop, to, nextICMP, icmp(3, 3, 0, about)))
		}
		b.steps(
			step{"TCP", false, outFrame(segment(host)), outFrame(segment(ours)), ""},
			step{"about TCP", true, unreachable(ours, segment(ours)), unreachable(host, segment(host)), ""},
			step{"echo", false, outFrame(echo(host)), outFrame(echo(ours)), ""},
			step{"about echo", true, unreachable(ours, echo(ours)), unreachable(host, echo(host)), ""},
			same("about nothing that is known", true, unreachable(ours, plain4(ours, other, nextUDP, udp(ours, other, 999, 53, nil)))),
			same("about a later fragment", true, unreachable(ours, ip4(ours, other, nextUDP, 7, 3, nil, bytesOf(40)))),
			step{"without the packet that it is about", true, inFrame(plain4(hop, ours, nextICMP, icmp(3, 3, 0, nil))), nil, "malformed"},
		)
		// RFC 792: 8 bytes of TCP are enough; its checksum is not among them.
		short := func(to, from string) raw { return unreachable(to, segment(from)[:28]) }
		b.steps(step{"about 8 bytes of TCP", true, short(ours, ours), short(host, host), ""})
	})
}

func TestErrorsThatGoOut(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"}]},
			"port-forwarding":{"entry":[{"id":1,"external-ip":"203.0.113.1","external-port":80,"internal-ip":"10.0.0.7","internal-port":8080},
				{"id":2,"external-ip":"2001:db8::1","external-port":80,"internal-ip":"fd00::7","internal-port":8080}]}}}`)
		came := func(to string, dport uint16) []byte {
			return plain4(other, to, nextUDP, udp(other, to, 4000, dport, bytesOf(20)))
		}
		error4 := func(from string, about []byte) raw {
			return outFrame(plain4(from, other, nextICMP, icmp(3, 3, 0, about)))
		}
		came6 := func(to string, dport uint16) []byte {
			return ip6(other6, to, nextUDP, udp(other6, to, 4000, dport, bytesOf(20)))
		}
		error6 := func(from string, about []byte) raw {
			return outFrame(ip6(from, other6, nextICMPv6, icmp6(from, other6, 1, 4, 0, about)))
		}
		b.steps(
			step{"a packet for a forwarded port", true, inFrame(came(ours, 80)), inFrame(came(host, 8080)), ""},
			step{"the host says that nobody listens", false, error4(host, came(host, 8080)), error4(ours, came(ours, 80)), ""},
			step{"a router inside says so", false, error4("10.0.0.254", came(host, 8080)), error4(ours, came(ours, 80)), ""},
			step{"about nothing that is known", false, error4(host, came(host, 8081)), nil, "icmp-unrelated"},
			same("the external host about a packet of its own", false, error4(ours, came(ours, 999))),
			step{"a packet of IPv6", true, inFrame(came6(ours6, 80)), inFrame(came6(host6, 8080)), ""},
			step{"the host says that nobody listens", false, error6(host6, came6(host6, 8080)), error6(ours6, came6(ours6, 80)), ""},
		)
	})
}

// Internal addresses are not revealed outside: an error that contains one is only sent for a session, and an error sent
// by one, for example by an internal router about packets for an untranslated network, gets the external address.
func TestErrorsOfNoSessionDoNotTellInsideAddresses(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, snat)
		error4 := func(from, to string) raw {
			return outFrame(plain4(from, other, nextICMP, icmp(3, 4, 1400, plain4(other, to, nextUDP, udp(other, to, 4000, 53, nil)))))
		}
		error6 := func(from, to string) raw {
			about := ip6(other6, to, nextUDP, udp(other6, to, 4000, 53, nil))
			return outFrame(ip6(from, other6, nextICMPv6, icmp6(from, other6, 2, 0, 1280, about)))
		}
		const public, public6 = "192.0.2.9", "2001:db8:7::1"
		b.steps(
			step{"from inside, about inside", false, error4(host, host), nil, "icmp-unrelated"},
			step{"from a network without a rule, about inside", false, error4(public, host), nil, "icmp-unrelated"},
			step{"from inside, about a network without a rule", false, error4(host, public), error4(ours, public), ""},
			same("from a network without a rule, about it", false, error4(public, public)),
			same("from the external host, about it", false, error4(ours, ours)),
			step{"IPv6 from inside, about inside", false, error6(host6, host6), nil, "icmp-unrelated"},
			step{"IPv6 from inside, about a network without a rule", false, error6(host6, public6), error6(ours6, public6), ""},
			same("IPv6 from a network without a rule, about it", false, error6(public6, public6)),
			same("link-local", false, error6("fe80::1", "fe80::1")),
		)
	})
}

func TestErrorsOfICMPv6(t *testing.T) {
	t.Parallel()
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, snat)
		b.steps(step{"the port is taken", false, out6("fd00::9", other6).UDP(4000, 53), out6(ours6, other6).UDP(4000, 53), ""})
		sent := func(from string, sport uint16, n int) []byte {
			return ip6(from, other6, nextUDP, udp(from, other6, sport, 53, bytesOf(n)))
		}
		got, err := b.pass(false, outFrame(sent(host6, 4000, 1)))
		if err != nil {
			t.Fatal(err)
		}
		port := uint16(got[54])<<8 | uint16(got[55])
		tooBig := func(to, from string, sport uint16, n int) raw {
			return inFrame(ip6(hop6, to, nextICMPv6, icmp6(hop6, to, 2, 0, 1280, sent(from, sport, 40)[:n])))
		}
		behind := func(to, from string, sport uint16) raw { // both headers have extensions
			about := ip6(from, other6, nextHopByHop, append(extension(nextUDP), udp(from, other6, sport, 53, bytesOf(8))...))
			return inFrame(ip6(hop6, to, nextHopByHop, append(extension(nextICMPv6), icmp6(hop6, to, 3, 0, 0, about)...)))
		}
		b.steps(
			step{"packet too big", true, tooBig(ours6, ours6, port, 88), tooBig(host6, host6, 4000, 88), ""},
			step{"with 48 bytes of it", true, tooBig(ours6, ours6, port, 48), tooBig(host6, host6, 4000, 48), ""},
			step{"with 40 bytes of it", true, tooBig(ours6, ours6, port, 40), tooBig(ours6, ours6, port, 40), ""},
			step{"behind extensions", true, behind(ours6, ours6, port), behind(host6, host6, 4000), ""},
		)
	})
}

// Errors neither keep sessions alive nor end them, and count as no packets of theirs.
func TestErrorsLeaveSessionsAlone(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, snat)
		segment := func(from string) []byte {
			return plain4(from, other, nextTCP, tcp4(from, other, 4000, 80, 2, nil))
		}
		b.steps(step{"TCP", false, outFrame(segment(host)), outFrame(segment(ours)), ""})
		before := b.session(0, host, 4000, other, 80, nextTCP)
		b.steps(step{"about it", true, inFrame(plain4(hop, ours, nextICMP, icmp(3, 1, 0, segment(ours)))),
			inFrame(plain4(hop, host, nextICMP, icmp(3, 1, 0, segment(host)))), ""})
		if after := b.session(0, host, 4000, other, 80, nextTCP); after != before {
			t.Errorf("the session was %+v, is %+v", before, after)
		}
	})
}
