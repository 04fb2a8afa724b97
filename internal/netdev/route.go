// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ErrNoRoute says that the host cannot reach a destination, or must not.
var ErrNoRoute = errors.New("no route")

// Route is the way to a destination.
type Route struct {
	// Netdev is where packets leave.
	Netdev string
	Index  int
	// Gateway is the next hop, the zero value if the destination is on the link, and Source the host's address.
	Gateway, Source netip.Addr
	// MAC is that of the next hop or the destination, nil while the kernel does not know it.
	MAC net.HardwareAddr
	MTU int
}

// RouteTo looks up a destination as the kernel does for packets of the host; ErrNoRoute if there is none.
func RouteTo(to netip.Addr) (Route, error) {
	list, err := netlink.RouteGet(to.Unmap().AsSlice())
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EINVAL) {
		return Route{}, fmt.Errorf("%w to %s: %w", ErrNoRoute, to, err) // or packets are refused or dropped
	}
	if err != nil {
		return Route{}, fmt.Errorf("look up the route to %s: %w", to, err)
	}
	if len(list) == 0 {
		return Route{}, fmt.Errorf("%w to %s", ErrNoRoute, to)
	}
	r := list[0]
	out := Route{Index: r.LinkIndex, MTU: r.MTU}
	out.Gateway, _ = netip.AddrFromSlice(r.Gw)
	if r.Via != nil {
		if via, ok := r.Via.(*netlink.Via); ok {
			out.Gateway, _ = netip.AddrFromSlice(via.Addr)
		}
	}
	out.Source, _ = netip.AddrFromSlice(r.Src)
	out.Gateway, out.Source = out.Gateway.Unmap(), out.Source.Unmap()
	link, err := netlink.LinkByIndex(r.LinkIndex)
	if err != nil {
		return Route{}, fmt.Errorf("look up the netdev of the route to %s: %w", to, err)
	}
	out.Netdev = link.Attrs().Name
	if out.MTU == 0 {
		out.MTU = link.Attrs().MTU
	}
	hop := out.Gateway
	if !hop.IsValid() {
		hop = to.Unmap()
	}
	out.MAC, err = neighbourOf(r.LinkIndex, hop)
	return out, err
}

// neighbourOf returns the MAC address of a neighbour, nil if the kernel does not know it.
func neighbourOf(link int, hop netip.Addr) (net.HardwareAddr, error) {
	family := unix.AF_INET
	if hop.Is6() {
		family = unix.AF_INET6
	}
	list, err := netlink.NeighList(link, family)
	if err != nil {
		return nil, fmt.Errorf("look up neighbour %s: %w", hop, err)
	}
	const usable = netlink.NUD_PERMANENT | netlink.NUD_NOARP | netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE
	for _, n := range list {
		if address, ok := netip.AddrFromSlice(n.IP); ok && address.Unmap() == hop && n.State&usable != 0 && len(n.HardwareAddr) > 0 {
			return slices.Clone(n.HardwareAddr), nil
		}
	}
	return nil, nil
}
