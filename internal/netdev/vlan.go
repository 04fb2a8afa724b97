// SPDX-License-Identifier: Apache-2.0

package netdev

import "github.com/vishvananda/netlink"

// VLAN is about a VLAN netdev: frames that the netdev below receives with this tag.
type VLAN struct {
	// Below is the index of that netdev, 0 if it is in another namespace.
	Below int
	// Protocol is the EtherType of the tag, ID the VLAN id.
	Protocol, ID uint16
	// Plain tells that the netdev does nothing but add and remove the tag, and has no master, a VRF neither.
	Plain bool
}

// takers are the kinds of netdevs that take frames of another one, unlike VLAN netdevs also untagged ones.
var takers = []string{"macvlan", "macvtap", "ipvlan", "ipvtap"}

func vlanOf(l netlink.Link) VLAN {
	v, ok := l.(*netlink.Vlan)
	if !ok {
		return VLAN{}
	}
	a := l.Attrs()
	out := VLAN{Below: a.ParentIndex, Protocol: uint16(v.VlanProtocol), ID: uint16(v.VlanId)}
	if a.NetNsID >= 0 {
		out.Below = 0
	}
	out.Plain = a.MasterIndex == 0 && len(v.IngressQosMap) == 0 && len(v.EgressQosMap) == 0 && v.ReorderHdr != nil && *v.ReorderHdr &&
		(a.Xdp == nil || !a.Xdp.Attached)
	return out
}
