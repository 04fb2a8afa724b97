// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Facts are the properties of a device that affect its speed with cubes.
type Facts struct {
	Info
	// Driver is the kernel's name of the driver, empty if the device has none.
	Driver string
	// XDPKnown tells that the kernel reports the XDP features of the device; otherwise the following are false.
	XDPKnown bool
	// Native tells that the driver runs XDP programs itself, Redirects that they can send frames to other devices,
	// Fragments that it supports frames in several buffers.
	Native, Redirects, Fragments bool
	// The current state of relevant offloads.
	GRO, LRO, VLANStrip bool
}

// Bits of NETDEV_XDP_ACT_*, of linux/netdev.h.
const (
	actBasic    = 1 << 0
	actRedirect = 1 << 1
	actRxSg     = 1 << 5
)

// FactsOf reads a device. It changes nothing.
func FactsOf(name string) (Facts, error) {
	info, err := Get(name)
	if err != nil {
		return Facts{}, err
	}
	f := Facts{Info: info}
	xdp, err := xdpFeatures(info.Index)
	switch {
	case err == nil:
		f.XDPKnown = true
		f.Native, f.Redirects, f.Fragments = xdp&actBasic != 0, xdp&actRedirect != 0, xdp&actRxSg != 0
	case !errors.Is(err, errNoFeatures):
		return Facts{}, err
	}
	if f.Driver, err = driverOf(name); err != nil {
		return Facts{}, err
	}
	offloads, err := readFeatures(name)
	if err != nil {
		return Facts{}, err
	}
	f.GRO, f.LRO, f.VLANStrip = offloads.active("rx-gro"), offloads.active("rx-lro"), offloads.active("rx-vlan-hw-parse")
	return f, nil
}

// driverOf is the name of a device's driver.
func driverOf(name string) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("%s: driver: %w", name, err)
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, name)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: driver: %w", name, err)
	}
	return unix.ByteSliceToString(info.Driver[:]), nil
}
