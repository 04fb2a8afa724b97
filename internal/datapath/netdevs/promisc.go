// SPDX-License-Identifier: Apache-2.0

package netdevs

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// A cube forwards frames that are for other machines, which a NIC only receives in promiscuous mode. So the netdevs
// behind ports are made promiscuous, like those of a Linux bridge, and restored when they leave, if we changed them: a
// pinned map records that.

const mapPromisc = "promisc"

func openPromisc(dir string) (*ebpf.Map, error) {
	return bpfmap.Open(filepath.Join(dir, mapPromisc), &ebpf.MapSpec{
		Name: mapPromisc, Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: graph.MaxSlot,
	})
}

// promiscOn enables promiscuous mode of a port's netdev, unless it is enabled already.
func (n *Netdevs) promiscOn(u *undo.Stack, w want) error {
	if w.spot.place == kindEgress {
		return nil
	}
	l, err := netlink.LinkByIndex(w.spot.ifindex)
	if err != nil {
		return fmt.Errorf("netdev %s: %w", w.name, err)
	}
	if l.Attrs().RawFlags&unix.IFF_PROMISC != 0 {
		return nil
	}
	if err := netlink.SetPromiscOn(l); err != nil {
		return fmt.Errorf("netdev %s: promiscuous mode: %w", w.name, err)
	}
	u.Push(func() error { return n.promiscOff(w.spot) })
	if err := n.promisc.Put(uint32(w.spot.ifindex), uint32(1)); err != nil {
		return fmt.Errorf("netdev %s: promiscuous mode: %w", w.name, err)
	}
	return nil
}

// promiscOff reverses promiscOn.
func (n *Netdevs) promiscOff(s spot) error {
	ours := n.promisc
	if s.place == kindEgress || errors.Is(ours.Delete(uint32(s.ifindex)), ebpf.ErrKeyNotExist) {
		return nil
	}
	l, err := netlink.LinkByIndex(s.ifindex)
	var gone netlink.LinkNotFoundError
	if errors.As(err, &gone) {
		return nil
	}
	if err == nil {
		err = netlink.SetPromiscOff(l)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) { // it may disappear at any moment
		return fmt.Errorf("netdev %d: promiscuous mode off: %w", s.ifindex, err)
	}
	return nil
}
