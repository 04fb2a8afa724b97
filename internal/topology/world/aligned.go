// SPDX-License-Identifier: Apache-2.0

package world

// Netdevs whose addresses are synchronized with ports (ADR 0038), as data: the last known addresses of a netdev, and
// the effect of a change on the port.

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
)

// Aligned is the last known state of a netdev that is synchronized with a port. It is never changed.
type Aligned struct {
	// PortUUID is the UUID of the port.
	PortUUID string
	// Found is set if the netdev existed at the start of the daemon and nothing has been set on it since.
	Found bool
	// Given is the address that was set on the netdev, nil while it has its own.
	Given net.HardwareAddr
	netdev.Status
}

// Gave reports whether a MAC address is the one that was set on the netdev, as far as is known.
func (a *Aligned) Gave(mac net.HardwareAddr) bool {
	return a == nil || a.Found || bytes.Equal(mac, a.Given)
}

// OnNetdev reports whether the peer is a netdev.
func (p *Port) OnNetdev() bool { return p.Peer != "" && !strings.Contains(p.Peer, ":") }

// OnNetdev reports whether the peer of any port is a netdev.
func (r *Cube) OnNetdev() bool {
	for _, p := range r.Ports {
		if p.OnNetdev() {
			return true
		}
	}
	return false
}

// Without returns the elements of a list that are not in another one.
func Without(list, others []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(list), func(p netip.Prefix) bool { return slices.Contains(others, p) })
}

// Change returns the new settings of a port after its netdev has changed to status. A netdev that is or was down has lost
// addresses because of that: the port keeps them.
func (a *Aligned) Change(port cube.Interface, p *Port, status netdev.Status) cube.Interface {
	is := port
	came := Without(Without(status.Addresses, a.Addresses), port.Addresses)
	if status.Up && a.Up && status.Flaps == a.Flaps {
		is.Addresses = Without(port.Addresses, Without(a.Addresses, status.Addresses))
	}
	is.Addresses = append(slices.Clone(is.Addresses), came...)
	if port.MAC != nil && !bytes.Equal(status.MAC, a.MAC) {
		is.MAC, p.OwnMAC = status.MAC, ""
	}
	return is
}

// SameAs reports whether nothing has changed that the port is synchronized with.
func (a *Aligned) SameAs(status netdev.Status) bool {
	sorted := func(list []netip.Prefix) []netip.Prefix {
		return slices.SortedFunc(slices.Values(list), netip.Prefix.Compare)
	}
	return a.Index == status.Index && a.Up == status.Up && a.Flaps == status.Flaps && bytes.Equal(a.MAC, status.MAC) &&
		slices.Equal(sorted(a.Addresses), sorted(status.Addresses))
}
