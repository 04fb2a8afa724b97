// SPDX-License-Identifier: Apache-2.0

package neighbours

// The VLAN netdevs in whose place a transparent cube on the netdev below may process tagged frames.

import (
	"cmp"
	"slices"

	"github.com/polycube/polycube/cube/vlan"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// vlansOn returns those on each netdev, by interface index. n.mu is held.
func (n *Neighbours) vlansOn(w *unit.Snapshot) map[int][]vlan.Netdev {
	out := map[int][]vlan.Netdev{}
	var taken func(netdev.Info) bool // it takes a while, and most hosts have no VLAN netdevs
	for _, i := range n.infos {
		v := i.VLAN
		if v.Below == 0 || !v.Plain || !i.Up || v.ID == 0 || len(i.MAC) != 6 {
			continue
		}
		if taken == nil {
			taken = n.taken(w)
		}
		if !taken(i) {
			out[v.Below] = append(out[v.Below], vlan.Netdev{Index: i.Index, Protocol: v.Protocol, ID: v.ID, MAC: [6]byte(i.MAC)})
		}
	}
	for _, all := range out {
		slices.SortFunc(all, func(a, b vlan.Netdev) int { return cmp.Compare(a.Index, b.Index) })
	}
	return out
}

// taken tells for which netdevs something else gets the packets: a cube, on the netdev or at the host's stack, or a macvlan or
// the like. n.mu is held.
func (n *Neighbours) taken(w *unit.Snapshot) func(netdev.Info) bool {
	places, carriers := map[string]bool{}, map[int]bool{}
	for _, i := range n.infos {
		carriers[i.Carries] = true
	}
	for _, rec := range w.Cubes {
		if rec.Transparent {
			if at, err := world.ParsePlace(rec.Parent); err == nil && at.IsHost() {
				return func(netdev.Info) bool { return true }
			}
			places[rec.Parent] = true
		}
		for _, p := range rec.Ports {
			places[p.Peer] = true
		}
	}
	return func(i netdev.Info) bool { return places[i.Name] || carriers[i.Index] }
}
