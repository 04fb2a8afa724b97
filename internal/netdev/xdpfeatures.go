// SPDX-License-Identifier: Apache-2.0

// The XDP features of a driver are reported by the generic netlink family "netdev", since Linux 6.3.

package netdev

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Numbers of linux/netdev.h.
const (
	netdevFamily       = "netdev"
	netdevCmdDevGet    = 1
	netdevAttrIfindex  = 1
	netdevAttrFeatures = 3
	// actNdoXmit is NETDEV_XDP_ACT_NDO_XMIT: the device accepts redirected frames.
	actNdoXmit = 1 << 2
)

// errNoFeatures is for a kernel that does not report them.
var errNoFeatures = errors.New("the kernel does not report the XDP features of the device")

// takesRedirects reports whether the kernel lets XDP redirect frames to the device. Otherwise it silently drops them.
func takesRedirects(index int) (bool, error) {
	can, err := xdpFeatures(index)
	return can&actNdoXmit != 0, err
}

// xdpFeatures are the bits NETDEV_XDP_ACT_* of a device.
func xdpFeatures(index int) (uint64, error) {
	family, err := findFamily(netdevFamily)
	if err != nil {
		return 0, errNoFeatures
	}
	req := nl.NewNetlinkRequest(int(family.id), 0)
	req.AddData(genlHeader{netdevCmdDevGet, family.version})
	req.AddData(nl.NewRtAttr(netdevAttrIfindex, nl.Uint32Attr(uint32(index))))
	msgs, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return 0, fmt.Errorf("XDP features of device %d: %w", index, err)
	}
	for _, m := range msgs {
		if len(m) < nl.SizeofGenlmsg {
			continue
		}
		attrs, err := nl.ParseRouteAttr(m[nl.SizeofGenlmsg:])
		if err != nil {
			return 0, fmt.Errorf("XDP features of device %d: %w", index, err)
		}
		for _, a := range attrs {
			if a.Attr.Type == netdevAttrFeatures && len(a.Value) == 8 {
				return binary.NativeEndian.Uint64(a.Value), nil
			}
		}
	}
	return 0, errNoFeatures
}
