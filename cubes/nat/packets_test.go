// SPDX-License-Identifier: Apache-2.0

package nat

// Packets of each kind of rule and of each protocol, byte for byte, at both hooks.

import (
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

const (
	ours, ours6   = "203.0.113.1", "2001:db8::1" // external addresses
	host, host6   = "10.0.0.7", "fd00::7"
	other, other6 = "198.51.100.1", "2001:db8:9::1" // a remote one
)

const snat = `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"},
	{"id":2,"internal-net":"fd00::/64","external-ip":"2001:db8::1"}]}}}`

var syn, synAck, ack = pkt.TCPFlags{SYN: true}, pkt.TCPFlags{SYN: true, ACK: true}, pkt.TCPFlags{ACK: true}

// same is a packet that passes unchanged.
func same(name string, in bool, f framer) step { return step{name, in, f, f, ""} }

func TestSourceNAT(t *testing.T) {
	t.Parallel()
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, snat)
		b.steps(
			step{"TCP out", false, out4(host, other).TCP(4000, 80, syn), out4(ours, other).TCP(4000, 80, syn), ""},
			step{"its answer", true, in4(other, ours).TCP(80, 4000, synAck), in4(other, host).TCP(80, 4000, synAck), ""},
			step{"UDP out", false, out4(host, other).UDP(4000, 53).Payload(9), out4(ours, other).UDP(4000, 53).Payload(9), ""},
			step{"its answer", true, in4(other, ours).UDP(53, 4000).Payload(8), in4(other, host).UDP(53, 4000).Payload(8), ""},
			step{"echo out", false, out4(host, other).Echo(77, 1).Payload(56), out4(ours, other).Echo(77, 1).Payload(56), ""},
			step{"its answer", true, inFrame(plain4(other, ours, nextICMP, icmp(0, 0, 77<<16|1, bytesOf(9)))),
				inFrame(plain4(other, host, nextICMP, icmp(0, 0, 77<<16|1, bytesOf(9)))), ""},
			step{"TCP of IPv6 out", false, out6(host6, other6).TCP(4000, 80, syn), out6(ours6, other6).TCP(4000, 80, syn), ""},
			step{"its answer", true, in6(other6, ours6).TCP(80, 4000, synAck), in6(other6, host6).TCP(80, 4000, synAck), ""},
			step{"UDP of IPv6 out", false, out6(host6, other6).UDP(4000, 53).Payload(9), out6(ours6, other6).UDP(4000, 53).Payload(9), ""},
			step{"its answer", true, in6(other6, ours6).UDP(53, 4000).Payload(8), in6(other6, host6).UDP(53, 4000).Payload(8), ""},
			step{"echo of IPv6 out", false, outFrame(ip6(host6, other6, nextICMPv6, icmp6(host6, other6, 128, 0, 5<<16, bytesOf(8)))),
				outFrame(ip6(ours6, other6, nextICMPv6, icmp6(ours6, other6, 128, 0, 5<<16, bytesOf(8)))), ""},
			step{"its answer", true, inFrame(ip6(other6, ours6, nextICMPv6, icmp6(other6, ours6, 129, 0, 5<<16, bytesOf(8)))),
				inFrame(ip6(other6, host6, nextICMPv6, icmp6(other6, host6, 129, 0, 5<<16, bytesOf(8)))), ""},
			same("from a network without a rule", false, out4("10.9.0.7", other).UDP(4000, 53)),
			step{"from a stranger", true, in4("198.51.100.9", ours).UDP(53, 4000), nil, "filtered"},
			same("to a port that nobody has", true, in4(other, ours).UDP(53, 4001)),
			same("to an address that nobody has", true, in4(other, "203.0.113.9").UDP(53, 4000)),
			step{"a reset of no connection", false, out4(host, other).TCP(4009, 80, pkt.TCPFlags{RST: true}), nil, "no-session"},
		)
	})
}

const forwards = `{"rule":{
	"dnat":{"entry":[{"id":1,"external-ip":"203.0.113.2","internal-ip":"10.0.0.8"},{"id":2,"external-ip":"2001:db8::2","internal-ip":"fd00::8"}]},
	"port-forwarding":{"entry":[
		{"id":1,"external-ip":"203.0.113.1","external-port":80,"proto":"tcp","internal-ip":"10.0.0.7","internal-port":8080},
		{"id":2,"external-ip":"203.0.113.1","external-port":80,"proto":"all","internal-ip":"10.0.0.9","internal-port":9090},
		{"id":3,"external-ip":"203.0.113.1","external-port":3000,"external-port-last":3999,"proto":"udp","internal-ip":"10.0.0.7","internal-port":13000},
		{"id":4,"external-ip":"2001:db8::1","external-port":80,"internal-ip":"fd00::7","internal-port":8080},
		{"id":5,"external-ip":"203.0.113.2","external-port":22,"proto":"tcp","internal-ip":"10.0.0.7","internal-port":2222}]}}}`

func TestDestinationNATAndForwardedPorts(t *testing.T) {
	t.Parallel()
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, forwards)
		b.steps(
			step{"TCP to an address", true, in4(other, "203.0.113.2").TCP(4000, 81, syn), in4(other, "10.0.0.8").TCP(4000, 81, syn), ""},
			step{"its answer", false, out4("10.0.0.8", other).TCP(81, 4000, synAck), out4("203.0.113.2", other).TCP(81, 4000, synAck), ""},
			step{"echo to an address", true, in4(other, "203.0.113.2").Echo(3, 4).Payload(5), in4(other, "10.0.0.8").Echo(3, 4).Payload(5), ""},
			step{"UDP of IPv6 to an address", true, in6(other6, "2001:db8::2").UDP(4, 5), in6(other6, "fd00::8").UDP(4, 5), ""},
			step{"a port of that address", true, in4(other, "203.0.113.2").TCP(4000, 22, syn), in4(other, host).TCP(4000, 2222, syn), ""},
			step{"TCP to a port", true, in4(other, ours).TCP(4000, 80, syn), in4(other, host).TCP(4000, 8080, syn), ""},
			step{"its answer", false, out4(host, other).TCP(8080, 4000, synAck), out4(ours, other).TCP(80, 4000, synAck), ""},
			step{"UDP to the port of all", true, in4(other, ours).UDP(4000, 80), in4(other, "10.0.0.9").UDP(4000, 9090), ""},
			step{"its answer", false, out4("10.0.0.9", other).UDP(9090, 4000), out4(ours, other).UDP(80, 4000), ""},
			step{"the first of a range", true, in4(other, ours).UDP(4000, 3000), in4(other, host).UDP(4000, 13000), ""},
			step{"one of a range", true, in4(other, ours).UDP(4000, 3517), in4(other, host).UDP(4000, 13517), ""},
			step{"its answer", false, out4(host, other).UDP(13517, 4000), out4(ours, other).UDP(3517, 4000), ""},
			step{"the last of a range", true, in4(other, ours).UDP(4000, 3999), in4(other, host).UDP(4000, 13999), ""},
			same("behind the range", true, in4(other, ours).UDP(4000, 4000)),
			same("another protocol than the range's", true, in4(other, ours).TCP(4000, 3000, syn)),
			step{"TCP of IPv6 to a port", true, in6(other6, ours6).TCP(4000, 80, syn), in6(other6, host6).TCP(4000, 8080, syn), ""},
			step{"its answer", false, out6(host6, other6).TCP(8080, 4000, synAck), out6(ours6, other6).TCP(80, 4000, synAck), ""},
			same("echo to an address with ports", true, in4(other, ours).Echo(3, 4)),
			same("from inside, of itself", false, out4(host, other).TCP(8081, 80, syn)),
			step{"a reset of no connection", true, in4(other, ours).TCP(4007, 80, pkt.TCPFlags{RST: true}), nil, "no-session"},
		)
		if _, err := b.pass(true, in4("192.0.2.1", "203.0.113.2").TCP(2222, 22, syn).Bytes()); err != nil {
			t.Errorf("another client: %v", err)
		}
	})
}

// Two forwarded ports lead to one: a client that uses the same port for both cannot be answered
// from both.
func TestAnswersNeverGoAstray(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, `{"rule":{"port-forwarding":{"entry":[
			{"id":1,"external-ip":"203.0.113.1","external-port":80,"internal-ip":"10.0.0.7","internal-port":8080},
			{"id":2,"external-ip":"203.0.113.1","external-port":81,"internal-ip":"10.0.0.7","internal-port":8080}]}}}`)
		b.steps(
			step{"the first", true, in4(other, ours).UDP(4000, 80), in4(other, host).UDP(4000, 8080), ""},
			step{"the second", true, in4(other, ours).UDP(4000, 81), nil, "endpoint-taken"},
			step{"from another port", true, in4(other, ours).UDP(4001, 81), in4(other, host).UDP(4001, 8080), ""},
			step{"answer of the first", false, out4(host, other).UDP(8080, 4000), out4(ours, other).UDP(80, 4000), ""},
			step{"answer of the other", false, out4(host, other).UDP(8080, 4001), out4(ours, other).UDP(81, 4001), ""},
			step{"the second, again", true, in4(other, ours).UDP(4000, 81), nil, "endpoint-taken"},
		)
	})
}

func TestWhatIsNotForANATGoesOnAsItIs(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"0.0.0.0/0","external-ip":"203.0.113.1"},
			{"id":2,"internal-net":"::/0","external-ip":"2001:db8::1"}]}}}`)
		solicitation := func(to string) raw {
			return outFrame(ip6(host6, to, nextICMPv6, icmp6(host6, to, 135, 0, 0, bytesOf(24))))
		}
		b.steps(
			same("ARP", false, pkt.Eth(insideMAC, pkt.Broadcast).ARPRequest(insideMAC, host, "10.0.0.1")),
			same("another ethertype", false, pkt.Eth(insideMAC, outsideMAC).EtherType(0x88cc).Payload(50)),
			same("DHCP", false, out4("0.0.0.0", "255.255.255.255").UDP(68, 67).Payload(240)),
			same("multicast", false, out4(host, "224.0.0.251").UDP(5353, 5353)),
			same("multicast of IPv6", false, out6(host6, "ff02::fb").UDP(5353, 5353)),
			same("link-local", false, out6("fe80::7", "fe80::1").UDP(1, 2)),
			same("neighbour solicitation", false, solicitation("fe80::1")),
			same("neighbour solicitation of a global address", false, solicitation(other6)),
			same("of the external address itself", false, out4(ours, other).UDP(22, 4000)),
			same("and what comes for it", true, in4(other, ours).UDP(4000, 22)),
			same("the router's own ESP", false, outFrame(plain4(ours, other, nextESP, bytesOf(40)))),
			step{"two tags", false, pkt.Eth(insideMAC, outsideMAC).ServiceVLAN(5).VLAN(6).IPv4(host, other).UDP(4000, 53),
				pkt.Eth(insideMAC, outsideMAC).ServiceVLAN(5).VLAN(6).IPv4(ours, other).UDP(4000, 53), ""},
			same("three tags", false, pkt.Eth(insideMAC, outsideMAC).ServiceVLAN(5).VLAN(6).VLAN(7).IPv4(host, other).UDP(4000, 53)),
		)
	})
}

func TestHeadersOfAnyLength(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, snat)
		options := append([]byte{7, 39, 4}, make([]byte, 37)...) // record route
		with := func(n int, from string) raw {
			return outFrame(ip4(from, other, nextUDP, 9, 0, options[:n], udp(from, other, 4000, 53, bytesOf(11))))
		}
		chain := func(from string, headers ...[]byte) raw {
			next, body := byte(nextUDP), udp(from, other6, 4000, 53, bytesOf(5))
			for i := len(headers) - 1; i >= 0; i-- {
				headers[i][0] = next
				body, next = append(headers[i], body...), nextHopByHop
				if i > 0 {
					next = 60
				}
			}
			return outFrame(ip6(from, other6, next, body))
		}
		b.steps(
			step{"one option", false, with(4, host), with(4, ours), ""},
			step{"all options", false, with(40, host), with(40, ours), ""},
			step{"an extension", false, chain(host6, extension(0)), chain(ours6, extension(0)), ""},
			step{"three extensions", false, chain(host6, extension(0), extension(0), extension(0)), chain(ours6, extension(0), extension(0), extension(0)), ""},
			step{"cut in the options", false, with(40, host)[:14+40], nil, "malformed"},
			step{"cut in the extensions", false, chain(host6, extension(0))[:14+44], nil, "malformed"},
			step{"cut in the ports", false, outFrame(ip4(host, other, nextUDP, 0, 0, nil, []byte{1, 2, 3})), nil, "malformed"},
			step{"cut in TCP", false, outFrame(ip4(host, other, nextTCP, 0, 0, nil, bytesOf(19))), nil, "malformed"},
			step{"a header of 16 bytes", false, raw(append(append([]byte{}, with(4, host)[:14]...), append([]byte{0x44}, with(4, host)[15:]...)...)), nil, "malformed"},
		)
	})
}
