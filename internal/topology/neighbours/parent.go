// SPDX-License-Identifier: Apache-2.0

package neighbours

// What a transparent cube inherits from where it is attached.

import (
	"maps"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/vlan"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// parentNews is the last notification of a cube about its parent, delivered or not.
type parentNews struct {
	cube.Parent
	// from and device are what it was computed from. Neither is ever changed, so the same pointers mean the same content.
	from   *world.Cube
	device netdev.Info
	// posted is set while a call is in the mailbox: it delivers what is here then.
	posted bool
}

// inherit updates what a cube inherits from its parent, and reports whether it changed.
func (n *Neighbours) inherit(w *unit.Snapshot, vlans map[int][]vlan.Netdev, rec *world.Cube, h *parentNews) bool {
	p := cube.Parent{Name: rec.Parent}
	var from *world.Cube
	if rec.Parent != "" {
		at, err := world.ParsePlace(rec.Parent)
		if err != nil {
			return false
		}
		if p.Netdev = at.Netdev; at.IsHost() {
			p.Netdev, p.Netdevs = "", n.names()
		}
		if at.Netdev == "" {
			from = w.Cubes[at.Cube]
			p.Cube, p.Port, p.Peer, p.Netdev = at.Cube, at.Port, "", ""
			if peer, err := w.PeerOf(at); err == nil {
				p.Peer, p.Netdev = peer.String(), peer.Netdev
			}
		}
	}
	device := n.infos[p.Netdev]
	if from == nil {
		p.VLANs = vlans[device.Index]
	}
	if h.Name == p.Name && h.Netdev == p.Netdev && h.from == from && sameNetdev(h.device, device) && maps.Equal(h.Netdevs, p.Netdevs) && slices.Equal(h.VLANs, p.VLANs) {
		return false
	}
	world.Fill(&p, from, device)
	changed := !h.Equal(p)
	h.Parent, h.from, h.device = p, from, device
	return changed
}

// names are those of all netdevs, by interface index.
func (n *Neighbours) names() map[int]string {
	out := make(map[int]string, len(n.infos))
	for name, info := range n.infos {
		out[info.Index] = name
	}
	return out
}

// sameNetdev reports whether nothing that is inherited has changed.
func sameNetdev(a, b netdev.Info) bool {
	return a.Index == b.Index && a.MTU == b.MTU && slices.Equal(a.MAC, b.MAC) && slices.Equal(a.Addresses, b.Addresses)
}
