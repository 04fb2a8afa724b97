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
)

// hop is the way to a server.
type hop struct {
	mac    uint64     // the one that is or was known last; 0: none
	netdev uint32     // that leads there
	source netip.Addr // of the host, that the server sees
	why    string     // no new session can go there; empty: they can
}

// neighbours are those of the netdevs that a cube is on, at one time.
type neighbours struct {
	on    *netdevs
	conf  *Config
	known map[ownAddress]netlink.Neigh
	hops  map[[2]netip.Addr]hop
	err   error
}

// notOnNetdev is why a cube elsewhere reaches no server.
const notOnNetdev = "the cube is not attached to a netdev"

// usable are the states in which the kernel sends packets to a neighbour.
const usable = unix.NUD_PERMANENT | unix.NUD_NOARP | unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE

// newNeighbours reads those of the netdevs that a cube is on.
func newNeighbours(on *netdevs, conf *Config) *neighbours {
	n := &neighbours{on: on, conf: conf, known: map[ownAddress]netlink.Neigh{}, hops: map[[2]netip.Addr]hop{}}
	of := 0 // all netdevs
	for index := range on.entries {
		if !on.host {
			of = int(index)
		}
	}
	if len(on.entries) == 0 {
		return n
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		all, err := netlink.NeighList(of, family)
		if err != nil {
			n.err = errors.Join(n.err, fmt.Errorf("list neighbours: %w", err))
		}
		for _, one := range all {
			if a, ok := netip.AddrFromSlice(one.IP); ok {
				n.known[ownAddress{one.LinkIndex, a.Unmap()}] = one
			}
		}
	}
	return n
}

// hop returns the way to a server of a service. Without one, it has what was known.
func (n *neighbours) hop(to, vip netip.Addr, was hop) hop {
	is, ok := n.hops[[2]netip.Addr{to, vip}]
	if !ok {
		is = n.find(to, vip)
		n.hops[[2]netip.Addr{to, vip}] = is
	}
	if is.mac == 0 {
		is.mac, is.netdev, is.source = was.mac, was.netdev, was.source
	}
	return is
}

func (n *neighbours) find(to, vip netip.Addr) hop {
	if len(n.on.entries) == 0 {
		return hop{why: notOnNetdev}
	}
	r, from, why := n.route(to, vip)
	if why != "" {
		return hop{why: why}
	}
	if _, ok := n.on.entries[uint32(r.LinkIndex)]; !ok || r.Type != unix.RTN_UNICAST {
		if n.on.host {
			return hop{why: "the host's route does not lead to an Ethernet netdev"}
		}
		return hop{why: fmt.Sprintf("the host's route does not lead to %s, where the cube is attached: attach it to `host` to cover all netdevs", n.on.name)}
	}
	next := to
	if gateway, ok := netip.AddrFromSlice(r.Gw); ok {
		next = gateway.Unmap()
	}
	one, ok := n.known[ownAddress{r.LinkIndex, next}]
	ok = ok && one.State&usable != 0 && len(one.HardwareAddr) == 6
	if !ok || one.State&(unix.NUD_STALE) != 0 {
		ask(r.LinkIndex, next)
	}
	if !ok {
		return hop{why: fmt.Sprintf("the MAC address of %s is not known", next)}
	}
	return hop{mac: wordOf(one.HardwareAddr), netdev: uint32(r.LinkIndex), source: from}
}

// route returns the route to a server of a service, and the address of the host that it sees; or why there is none.
func (n *neighbours) route(to, vip netip.Addr) (*netlink.Route, netip.Addr, string) {
	from := n.conf.source(vip)
	if n.on.host && from == vip { // unless the netdev has it, the one that the host uses
		routes, err := netlink.RouteGet(to.AsSlice())
		if err != nil || len(routes) != 1 {
			return nil, from, fmt.Sprintf("no route: %v", err)
		}
		if source, ok := netip.AddrFromSlice(routes[0].Src); ok && !n.on.own[ownAddress{routes[0].LinkIndex, vip}] {
			return &routes[0], source.Unmap(), ""
		}
	}
	routes, err := netlink.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{SrcAddr: from.AsSlice()})
	if err != nil || len(routes) != 1 {
		return nil, from, fmt.Sprintf("no route from %s, which must be an address of the host: %v", from, err)
	}
	return &routes[0], from, ""
}

// ask has the kernel resolve a neighbour, or verify it.
func ask(index int, next netip.Addr) {
	family := netlink.FAMILY_V4
	if next.Is6() {
		family = netlink.FAMILY_V6
	}
	// Errors show: the neighbour stays as it is.
	_ = netlink.NeighSet(&netlink.Neigh{LinkIndex: index, Family: family, IP: net.IP(next.AsSlice()), Flags: unix.NTF_USE})
}
