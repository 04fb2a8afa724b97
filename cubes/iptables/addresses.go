// SPDX-License-Identifier: Apache-2.0

package iptables

// The addresses of the host, which conditions about the type of an address need.

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// ownAddresses keeps the table of addresses as the host has them.
type ownAddresses struct {
	env  cube.Env
	rows table.Table[[16]byte, uint32]
	done chan struct{} // nil before the first follow
}

func newOwnAddresses(env cube.Env) *ownAddresses {
	return &ownAddresses{env: env, rows: table.New[[16]byte, uint32](env, "addresses")}
}

// follow writes the addresses, now and whenever they change.
func (o *ownAddresses) follow() (undo func() error, err error) {
	if o.done != nil {
		return nil, nil
	}
	updates, done := make(chan netlink.AddrUpdate, 64), make(chan struct{})
	if err := netlink.AddrSubscribe(updates, done); err != nil {
		return nil, fmt.Errorf("follow the host's addresses: %w", err)
	}
	o.done = done
	go func() {
		for range updates {
			for len(updates) > 0 {
				<-updates
			}
			if err := o.env.Do(o.refresh); err != nil {
				return // the cube is closed
			}
		}
	}()
	o.refresh()
	return nil, nil
}

// refresh writes the addresses.
func (o *ownAddresses) refresh() {
	all, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err == nil {
		want := map[[16]byte]uint32{}
		for _, a := range all {
			add(want, a.IP, typeLocal)
			if a.Broadcast != nil && !a.Broadcast.Equal(a.IP) {
				add(want, a.Broadcast, typeBroadcast)
			} else if ones, bits := a.Mask.Size(); bits == 32 && ones < 31 {
				add(want, broadcast(a.IPNet), typeBroadcast)
			}
		}
		_, err = table.Replace(o.rows, want).Do()
	}
	if err != nil {
		o.env.Logger().Error("the types of addresses are not known", "error", err)
	}
}

// broadcast returns the last address of a network.
func broadcast(n *net.IPNet) net.IP {
	out := make(net.IP, 0, net.IPv4len)
	for i, b := range n.IP.To4() {
		out = append(out, b|^n.Mask[i])
	}
	return out
}

func add(to map[[16]byte]uint32, ip net.IP, kind uint32) {
	if a, ok := netip.AddrFromSlice(ip); ok {
		to[a.As16()] = kind
	}
}

func (o *ownAddresses) close() {
	if o.done != nil {
		close(o.done)
	}
}
