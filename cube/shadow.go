// SPDX-License-Identifier: Apache-2.0

package cube

import (
	"net"
	"net/netip"
)

// Interface is how a port looks to programs in the namespace of a shadow cube.
type Interface struct {
	// MAC is nil where the cube leaves it to the interface.
	MAC net.HardwareAddr
	// Addresses with their prefix lengths, in any order; without IPv6 link-local ones.
	Addresses []netip.Prefix
}

// Alignment is how a port's netdev is to look. A nil MAC leaves that to the netdev.
type Alignment struct {
	Interface
	// ReadOnly leaves the netdev alone: the port follows it.
	ReadOnly bool
}

// RouteKind is what becomes of packets that a route is for.
type RouteKind uint8

// The kinds of routes.
const (
	RouteUnicast RouteKind = iota
	RouteBlackhole
	RouteUnreachable
	RouteProhibit
)

// Route is a route that a program in the namespace of a shadow cube has added: a routing daemon, a DHCP client, `ip
// route`. It is of the main table. Those that the kernel makes of addresses are left out: the cube knows its addresses.
type Route struct {
	Prefix netip.Prefix
	Kind   RouteKind
	// Protocol is what made it, as `ip route` names it: static, boot, dhcp, ra, ospf, bgp, zebra, or a number.
	Protocol string
	// Metric tells apart the routes to one prefix, which may be several; the lowest counts.
	Metric uint32
	// NextHops share the packets; there are none but of a unicast route.
	NextHops []NextHop
}

// NextHop is where a route leads to.
type NextHop struct {
	Port string
	// Gateway is the zero Addr where the destinations are on the port's link. It may be of the other family.
	Gateway netip.Addr
	// Weight is its share of the packets, 1 to 256.
	Weight int
}

// RouteChange is a route that came or changed, or, if Deleted is set, went: then Prefix and Metric alone count.
type RouteChange struct {
	Route
	Deleted bool
}
