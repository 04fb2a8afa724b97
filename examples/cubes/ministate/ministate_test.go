// SPDX-License-Identifier: Apache-2.0

package ministate_test

import (
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	_ "github.com/polycube/polycube/examples/cubes/ministate" // registers itself
	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // one to attach to
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

const inside, outside = "10.0.0.1", "192.0.2.1"

// framed is an IP packet in a frame, and packet the reverse.
func framed(packet []byte) []byte {
	return pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IP(packet).Bytes()
}

func packet(frame []byte) []byte { return frame[14:] }

func ip(from, to string, protocol byte, payload []byte) []byte {
	return framed(pkt.IPv4Header{From: from, To: to, Protocol: protocol, TTL: 64}.Packet(payload))
}

func udp(from, to string, sport, dport uint16) []byte {
	return ip(from, to, pkt.ProtoUDP, pkt.UDPDatagram(from, to, sport, dport, nil))
}

const fin, syn, ack = 0x01, 0x02, 0x10

func tcp(from, to string, sport, dport uint16, flags byte, seq, acked uint32) []byte {
	s := pkt.TCPSegment(from, to, sport, dport, flags, nil)
	binary.BigEndian.PutUint32(s[4:], seq)
	binary.BigEndian.PutUint32(s[8:], acked)
	binary.BigEndian.PutUint16(s[14:], 1000)
	return ip(from, to, pkt.ProtoTCP, s)
}

// scaled is a segment of a handshake, with window scaling by seven bits behind a NOP (RFC 7323).
func scaled(frame []byte) []byte {
	options := []byte{1, 3, 3, 7}
	f := append(append([]byte{}, frame[:54]...), options...)
	binary.BigEndian.PutUint16(f[16:], uint16(len(f)-14))
	f[46] += byte(len(options)/4) << 4
	return f
}

// firewalled is a forwarder with a firewall on its first port: the wire of veth1 is outside.
func firewalled(t *testing.T, l *bpftest.Lab) (in, out func(name string, frame []byte, drop string)) {
	t.Helper()
	l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
		"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`)
	l.Create("ministate", "m", "")
	l.Attach("m", "f:p1")
	run := func(dev, sent string) func(string, []byte, string) {
		return func(name string, frame []byte, drop string) {
			t.Helper()
			want := bpftest.Outcome{Verdict: "send", Sent: sent}
			if drop != "" {
				want = bpftest.Outcome{Verdict: "drop", Fate: "m " + drop}
			}
			if got := l.Run(dev, frame); got != want {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
	}
	return run("veth1", "f:p2"), run("veth2", "f:p1")
}

var options = bpftest.Options{Hosts: 2}

func TestRepliesComeIn(t *testing.T) {
	bpftest.Each(t, options, func(t *testing.T, l *bpftest.Lab) {
		in, out := firewalled(t, l)
		in("UDP without a connection", udp(outside, inside, 53, 1000), "no-rule")
		out("UDP", udp(inside, outside, 1000, 53), "")
		in("its reply", udp(outside, inside, 53, 1000), "")
		in("to another port", udp(outside, inside, 53, 1001), "no-rule")
		in("an ACK without a connection", tcp(outside, inside, 80, 1000, ack, 1, 1), "invalid")
		out("a SYN", tcp(inside, outside, 1000, 80, syn, 1000, 0), "")
		in("an answer to another one", tcp(outside, inside, 80, 1000, syn|ack, 5000, 999), "invalid")
		in("the answer", tcp(outside, inside, 80, 1000, syn|ack, 5000, 1001), "")
		out("the third", tcp(inside, outside, 1000, 80, ack, 1001, 5001), "")
		in("beyond the window", tcp(outside, inside, 80, 1000, ack, 1_000_000, 1001), "invalid")
		l.Restart(func() {})
		in("after a restart", tcp(outside, inside, 80, 1000, ack, 5001, 1001), "")
		in("ARP", pkt.Eth("02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff").ARPRequest("02:00:00:00:00:01", outside, inside).Bytes(), "")
	})
}

func TestDeletedSessionsHaveNoReplies(t *testing.T) {
	bpftest.Each(t, options, func(t *testing.T, l *bpftest.Lab) {
		in, out := firewalled(t, l)
		out("UDP", udp(inside, outside, 1000, 53), "")
		out("UDP", udp(inside, outside, 1001, 53), "")
		in("its reply", udp(outside, inside, 53, 1001), "")
		if got := l.Action("m delete-sessions", `{"src":"10.0.0.0/24","sport":1001}`); got != `{"deleted":1}` {
			t.Errorf("the answer is %s", got)
		}
		in("a reply of the deleted one", udp(outside, inside, 53, 1001), "no-rule")
		in("a reply of the other one", udp(outside, inside, 53, 1000), "")
	})
}

func TestWindowsAreScaled(t *testing.T) {
	bpftest.Each(t, options, func(t *testing.T, l *bpftest.Lab) {
		in, out := firewalled(t, l)
		out("a SYN", scaled(tcp(inside, outside, 1000, 80, syn, 1000, 0)), "")
		in("the answer", scaled(tcp(outside, inside, 80, 1000, syn|ack, 5000, 1001)), "")
		out("the third", tcp(inside, outside, 1000, 80, ack, 1001, 5001), "")
		in("within the window of 128,000", tcp(outside, inside, 80, 1000, ack, 130_000, 1001), "")
		in("beyond it", tcp(outside, inside, 80, 1000, ack, 140_000, 1001), "invalid")
	})
}

func TestRulesLetConnectionsIn(t *testing.T) {
	bpftest.Each(t, options, func(t *testing.T, l *bpftest.Lab) {
		in, out := firewalled(t, l)
		there, back := udp(outside, inside, 1000, 53), udp(inside, outside, 53, 1000)
		l.Set("POST", "m rules 7", `{"l4_proto":"UDP","dst_ip":"10.0.0.0/8","dst_port":53}`)
		in("accepted by a rule", there, "")
		out("its reply", back, "")
		in("another port", udp(outside, inside, 1000, 54), "no-rule")
		l.Set("DELETE", "m rules 7", "")
		in("the rule is gone", there, "no-rule")
		in("and so is the connection", there, "no-rule")
		if err := l.Try("POST", "m rules 8", `{"src_ip":"10.0.0.0/8","dst_ip":"fd00::/8"}`); err == nil {
			t.Error("a rule with addresses of two families is accepted")
		}
	})
}

// unreachable is an ICMP error about a packet, sent to its sender or to another address.
func unreachable(to string, about []byte) []byte {
	return ip("198.51.100.1", to, pkt.ProtoICMP, pkt.ICMPMessage(3, 1, 0, about))
}

// tooBig is the same of IPv6.
func tooBig(to string, about []byte) []byte {
	const router = "2001:db8::ff"
	m := pkt.ICMPv6Message(router, to, 2, 0, 1280, about)
	return framed(pkt.IPv6Header{From: router, To: to, Next: pkt.ProtoICMPv6, HopLimit: 64}.Packet(m))
}

func TestErrorsAboutConnectionsComeIn(t *testing.T) {
	bpftest.Each(t, options, func(t *testing.T, l *bpftest.Lab) {
		in, out := firewalled(t, l)
		sent := udp(inside, outside, 1000, 53)
		in("about no connection", unreachable(inside, packet(sent)), "invalid")
		out("UDP", sent, "")
		in("about it", unreachable(inside, packet(sent)), "")
		in("to another host", unreachable("10.0.0.9", packet(sent)), "invalid")
		in("about a packet of the other side", unreachable(outside, packet(udp(outside, inside, 53, 1000))), "")
		in("without its ports", unreachable(inside, packet(sent)[:22]), "invalid")
		out("a SYN", tcp(inside, outside, 1000, 80, syn, 1000, 0), "")
		in("with eight bytes of TCP", unreachable(inside, packet(tcp(inside, outside, 1000, 80, syn, 1000, 0))[:28]), "")
		in("the answer after it", tcp(outside, inside, 80, 1000, syn|ack, 5000, 1001), "")

		const inside6, outside6 = "fd00::1", "2001:db8::1"
		datagram := pkt.UDPDatagram(inside6, outside6, 1000, 53, nil)
		sent6 := pkt.IPv6Header{From: inside6, To: outside6, Next: pkt.ProtoUDP, HopLimit: 64}.Packet(datagram)
		in("of IPv6, about no connection", tooBig(inside6, sent6), "invalid")
		out("UDP over IPv6", framed(sent6), "")
		in("of IPv6", tooBig(inside6, sent6), "")
	})
}

// TestForgedSYNsChangeNothing: a SYN from outside needs a rule even if its ends have a connection, which continues.
func TestForgedSYNsChangeNothing(t *testing.T) {
	bpftest.Each(t, options, func(t *testing.T, l *bpftest.Lab) {
		in, out := firewalled(t, l)
		out("a SYN", tcp(inside, outside, 1000, 80, syn, 1000, 0), "")
		in("the answer", tcp(outside, inside, 80, 1000, syn|ack, 5000, 1001), "")
		out("the third", tcp(inside, outside, 1000, 80, ack, 1001, 5001), "")
		in("a SYN within the connection", tcp(outside, inside, 80, 1000, syn, 5001, 0), "no-rule")
		in("a segment of the open connection", tcp(outside, inside, 80, 1000, ack, 5001, 1001), "")
		out("it ends", tcp(inside, outside, 1000, 80, fin|ack, 1001, 5001), "")
		in("on both sides", tcp(outside, inside, 80, 1000, fin|ack, 5001, 1002), "")
		out("the last", tcp(inside, outside, 1000, 80, ack, 1002, 5002), "")
		in("a SYN after it", tcp(outside, inside, 80, 1000, syn, 900_000, 0), "no-rule")
		out("another connection of the same ends", tcp(inside, outside, 1000, 80, syn, 700_000, 0), "")
		in("its answer", tcp(outside, inside, 80, 1000, syn|ack, 300_000, 700_001), "")
	})
}

// TestARefusedConnectionDoesNotReturnByItsReplies: a reply to what the rules have accepted before does not renew that.
func TestARefusedConnectionDoesNotReturnByItsReplies(t *testing.T) {
	bpftest.Each(t, options, func(t *testing.T, l *bpftest.Lab) {
		in, out := firewalled(t, l)
		there, back := udp(outside, inside, 1000, 53), udp(inside, outside, 53, 1000)
		l.Set("POST", "m rules 7", `{"dst_port":53}`)
		l.Set("POST", "m rules 8", `{"dst_port":54}`)
		in("accepted by a rule", there, "")
		out("its reply", back, "")
		l.Set("DELETE", "m rules 8", "")
		in("another rule is gone", there, "")
		l.Set("DELETE", "m rules 7", "")
		out("a reply on its way", back, "")
		in("its rule is gone", there, "no-rule")
	})
}

func TestPacketsWithoutAConnectionNeedARule(t *testing.T) {
	bpftest.Each(t, options, func(t *testing.T, l *bpftest.Lab) {
		in, out := firewalled(t, l)
		later := framed(pkt.IPv4Header{From: outside, To: inside, Protocol: pkt.ProtoUDP, TTL: 64, Fragment: 100}.Packet(make([]byte, 64)))
		solicitation := pkt.ICMPv6Message("fe80::1", "ff02::1:ff00:1", 135, 0, 0, make([]byte, 16))
		neighbour := framed(pkt.IPv6Header{From: "fe80::1", To: "ff02::1:ff00:1", Next: pkt.ProtoICMPv6, HopLimit: 255}.Packet(solicitation))
		out("neighbour discovery goes out", neighbour, "")
		in("neighbour discovery", neighbour, "no-rule")
		in("a later fragment", later, "no-rule")
		l.Set("POST", "m rules 1", `{"l4_proto":"ICMPV6"}`)
		l.Set("POST", "m rules 2", `{"l4_proto":"UDP","src_ip":"192.0.2.0/24"}`)
		in("neighbour discovery, by a rule", neighbour, "")
		in("a later fragment, by a rule", later, "")
		malformed := udp(outside, inside, 53, 1000)
		malformed[14] = 0x44 // an IP header of 16 bytes
		in("a malformed header", malformed, "invalid")
		in("TCP without flags", ip(outside, inside, pkt.ProtoTCP, make([]byte, 8)), "invalid")
	})
}

// mapsOf are the maps of a cube, whose table is open.
type mapsOf struct {
	l    *bpftest.Lab
	cube string
}

func (m mapsOf) Map(name string) (*ebpf.Map, error) { return m.l.Map(m.cube, name), nil }

func (mapsOf) Inner(string) (*ebpf.MapSpec, error) { return nil, cube.ErrNotFound }

func TestAFullZoneRefuses(t *testing.T) {
	bpftest.Each(t, options, func(t *testing.T, l *bpftest.Lab) {
		in, out := firewalled(t, l)
		out("UDP", udp(inside, outside, 1000, 53), "")
		in("its reply", udp(outside, inside, 53, 1000), "")
		out("half open", udp(inside, outside, 1002, 53), "")
		connections, err := table.Open(mapsOf{l, "m"}, table.DefaultSize)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = connections.Close() }()
		page, _ := connections.Page(0, 2, nil)
		if len(page) != 2 {
			t.Fatalf("the table contains %+v, want two connections", page)
		}
		connections.Limit(page[0].Key.Zone, 1)
		out("another one", udp(inside, outside, 1001, 53), "no-entry")
		in("a reply to the first", udp(outside, inside, 53, 1000), "")
		in("a reply to one that is half open", udp(outside, inside, 53, 1002), "no-entry")
	})
}

// TestItHasNoMapsOfItsOwn: so any number of firewalls share programs and maps.
func TestItHasNoMapsOfItsOwn(t *testing.T) {
	for _, object := range []string{"ministate.tc.o", "ministate.xdp.o"} {
		spec, err := ebpf.LoadCollectionSpec(object)
		if err != nil {
			t.Fatal(err)
		}
		for name, m := range spec.Maps {
			shared := slices.ContainsFunc(m.Tags, func(tag string) bool { return strings.HasPrefix(tag, "pcn_shared:") })
			if !shared && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "pcn_") {
				t.Errorf("%s: map %s is the cube's own", object, name)
			}
		}
	}
}

// TestFirewallsOfNetdevsAreApart: these run the same programs, and have rules and connections of their own.
func TestFirewallsOfNetdevsAreApart(t *testing.T) {
	bpftest.Each(t, options, func(t *testing.T, l *bpftest.Lab) {
		there := udp(outside, inside, 1000, 53)
		for name, dev := range map[string]string{"m": "veth1", "n": "veth2"} {
			l.Create("ministate", name, "")
			l.Attach(name, dev)
		}
		expect := func(dev, verdict, fate string) {
			t.Helper()
			if got, want := l.Run(dev, there), (bpftest.Outcome{Verdict: verdict, Fate: fate}); got != want {
				t.Errorf("%s: %+v, want %+v", dev, got, want)
			}
		}
		linked := l.Linked()
		expect("veth1", "drop", "m no-rule")
		l.Set("POST", "m rules 7", `{"dst_port":53}`)
		expect("veth1", "pass", "m pass")
		expect("veth2", "drop", "n no-rule")
		l.Set("POST", "n rules 1", `{"dst_port":53}`)
		expect("veth2", "pass", "n pass")
		l.Set("DELETE", "m rules 7", "")
		expect("veth1", "drop", "m no-rule")
		expect("veth2", "pass", "n pass")
		if n := l.Linked(); n > linked {
			t.Errorf("rules link program %d, after %d", n, linked)
		}
	})
}

// TestFirewallsAreApart: another one has its own connections, and one that takes the number of a deleted one has none.
func TestFirewallsAreApart(t *testing.T) {
	bpftest.Each(t, options, func(t *testing.T, l *bpftest.Lab) {
		in, out := firewalled(t, l)
		out("UDP", udp(inside, outside, 1000, 53), "")
		in("its reply", udp(outside, inside, 53, 1000), "")
		l.Create("ministate", "other", "")
		l.Detach("m", "f:p1")
		l.Attach("other", "f:p1")
		if got, want := l.Run("veth1", udp(outside, inside, 53, 1000)), (bpftest.Outcome{Verdict: "drop", Fate: "other no-rule"}); got != want {
			t.Errorf("a reply to another firewall's connection: %+v, want %+v", got, want)
		}
		connections, err := table.Open(mapsOf{l, "other"}, table.DefaultSize)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = connections.Close() }()
		page, _ := connections.Page(0, 2, nil)
		l.Set("DELETE", "m", "")
		if left, _ := connections.Page(0, 2, nil); len(page) != 1 || len(left) != 0 {
			t.Errorf("of the connections %+v of a deleted firewall, %+v are left", page, left)
		}
		l.Detach("other", "f:p1")
		l.Create("ministate", "m", "")
		l.Attach("m", "f:p1")
		in("a reply to a deleted firewall's connection", udp(outside, inside, 53, 1000), "no-rule")
	})
}
