// SPDX-License-Identifier: Apache-2.0

package cube

import (
	"net"
	"net/netip"
)

// Interface is the interface of a port in the namespace of a shadow cube.
type Interface struct {
	// MAC is nil if the interface determines it.
	MAC net.HardwareAddr
	// Addresses with their prefix lengths, in any order; without IPv6 link-local ones.
	Addresses []netip.Prefix
}

// Alignment contains the addresses of a port's netdev. A nil MAC keeps the netdev's own.
type Alignment struct {
	Interface
	// ReadOnly leaves the netdev unchanged: the port follows it.
	ReadOnly bool
}

// RouteKind is the effect of a route on packets.
type RouteKind uint8

// The kinds of routes.
const (
	RouteUnicast RouteKind = iota
	RouteBlackhole
	RouteUnreachable
	RouteProhibit
)

// Route is a route that a program in the namespace of a shadow cube has added to the main table: a routing daemon, a
// DHCP client, `ip route`. Routes that the kernel derives from addresses are skipped: the cube knows its addresses.
type Route struct {
	Prefix netip.Prefix
	Kind   RouteKind
	// Protocol is the origin of the route, as `ip route` names it: static, boot, dhcp, ra, ospf, bgp, zebra, or a
	// number.
	Protocol string
	// Metric distinguishes the routes to one prefix; the lowest one is used.
	Metric uint32
	// NextHops share the packets; only a unicast route has any.
	NextHops []NextHop
}

// NextHop is a next hop of a route.
type NextHop struct {
	Port string
	// Gateway is the zero Addr if the destinations are on the port's link. It may be of the other family.
	Gateway netip.Addr
	// Weight is its share of the packets, 1 to 256.
	Weight int
}

// RouteChange is a route that was added or changed, or, if Deleted is set, removed: then only Prefix and Metric count.
type RouteChange struct {
	Route
	Deleted bool
}
