// SPDX-License-Identifier: Apache-2.0

package lbdsr

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/wire"
)

const gatewayMAC = "02:00:00:00:02:fe"

// answer answers the next request for an address.
func answer(t *testing.T, w *bpftest.Wire, address, mac string) {
	t.Helper()
	a := netip.MustParseAddr(address)
	_, err := w.Recv(func(f []byte) bool {
		if arp, err := wire.ParseARP(f); err == nil {
			return arp.Op == wire.ARPRequest && arp.Target == a
		}
		n, err := wire.ParseND(f)
		return err == nil && !n.Advertisement && n.Target == a
	}, bpftest.Patience)
	if err != nil {
		t.Fatalf("no request for %s: %v", address, err)
	}
	if a.Is4() {
		w.Puts(pkt.Eth(mac, backMAC).ARPReply(mac, address, backMAC, "10.0.2.1").Bytes())
		return
	}
	n := wire.ND{Advertisement: true, Solicited: true, Override: true, Target: a, Link: wire.MAC(pkt.MAC(mac)), From: a, To: netip.MustParseAddr("2001:db8:2::1"),
		FromMAC: wire.MAC(pkt.MAC(mac)), ToMAC: wire.MAC(pkt.MAC(backMAC))}
	w.Puts(n.Frame())
}

// tunnels has services whose servers are behind routers, a way and a family each.
const tunnels = `{` + ports + `,"tunnel":{"ttl":33},"service":[
 {"vip":"10.0.0.100","vport":80,"proto":"ALL","server":[{"address":"192.0.2.11","forward":"IPIP"}]},
 {"vip":"10.0.0.101","vport":80,"proto":"ALL","server":[{"address":"2001:db8:77::11","forward":"IPIP"}]},
 {"vip":"10.0.0.102","vport":80,"proto":"ALL","server":[{"address":"192.0.2.11","forward":"GUE"}]},
 {"vip":"10.0.0.103","vport":80,"proto":"ALL","server":[{"address":"2001:db8:77::11","forward":"GUE","gue-port":6081}]},
 {"vip":"2001:db8::100","vport":80,"proto":"ALL","server":[{"address":"192.0.2.11","forward":"IPIP"}]},
 {"vip":"2001:db8::101","vport":80,"proto":"ALL","server":[{"address":"2001:db8:77::11","forward":"IPIP"}]},
 {"vip":"2001:db8::102","vport":80,"proto":"ALL","server":[{"address":"192.0.2.11","forward":"GUE"}]},
 {"vip":"2001:db8::103","vport":80,"proto":"ALL","server":[{"address":"2001:db8:77::11","forward":"GUE"}]}]}`

// outer returns the frame with a packet in another one. from is the source port of GUE.
func outer(inner []byte, six, gue bool, from, to uint16) []byte {
	data, protocol := inner[14:], uint8(4)
	if inner[14]>>4 == 6 {
		protocol = 41
	}
	source, destination := "10.0.2.1", "192.0.2.11"
	if six {
		source, destination = "2001:db8:2::1", "2001:db8:77::11"
	}
	if gue {
		data, protocol = pkt.UDPDatagram(source, destination, from, to, data), pkt.ProtoUDP
		if !six {
			data[6], data[7] = 0, 0
		}
	}
	f := pkt.Eth(backMAC, gatewayMAC)
	if six {
		f = f.IPv6(source, destination).Protocol(protocol).Data(data)
	} else {
		f = f.IPv4(source, destination, pkt.IPv4Options{TTL: 33, DontFragment: true}).Protocol(protocol).Data(data)
	}
	b := f.Bytes()
	if six {
		b[21] = 33
	}
	return b
}

func TestPacketsReachServersThroughTunnels(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbdsr", "lb", tunnels)
		w := l.Wires()[1]
		netns.Eventually(t, bpftest.Patience, func() error { // the cube may send a request at the same time, which is counted
			got, _ := l.RunBytes("veth1", client().IPv4("10.9.0.1", "10.0.0.100").UDP(1000, 80).Bytes())
			if got != dropped("unresolved") {
				return fmt.Errorf("the router is not known yet: %+v", got)
			}
			return nil
		})
		answer(t, w, "10.0.2.254", gatewayMAC)
		answer(t, w, "2001:db8:2::254", gatewayMAC)
		for _, vip := range []string{"10.0.0.100", "10.0.0.101", "10.0.0.102", "10.0.0.103", "2001:db8::100", "2001:db8::101", "2001:db8::102", "2001:db8::103"} {
			for _, kind := range []string{"TCP", "UDP", "UDP without a checksum", "a fragment", "an ICMP error"} {
				throughTunnel(t, l, vip, kind)
			}
		}
	})
}

// TestSourcesOfTunnelsVaryWithinTheirPrefix: each flow has one address of it.
func TestSourcesOfTunnelsVaryWithinTheirPrefix(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	l.Create("lbdsr", "lb", tunnels)
	w := l.Wires()[1]
	answer(t, w, "10.0.2.254", gatewayMAC)
	answer(t, w, "2001:db8:2::254", gatewayMAC)
	l.Set("PATCH", "lb tunnel", `{"source":"172.16.0.0/20","source6":"2001:db8:ff::/112"}`)
	for vip, prefix := range map[string]netip.Prefix{
		"10.0.0.100": netip.MustParsePrefix("172.16.0.0/20"), "10.0.0.101": netip.MustParsePrefix("2001:db8:ff::/112"),
	} {
		at, size := 26, 4
		if prefix.Addr().Is6() {
			at, size = 22, 16
		}
		seen := map[netip.Addr]bool{}
		for port := range uint16(50) {
			inner := client().IPv4("10.9.0.1", vip).UDP(1000+port, 80).Payload(9).Bytes()
			var first netip.Addr
			for range 2 {
				var frame []byte
				netns.Eventually(t, bpftest.Patience, func() error {
					var is bpftest.Outcome
					if is, frame = l.RunBytes("veth1", inner); is != sent {
						return fmt.Errorf("%s: %+v", vip, is)
					}
					return nil
				})
				source, _ := netip.AddrFromSlice(frame[at : at+size])
				if !prefix.Contains(source) || first.IsValid() && source != first {
					t.Fatalf("port %d: the source is %s, before %v, the prefix is %s", port, source, first, prefix)
				}
				first = source
			}
			seen[first] = true
		}
		if len(seen) < 40 {
			t.Errorf("50 flows have %d sources of %s", len(seen), prefix)
		}
	}
}

// fault is an ICMP error of a router about a datagram of a server to its client.
func fault(vip string) *pkt.Frame {
	if netip.MustParseAddr(vip).Is6() {
		const router = "2001:db8:8::1"
		about := client().IPv6(vip, "2001:db8:9::1").UDP(80, 1000).Payload(32).Bytes()[14:]
		return client().IPv6(router, vip).Protocol(pkt.ProtoICMPv6).Data(pkt.ICMPv6Message(router, vip, 2, 0, 1400, about))
	}
	about := client().IPv4(vip, "10.9.0.1").UDP(80, 1000).Payload(32).Bytes()[14:]
	return client().IPv4("10.8.0.1", vip).Protocol(pkt.ProtoICMP).Data(pkt.ICMPMessage(3, 4, 1400, about))
}

// throughTunnel sends a packet for a service, and compares what is sent to its server.
func throughTunnel(t *testing.T, l *bpftest.Lab, vip, kind string) {
	t.Helper()
	a := netip.MustParseAddr(vip)
	last := a.AsSlice()[len(a.AsSlice())-1]
	if a.Is6() {
		last -= 0x9c
	}
	six, gue, port := last%2 == 1, last > 101, uint16(6080)
	f := client().IPv4("10.9.0.1", vip, pkt.IPv4Options{MoreFragments: kind == "a fragment", ID: 9})
	if a.Is6() {
		f = client().IPv6("2001:db8:9::1", vip)
	} else if last == 103 {
		port = 6081
	}
	switch kind {
	case "TCP":
		f = f.TCP(1000, 80, ack).Payload(33)
	case "an ICMP error":
		f = fault(vip)
	default:
		f = f.UDP(1000, 80).Payload(32)
	}
	inner := f.Bytes()
	if kind == "UDP without a checksum" {
		at := len(inner) - 32 - 2
		inner[at], inner[at+1] = 0, 0
	}
	var got []byte
	netns.Eventually(t, bpftest.Patience, func() error {
		var is bpftest.Outcome
		if is, got = l.RunBytes("veth1", inner); is != sent {
			return fmt.Errorf("%s to %s: %+v", kind, vip, is)
		}
		return nil
	})
	head := 34
	if six {
		head = 54
	}
	want := outer(inner, six, gue, binary.BigEndian.Uint16(got[head:]), port)
	if gue && six && (kind == "UDP without a checksum" || (kind == "a fragment" || kind == "an ICMP error") && !a.Is6()) {
		want[head+6], want[head+7] = 0, 0
	}
	copy(want[:6], pkt.MAC(gatewayMAC))
	copy(want[6:12], pkt.MAC(backMAC))
	if !bytes.Equal(got, want) {
		t.Errorf("%s to %s:\n% x, want\n% x", kind, vip, got, want)
	}
}
