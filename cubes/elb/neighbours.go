// SPDX-License-Identifier: Apache-2.0

package elb

// The next hops of servers: by the routes and neighbours of the host, which is kept resolving them. The program does not look
// them up itself, as the kernel answers programs only on hosts that forward packets.

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

// hop is the way to a server.
type hop struct {
	mac uint64 // the one that is or was known last; 0: none
	why string // no new session can go there; empty: they can
}

// neighbours are those of a netdev at one time.
type neighbours struct {
	on    *cube.Parent
	known map[netip.Addr]netlink.Neigh
	hops  map[[2]netip.Addr]hop
	err   error
}

// notOnNetdev is why a cube elsewhere reaches no server.
const notOnNetdev = "the cube is not on a netdev"

// usable are the states in which the kernel sends packets to a neighbour.
const usable = unix.NUD_PERMANENT | unix.NUD_NOARP | unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE

// newNeighbours reads those of the netdev that a cube is on.
func newNeighbours(on *cube.Parent) *neighbours {
	n := &neighbours{on: on, known: map[netip.Addr]netlink.Neigh{}, hops: map[[2]netip.Addr]hop{}}
	if on.Cube != "" || on.Index == 0 {
		return n
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		all, err := netlink.NeighList(on.Index, family)
		if err != nil {
			n.err = errors.Join(n.err, fmt.Errorf("list the neighbours of %s: %w", on.Netdev, err))
		}
		for _, one := range all {
			if a, ok := netip.AddrFromSlice(one.IP); ok {
				n.known[a.Unmap()] = one
			}
		}
	}
	return n
}

// hop returns the way to a server from an address of the host. Without one, it has the MAC address that was known.
func (n *neighbours) hop(to, from netip.Addr, was uint64) hop {
	is, ok := n.hops[[2]netip.Addr{to, from}]
	if !ok {
		is = n.find(to, from)
		n.hops[[2]netip.Addr{to, from}] = is
	}
	if is.mac == 0 {
		is.mac = was
	}
	return is
}

func (n *neighbours) find(to, from netip.Addr) hop {
	if n.on.Cube != "" || n.on.Index == 0 {
		return hop{why: notOnNetdev}
	}
	routes, err := netlink.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{SrcAddr: from.AsSlice()})
	if err != nil || len(routes) != 1 {
		return hop{why: fmt.Sprintf("there is no route from %s, which must be an address of the host: %v", from, err)}
	}
	r := &routes[0]
	if r.LinkIndex != n.on.Index || r.Type != unix.RTN_UNICAST {
		return hop{why: fmt.Sprintf("the route of the host does not lead to %s, where the cube is", n.on.Netdev)}
	}
	next := to
	if gateway, ok := netip.AddrFromSlice(r.Gw); ok {
		next = gateway.Unmap()
	}
	one, ok := n.known[next]
	ok = ok && one.State&usable != 0 && len(one.HardwareAddr) == 6
	if !ok || one.State&(unix.NUD_STALE) != 0 {
		n.ask(next)
	}
	if !ok {
		return hop{why: fmt.Sprintf("the MAC address of %s is not known", next)}
	}
	return hop{mac: wordOf(one.HardwareAddr)}
}

// ask has the kernel resolve a neighbour, or verify it.
func (n *neighbours) ask(next netip.Addr) {
	family := netlink.FAMILY_V4
	if next.Is6() {
		family = netlink.FAMILY_V6
	}
	// Errors show: the neighbour stays as it is.
	_ = netlink.NeighSet(&netlink.Neigh{LinkIndex: n.on.Index, Family: family, IP: net.IP(next.AsSlice()), Flags: unix.NTF_USE})
}
