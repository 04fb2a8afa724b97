// SPDX-License-Identifier: Apache-2.0

package netdevs

import (
	"fmt"
	"os"
	"slices"

	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/internal/datapath/graph"
)

// At native XDP, a frame that does not fit a page is in several buffers. Programs accept such frames; kernels before
// Linux 6.3 silently fail to redirect them.

// OneBuffer is the largest MTU, in bytes, whose frames fit one buffer: a page without headroom, the kernel's information
// about the buffers, and the Ethernet header.
func OneBuffer() int { return os.Getpagesize() - 640 }

// NeedFrags reports whether a netdev's frames may not fit one buffer at XDP. ask returns the MTU of a netdev whose own
// is 0; nil asks the kernel.
func NeedFrags(devs []*graph.Netdev, ask func(ifindex int) (int, error)) bool {
	return slices.ContainsFunc(devs, func(d *graph.Netdev) bool { return mtuOf(d.Index, d.MTU, ask) > OneBuffer() })
}

// mtuOf returns a netdev's MTU in bytes: the given one or, if that is 0, the kernel's. A netdev that is gone has an MTU
// of 0.
func mtuOf(ifindex, given int, ask func(ifindex int) (int, error)) int {
	if given != 0 || ifindex == 0 {
		return given
	}
	if ask == nil {
		ask = kernelMTU
	}
	n, err := ask(ifindex)
	if err != nil {
		return 0
	}
	return n
}

func kernelMTU(ifindex int) (int, error) {
	l, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		return 0, fmt.Errorf("netdev %d: %w", ifindex, err)
	}
	return l.Attrs().MTU, nil
}

// mtuNote returns why long frames of a port's netdev cannot be forwarded, with the remedy; "" if they can.
func (n *Netdevs) mtuNote(w want) string {
	if n.kernel.RedirectFrags || w.kind != kindXDP || !w.port {
		return ""
	}
	mtu := mtuOf(w.spot.ifindex, w.link.mtu, n.askMTU)
	if mtu <= OneBuffer() {
		return ""
	}
	return fmt.Sprintf("its MTU is %d, and this kernel cannot redirect XDP frames that do not fit one buffer: "+
		"set an MTU of %d or less, use type TC or XDP_SKB, or run Linux 6.3 or newer", mtu, OneBuffer())
}
