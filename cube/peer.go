// SPDX-License-Identifier: Apache-2.0

package cube

import (
	"net"
	"net/netip"
	"slices"

	"github.com/polycube/polycube/cube/vlan"
)

// Peer is the peer of a port. The zero value is for a port without a peer. It must not be modified.
type Peer struct {
	// Name is "cube:port" or the name of a netdev.
	Name string
	// Netdev is the name again if it is a netdev, and Index its interface index, 0 while it does not exist. The
	// other fields describe the netdev.
	Netdev    string
	Index     int
	MAC       net.HardwareAddr
	Addresses []netip.Prefix
	MTU       int
	// Speed is the link speed in Mbit/s, 0 while it is unknown.
	Speed uint32
	// VLANs are the VLAN netdevs on the netdev for which an output may send tagged frames. Ports do not have them.
	VLANs []vlan.Netdev
}

// Equal reports whether two Peers are the same.
func (p Peer) Equal(q Peer) bool {
	return p.Name == q.Name && p.Netdev == q.Netdev && p.Index == q.Index && p.MTU == q.MTU && p.Speed == q.Speed &&
		slices.Equal(p.MAC, q.MAC) && slices.Equal(p.Addresses, q.Addresses) && slices.Equal(p.VLANs, q.VLANs)
}
