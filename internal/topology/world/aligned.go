// SPDX-License-Identifier: Apache-2.0

package world

// Netdevs that are kept equal with ports (ADR 0038), as data: how one looked last, and what its change means for the port.

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
)

// Aligned is a netdev that is kept equal with a port, as it looked last. It is never changed.
type Aligned struct {
	// PortUUID is the UUID of the port.
	PortUUID string
	// Found tells that it was there at the start of the daemon, and was not given anything since.
	Found bool
	// Given is the address that the netdev was given, nil while it has its own.
	Given net.HardwareAddr
	netdev.Look
}

// Gave says whether a MAC address is the one that the netdev was given, as far as is known.
func (a *Aligned) Gave(mac net.HardwareAddr) bool {
	return a == nil || a.Found || bytes.Equal(mac, a.Given)
}

// OnNetdev says whether the peer is a netdev.
func (p *Port) OnNetdev() bool { return p.Peer != "" && !strings.Contains(p.Peer, ":") }

// Without are the elements of a list that are not in another one.
func Without(list, others []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(list), func(p netip.Prefix) bool { return slices.Contains(others, p) })
}

// Change is how a port is to look after its netdev has changed to what it looks like now. One that is down or was has lost
// addresses by that: the port keeps them.
func (a *Aligned) Change(port cube.Interface, p *Port, look netdev.Look) cube.Interface {
	is := port
	came := Without(Without(look.Addresses, a.Addresses), port.Addresses)
	if look.Up && a.Up && look.Flaps == a.Flaps {
		is.Addresses = Without(port.Addresses, Without(a.Addresses, look.Addresses))
	}
	is.Addresses = append(slices.Clone(is.Addresses), came...)
	if port.MAC != nil && !bytes.Equal(look.MAC, a.MAC) {
		is.MAC, p.OwnMAC = look.MAC, ""
	}
	return is
}

// SameAs says whether nothing has changed that ports follow.
func (a *Aligned) SameAs(look netdev.Look) bool {
	sorted := func(list []netip.Prefix) []netip.Prefix {
		return slices.SortedFunc(slices.Values(list), netip.Prefix.Compare)
	}
	return a.Index == look.Index && a.Up == look.Up && a.Flaps == look.Flaps && bytes.Equal(a.MAC, look.MAC) &&
		slices.Equal(sorted(a.Addresses), sorted(look.Addresses))
}
