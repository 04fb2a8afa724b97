// SPDX-License-Identifier: Apache-2.0

package shadow

// Routes in a cube's namespace that tell routing daemons there what the cube serves. They lead nowhere: packets for these
// addresses are the cube's, and do not reach the namespace.

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/advertise"
	"github.com/polycube/polycube/internal/netdev"
)

// Advertise makes the routes of a cube in its namespace those to prefixes.
func (k *Keeper) Advertise(uuid string, prefixes []netip.Prefix) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.spaces[uuid]
	if s == nil {
		return fmt.Errorf("shadow: the cube has no namespace: %w", cube.ErrNotFound)
	}
	if err := netdev.InNamespace(s.file, func() error { return setAdvertised(prefixes) }); err != nil {
		return fmt.Errorf("shadow: routes in the namespace of %s: %w", s.cube, err)
	}
	return nil
}

// setAdvertised works in the namespace of the thread.
func setAdvertised(prefixes []netip.Prefix) error {
	want := map[netip.Prefix]bool{}
	for _, p := range prefixes {
		want[p] = true
	}
	there, err := netlink.RouteListFiltered(unix.AF_UNSPEC,
		&netlink.Route{Protocol: advertise.Protocol, Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	for _, r := range there {
		if p := prefixOf(r.Dst); r.Type == unix.RTN_BLACKHOLE && want[p] {
			delete(want, p)
		} else if delErr := netlink.RouteDel(&r); delErr != nil && !errors.Is(delErr, unix.ESRCH) {
			err = errors.Join(err, fmt.Errorf("remove %v: %w", p, delErr))
		}
	}
	for p := range want {
		r := netlink.Route{
			Dst:  &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())},
			Type: unix.RTN_BLACKHOLE, Protocol: advertise.Protocol, Table: unix.RT_TABLE_MAIN,
		}
		if addErr := netlink.RouteAdd(&r); addErr != nil {
			err = errors.Join(err, fmt.Errorf("add %v: %w", p, addErr))
		}
	}
	return err
}

// prefixOf returns the destination of a route.
func prefixOf(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	a, _ := netip.AddrFromSlice(n.IP)
	ones, bits := n.Mask.Size()
	if bits == 32 {
		a = a.Unmap()
	}
	return netip.PrefixFrom(a, ones)
}
