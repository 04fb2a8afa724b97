// SPDX-License-Identifier: Apache-2.0

package graph

import "github.com/polycube/polycube/cube"

// Many cubes of one service around another cube, such as a firewall on each port of a bridge, would be as many copies of
// the same code in one program, or in several. Their edges are data instead, so that they run the same programs.

// ApartFrom is from how many cubes of one kind in a connected part of the graph on they are set apart. Below, the crossings
// within one program are faster. Cubes with large programs are set apart earlier: each change would verify them again.
const (
	ApartFrom      = 8
	LargeApartFrom = 2
)

// Kind is what cubes that are set apart together have in common. The zero Kind is that of a cube that cannot be.
type Kind struct {
	Service string
	Type    cube.Type
	Large   bool
}

// apartClass are the cubes of one kind in a connected part of the graph.
type apartClass struct {
	kind Kind
	part int
}

// SetApart chooses the cubes that are set apart.
func (w *Wiring) SetApart(kind func(*Node) Kind) {
	classes := map[apartClass][]CubeID{}
	var part map[CubeID]int
	for id, n := range w.Graph.Cubes {
		if !w.leaf(n) {
			continue
		}
		k := kind(n)
		if k == (Kind{}) {
			continue
		}
		if part == nil {
			part = w.parts()
		}
		c := apartClass{k, part[id]}
		classes[c] = append(classes[c], id)
	}
	w.Apart = map[CubeID]bool{}
	for c, ids := range classes {
		ids = w.withoutNeighbours(ids, c.kind, kind)
		if len(ids) < LargeApartFrom || !c.kind.Large && len(ids) < ApartFrom {
			continue
		}
		for _, id := range ids {
			w.Apart[id] = true
		}
	}
}

// SetApartLike sets those cubes apart that are set apart in another wiring of the graph, which may be nil.
func (w *Wiring) SetApartLike(other *Wiring) {
	if other != nil {
		w.Apart = other.Apart
	}
}

// leaf reports whether the edges of a cube to others can be data: it is a transparent cube that is alone on a port that does
// not lead to a cube, or a standard cube without transparent cubes, all of whose links are to ports without them.
func (w *Wiring) leaf(n *Node) bool {
	if n.Ports == nil {
		at, there := w.Stack[n.ID]
		if !there || at.Dev != nil || len(at.Chain) > 1 || at.Port.Port.Peer.Cube != 0 {
			return false
		}
		dev := w.Graph.Netdevs[at.Port.Port.Peer.Netdev]
		return dev == nil || len(dev.Tcubes) == 0
	}
	linked := false
	for _, p := range n.Ports {
		if dev := w.Graph.Netdevs[p.Peer.Netdev]; len(p.Tcubes) > 0 || dev != nil && len(dev.Tcubes) > 0 {
			return false
		}
		if peer := w.PeerOf(n.ID, p); peer != nil {
			if linked = true; len(peer.Tcubes) > 0 || p.Peer.Cube == n.ID {
				return false
			}
		}
	}
	return linked
}

// withoutNeighbours are those of some cubes that have no neighbour of the same kind: a row of forwarders is fastest in one
// program.
func (w *Wiring) withoutNeighbours(ids []CubeID, of Kind, kind func(*Node) Kind) []CubeID {
	var out []CubeID
	for _, id := range ids {
		alone := true
		for _, p := range w.Graph.Cubes[id].Ports {
			if w.PeerOf(id, p) != nil && kind(w.Graph.Cubes[p.Peer.Cube]) == of {
				alone = false
			}
		}
		if alone {
			out = append(out, id)
		}
	}
	return out
}

// parts numbers the connected parts of the graph, by cube.
func (w *Wiring) parts() map[CubeID]int {
	stacks, links := w.Edges()
	out := map[CubeID]int{}
	for i, ids := range w.Split(append(stacks, links...)) {
		for _, id := range ids {
			out[id] = i
		}
	}
	return out
}
