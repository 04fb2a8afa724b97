// SPDX-License-Identifier: Apache-2.0

package balancers

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/pkt"
)

var few = load{services: 3, servers: 5, flows: 8}

// frameTo is a datagram of a client to an address, as it arrives at a MAC address.
func frameTo(to netip.Addr, mac []byte) []byte {
	d := few.datagrams()
	d.Service = to
	return pkt.EthernetFrame(mac, make([]byte, 6), 0x0800, d.Packet(0))
}

func TestWhatABalancerMustSend(t *testing.T) {
	tunnel := pkt.IPv4Header{From: "198.51.100.9", To: few.server(4).String(), Protocol: 4, TTL: 64}.Packet(few.datagrams().Packet(0))
	other := slices.Clone(frameTo(few.server(2), few.mac(0)))
	other[14+20+10] ^= 1 // data
	tests := map[string]struct {
		is     func([]byte) (string, error)
		frame  []byte
		server string // "": it is refused
	}{
		"a server's MAC address":           {few.toMAC, frameTo(few.service(1), few.mac(3)), string(few.mac(3))},
		"the MAC address of no server":     {few.toMAC, frameTo(few.service(1), few.mac(5)), ""},
		"as it came":                       {few.toMAC, frameTo(few.service(1), make([]byte, 6)), ""},
		"no service":                       {few.toMAC, frameTo(few.service(3), few.mac(3)), ""},
		"in a tunnel":                      {few.toTunnel, pkt.EthernetFrame(make([]byte, 6), make([]byte, 6), 0x0800, tunnel), few.server(4).String()},
		"without a tunnel":                 {few.toTunnel, frameTo(few.server(4), few.mac(0)), ""},
		"translated":                       {few.toServer, frameTo(few.server(2), few.mac(0)), few.server(2).String()},
		"not translated":                   {few.toServer, frameTo(few.service(2), few.mac(0)), ""},
		"translated, with a wrong sum":     {few.toServer, other, ""},
		"to a server of another service":   {few.toEndpoint, frameTo(few.server(14), few.mac(0)), few.server(14).String()},
		"behind the last server":           {few.toEndpoint, frameTo(few.server(15), few.mac(0)), ""},
		"a wrong checksum of IP's header":  {few.toServer, broken(frameTo(few.server(2), few.mac(0))), ""},
		"a server that only others' share": {few.toServer, frameTo(few.server(5), few.mac(0)), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server, err := tt.is(tt.frame[:min(len(tt.frame), lab.FrameSize)])
			if (err == nil) != (tt.server != "") || server != tt.server {
				t.Errorf("%q, %v; want %q", server, err, tt.server)
			}
		})
	}
}

func broken(frame []byte) []byte {
	frame[14+8]++ // the TTL
	return frame
}

func TestAllToOneServerIsNoBalance(t *testing.T) {
	frame := frameTo(few.server(0), few.mac(0))
	if err := spread([][]byte{frame, frame, frame, frame, frame}, few.toServer); err == nil {
		t.Error("five frames to one server are accepted")
	}
}

func TestAddressesFollowEachOther(t *testing.T) {
	if a := after(netip.MustParseAddr("10.0.255.255"), 258); a.String() != "10.1.1.1" {
		t.Errorf("after 258 addresses comes %s, want 10.1.1.1", a)
	}
}

func TestEachServerHasARule(t *testing.T) {
	set, match := few.match()
	choice := few.choice(few.address)
	for i := range few.services {
		if !strings.Contains(set, few.service(i).String()) {
			t.Errorf("service %d is not in %s", i, set)
		}
	}
	if !strings.Contains(match, "@services udp dport 80") {
		t.Errorf("packets are found by %q", match)
	}
	for i := range few.servers {
		if !strings.Contains(choice, few.server(i).String()) {
			t.Errorf("server %d is not in %s", i, choice)
		}
	}
}
