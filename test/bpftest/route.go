// SPDX-License-Identifier: Apache-2.0

package bpftest

// A machine that routes, for cubes beside the host's stack.

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// The MAC addresses of a Route: of the machine in both networks, and of its neighbour in the second.
const (
	RouteMAC          = "02:00:00:00:01:01"
	RouteSentMAC      = "02:00:00:00:02:01"
	RouteNeighbourMAC = "02:00:00:00:02:09"
	RouteSenderMAC    = "02:00:00:00:01:09"
)

// The sender in the first network, and the neighbour.
const (
	RouteSender     = "10.0.1.9"
	RouteNeighbour  = "10.0.2.9"
	RouteSender6    = "2001:db8:1::9"
	RouteNeighbour6 = "2001:db8:2::9"
)

// Route is a lab whose machine routes between veth1 (10.0.1.254, 2001:db8:1::fe) and veth2 (10.0.2.254, 2001:db8:2::fe).
type Route struct{ l *Lab }

// Forward gives the machine its addresses and lets it forward, with two hosts and Options.Follow.
func (l *Lab) Forward() {
	l.Lab.Run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	for dev, addresses := range map[string][]string{"veth1": {"10.0.1.254/24", "2001:db8:1::fe/64"}, "veth2": {"10.0.2.254/24", "2001:db8:2::fe/64"}} {
		l.Lab.Run("sysctl", "-q", "-w", "net.ipv6.conf."+dev+".disable_ipv6=0")
		for _, a := range addresses {
			args := []string{"addr", "add", a, "dev", dev}
			if strings.Contains(a, ":") {
				args = append(args, "nodad")
			}
			l.Lab.Run("ip", args...)
		}
	}
}

// Route lets the machine forward, to one neighbour in the second network.
func (l *Lab) Route() Route {
	l.t.Helper()
	l.Forward()
	l.Lab.Run("ip", "link", "set", "veth1", "address", RouteMAC)
	l.Lab.Run("ip", "link", "set", "veth2", "address", RouteSentMAC)
	for _, to := range []string{RouteNeighbour, RouteNeighbour6} {
		l.Lab.Run("ip", "neigh", "add", to, "lladdr", RouteNeighbourMAC, "dev", "veth2", "nud", "permanent")
	}
	return Route{l}
}

// Frame is a frame from the sender to the machine.
func (Route) Frame(packet []byte) []byte {
	return pkt.Eth(RouteSenderMAC, RouteMAC).IP(packet).Bytes()
}

// UDP is a datagram of IPv4 from the sender to a port of the neighbour.
func (r Route) UDP(port uint16) []byte {
	data := pkt.UDPDatagram(RouteSender, RouteNeighbour, 1, port, make([]byte, 40))
	return r.Frame(pkt.IPv4Header{From: RouteSender, To: RouteNeighbour, Protocol: pkt.ProtoUDP, TTL: 64}.Packet(data))
}

// Next is what the neighbour gets of a frame.
func (Route) Next(frame []byte) []byte {
	out := pkt.Hop(bytes.Clone(frame))
	copy(out, pkt.MAC(RouteNeighbourMAC))
	copy(out[6:], pkt.MAC(RouteSentMAC))
	return out
}

// Wants runs a frame on veth1 until it has an outcome and is as wanted: a cube hears of netdevs after a change, and what the host
// itself sends meanwhile, such as reports of its multicast groups, passes the cube, too.
func (r Route) Wants(what string, frame []byte, want Outcome, wanted []byte) {
	r.l.t.Helper()
	netns.Eventually(r.l.t, Patience, func() error {
		out, got, err := r.l.TryBytes("veth1", frame)
		if err != nil || out != want || !bytes.Equal(got, wanted) {
			return fmt.Errorf("%s: %+v, %w\n got %x\nwant %x", what, out, err, got, wanted)
		}
		return nil
	})
}
