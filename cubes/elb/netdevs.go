// SPDX-License-Identifier: Apache-2.0

package elb

// The netdevs that a cube is on: one, or all of the host if it is at `host`. Programs need the address of each, and at XDP the
// output of the cube that leads to it.

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// noWay is ELB_NO_WAY.
const noWay = 16

// netdevs are those at one time.
type netdevs struct {
	// host says that they are those of the host.
	host bool
	// name is for messages: that of the only one.
	name    string
	entries map[uint32]netdevEntry
	// own are the addresses of each one, if they are those of the host.
	own map[ownAddress]bool
}

// ownAddress is an address of a netdev.
type ownAddress struct {
	index int
	is    netip.Addr
}

// netdevs reads those that the cube is on, in the namespace of the host.
func (b *balancer) netdevs() (*netdevs, error) {
	p := &b.parent
	on := &netdevs{host: p.Netdevs != nil, name: p.Netdev, entries: map[uint32]netdevEntry{}}
	if !on.host {
		if p.Cube == "" && p.Index != 0 && len(p.MAC) == 6 {
			on.entries[uint32(p.Index)] = netdevEntry{MAC: wordOf(p.MAC), Output: noWay, MTU: uint32(p.MTU)}
		}
		return on, nil
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list the netdevs of the host: %w", err)
	}
	outputs := b.outputs()
	for _, link := range links {
		is := link.Attrs()
		if p.Netdevs[is.Index] == "" || is.Flags&net.FlagLoopback != 0 || len(is.HardwareAddr) != 6 {
			continue
		}
		e := netdevEntry{MAC: wordOf(is.HardwareAddr), Output: noWay, MTU: uint32(is.MTU)}
		if number, ok := outputs[is.Index]; ok {
			e.Output = uint32(number)
		} else if b.env.Type().Hook() == cube.TC { // no output is needed
			e.Output = 0
		}
		on.entries[uint32(is.Index)] = e
	}
	on.own, err = addresses()
	return on, err
}

// outputs are the numbers of those that lead to netdevs, by interface index.
func (b *balancer) outputs() map[int]uint8 {
	all := map[int]uint8{}
	for _, o := range b.conf.Outputs {
		if to := b.to[o.Number]; to.Name == o.To && to.Index != 0 && !o.Received {
			all[to.Index] = o.Number
		}
	}
	return all
}

// addresses are those of all netdevs.
func addresses() (map[ownAddress]bool, error) {
	list, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list the addresses of the host: %w", err)
	}
	all := map[ownAddress]bool{}
	for _, one := range list {
		if a, ok := netip.AddrFromSlice(one.IP); ok {
			all[ownAddress{one.LinkIndex, a.Unmap()}] = true
		}
	}
	return all, nil
}

// writeNetdevs has programs know them.
func (b *balancer) writeNetdevs(on *netdevs) error {
	var undo cube.Undo
	if err := cube.Carry([]cube.Step{table.Replace(b.maps.netdevs, on.entries)}, &undo); err != nil {
		return errors.Join(fmt.Errorf("write the netdevs of the cube: %w", err), undo.Run())
	}
	return nil
}

// inetAddress is the address in an entry, which has none before it is resolved.
func inetAddress(a netip.Addr) inet.Address {
	if !a.IsValid() {
		return inet.Address{}
	}
	return inet.AddressOf(a)
}
