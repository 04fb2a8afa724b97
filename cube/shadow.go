// SPDX-License-Identifier: Apache-2.0

package cube

import (
	"encoding/json"
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

// Shadower is a cube whose ports have addresses, which its namespace has, too, when it is a shadow cube: the framework
// keeps the two equal, whichever side changes. Its methods must not touch maps or packets.
type Shadower interface {
	// Interfaces tells from a configuration how the cube's ports are to look, by name. A port that is not in the answer
	// has nothing to keep equal.
	Interfaces(conf json.RawMessage) (map[string]Interface, error)
	// InterfaceChanged returns the changes of configuration by which a port follows its interface, which somebody in the
	// namespace has changed from was, what Interfaces answers, to is; none, if the cube does not want to follow. They are
	// validated, carried out and persisted like those of a request.
	InterfaceChanged(port string, was, is Interface) ([]Edit, error)
}

// Aligner is a cube whose ports have addresses, which the netdevs that are their peers have, too: the framework keeps the
// two equal, whichever side changes. A port with addresses gives them to its netdev, one without takes those of the netdev;
// from then on changes go both ways. What the netdev was given goes again with the peer.
type Aligner interface {
	// Alignment tells from a configuration how netdevs are to look, by the ports whose peers they may be. A port that is
	// not in the answer has nothing to do with the addresses of its netdev.
	Alignment(conf json.RawMessage) (map[string]Alignment, error)
	// InterfaceChanged returns the changes of configuration by which a port follows its netdev, as it does in Shadower.
	InterfaceChanged(port string, was, is Interface) ([]Edit, error)
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

// RouteWatcher is a cube that forwards by the routes that programs in its namespace add. They are state, not
// configuration: the namespace keeps them while the daemon is down, and tells them again.
type RouteWatcher interface {
	// RoutesChanged gets the changes since the last call, each route once, many in one call. complete says that they are
	// all the routes there are: what else was told before is gone. The first call is so.
	RoutesChanged(changes []RouteChange, complete bool)
}
