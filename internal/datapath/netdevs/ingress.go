// SPDX-License-Identifier: Apache-2.0

package netdevs

import (
	"errors"

	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
)

// A packet that returns from user space to the stack bears a mark, by which the root program at the TC ingress of its netdev
// leaves it alone. A table has the netdevs with such a program: elsewhere the mark would stay on the packet.

// openIngress reads the table of a previous daemon, and corrects it.
func (n *Netdevs) openIngress() error {
	rows := map[uint32]uint32{}
	if err := bpfmap.ReadHash(n.fw.Maps[abi.MapTCIngress], rows); err != nil {
		return err
	}
	n.atIngress = map[uint32]bool{}
	for ifindex := range rows {
		n.atIngress[ifindex] = true
	}
	return n.tellIngress()
}

// tellIngress makes the table list the netdevs that have a root program at TC ingress now.
func (n *Netdevs) tellIngress() error {
	set, yes := bpfmap.HashSetter[uint32](n.fw.Maps[abi.MapTCIngress]), uint32(1)
	has := func(ifindex uint32) bool {
		return n.attached[spot{int(ifindex), kindIngress}] != nil || n.attached[spot{int(ifindex), kindHostIn}] != nil
	}
	var errs []error
	for s := range n.attached {
		ifindex := uint32(s.ifindex)
		if n.atIngress[ifindex] || !has(ifindex) {
			continue
		}
		if err := set(ifindex, &yes); err != nil {
			errs = append(errs, err)
			continue
		}
		n.atIngress[ifindex] = true
	}
	for ifindex := range n.atIngress {
		if has(ifindex) {
			continue
		}
		if err := set(ifindex, nil); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(n.atIngress, ifindex)
	}
	return errors.Join(errs...)
}
