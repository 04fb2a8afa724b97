// SPDX-License-Identifier: Apache-2.0

package cube

import (
	"encoding/json"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/polycube/polycube/cube/vlan"
)

// Parent is the port or netdev that a transparent cube is attached to, with the parameters that the cube inherits. The
// zero value is for a cube that is not attached. It must not be modified.
type Parent struct {
	// Name is "cube:port", the name of a netdev, or "host": then only Netdevs is set, too.
	Name string
	// Cube and Port are the two parts of the name of a port.
	Cube, Port string
	// Peer is the peer of a port: a netdev, "cube:port", or "" for none.
	Peer string
	// Netdev is the netdev itself or the port's peer, and Index its interface index, 0 while it does not exist.
	Netdev string
	Index  int
	// MAC is the leaf `mac` of the port or, if it has none, that of the netdev.
	MAC net.HardwareAddr
	// Addresses are the leaf `ip` of the port, then those of its list `secondaryip`; if the port's model has no `ip`,
	// they are the netdev's.
	Addresses []netip.Prefix
	// MTU is the leaf `mtu` of the port or, if it has none, that of the netdev; 0 is unknown.
	MTU int
	// VLANs are the VLAN netdevs on the netdev where the cube is attached, for which it may process tagged frames.
	VLANs []vlan.Netdev
	// Netdevs are the names of the netdevs by interface index, if the cube is at the host's stack. The map is not changed.
	Netdevs map[int]string
	// Leaves is the port's configuration with defaults, an object of its model; nil for a netdev.
	Leaves json.RawMessage
}

// Leaf decodes a member of the parent port's configuration into the variable that value points to, and reports whether
// there is one of that type.
func (p Parent) Leaf(name string, value any) bool {
	var object map[string]json.RawMessage
	if p.Leaves == nil || json.Unmarshal(p.Leaves, &object) != nil {
		return false
	}
	raw, ok := object[name]
	return ok && json.Unmarshal(raw, value) == nil
}

// Equal reports whether two Parents are the same.
func (p Parent) Equal(q Parent) bool {
	return p.Name == q.Name && p.Peer == q.Peer && p.Netdev == q.Netdev && p.Index == q.Index && p.MTU == q.MTU &&
		maps.Equal(p.Netdevs, q.Netdevs) && slices.Equal(p.VLANs, q.VLANs) && slices.Equal(p.MAC, q.MAC) && slices.Equal(p.Addresses, q.Addresses) && slices.Equal(p.Leaves, q.Leaves)
}
