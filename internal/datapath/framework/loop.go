// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/netdev"
)

// Loop is a veth pair through which copies of packets come back into XDP programs. XDP can copy a packet only to
// netdevs; so a copy for another program leaves through one end, with a header that describes it, and enters that
// program at the other. Copies of native XDP go from Out to In and stay native, those of generic XDP the other way and
// stay generic: only generic XDP can send to every netdev.
type Loop struct {
	// Out and In are the interface indexes of the two ends; 0 for no loop.
	Out, In int
	name    string
}

// Exit returns the end to which a cube of the type sends.
func (l Loop) Exit(t cube.Type) int {
	if t == cube.TypeXDPSKB {
		return l.In
	}
	return l.Out
}

// loopMTU leaves room for the header: larger frames are in several buffers, which XDP cannot copy anyway.
const loopMTU = 3400

// loopAlias marks the pair as ours.
const loopAlias = "polycube loop"

// OpenLoop creates the pair, named name and name+"i", or uses the existing one.
func OpenLoop(name string) (Loop, error) {
	l := Loop{name: name}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = name, loopMTU
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: name + "i", PeerMTU: loopMTU}
	err := netlink.LinkAdd(pair)
	if err == nil {
		err = netlink.LinkSetAlias(pair, loopAlias)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return l, fmt.Errorf("create %s: %w", name, err)
	}
	for end, index := range map[string]*int{name: &l.Out, name + "i": &l.In} {
		link, err := netlink.LinkByName(end)
		if err != nil {
			return l, fmt.Errorf("open %s: %w", end, err)
		}
		if link.Type() != "veth" || end == name && link.Attrs().Alias != loopAlias {
			return l, fmt.Errorf("open %s: a netdev that polycubed did not create has that name: %w", end, cube.ErrInUse)
		}
		if err := errors.Join(netdev.Quiet(end), netlink.LinkSetUp(link)); err != nil {
			return l, fmt.Errorf("open %s: %w", end, err)
		}
		*index = link.Attrs().Index
	}
	// Native XDP sends to In if its packets have reached a cube of type XDP_SKB.
	ready, err := netdev.EnsureCanReceiveRedirects(name + "i")
	if err == nil && !ready.OK {
		err = errors.New(ready.Reason)
	}
	if err != nil {
		return l, fmt.Errorf("open %s: %w", name, err)
	}
	return l, nil
}

// OpenLoopExit enables sending single packets through the loop.
func (f *Framework) OpenLoopExit(l Loop) error {
	for name, end := range map[string]int{abi.MapLoopExit: l.Out, abi.MapLoopBack: l.In} {
		to := abi.Device{Ifindex: uint32(end), Program: uint32(f.Downs["loop-out"].FD())}
		if err := f.Maps[name].Put(uint32(0), to); err != nil {
			return fmt.Errorf("open the path to the loop device: %w", err)
		}
	}
	return nil
}

// Remove deletes the pair.
func (l Loop) Remove() error {
	link, err := netlink.LinkByName(l.name)
	if err != nil {
		var gone netlink.LinkNotFoundError
		if errors.As(err, &gone) {
			return nil
		}
		return fmt.Errorf("remove %s: %w", l.name, err)
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("remove %s: %w", l.name, err)
	}
	return nil
}
