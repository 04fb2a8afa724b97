// SPDX-License-Identifier: Apache-2.0

package cube

import (
	"net"
	"net/netip"
	"slices"
)

// Peer is what a port is connected to. The zero value is a port that has no peer. It must not be changed.
type Peer struct {
	// Name is "cube:port" or the name of a netdev.
	Name string
	// Netdev is the name again if it is a netdev, and Index its number, 0 while it does not exist. The rest is that of the
	// netdev.
	Netdev    string
	Index     int
	MAC       net.HardwareAddr
	Addresses []netip.Prefix
	MTU       int
	// Speed is that of the link in Mbit/s, 0 while it is not known.
	Speed uint32
}

// Equal says whether nothing changed from one Peer to another.
func (p Peer) Equal(q Peer) bool {
	return p.Name == q.Name && p.Netdev == q.Netdev && p.Index == q.Index && p.MTU == q.MTU && p.Speed == q.Speed &&
		slices.Equal(p.MAC, q.MAC) && slices.Equal(p.Addresses, q.Addresses)
}
