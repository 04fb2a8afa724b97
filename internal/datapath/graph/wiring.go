// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"cmp"
	"maps"
	"slices"

	"github.com/polycube/polycube/cube"
)

// Wiring is a graph with indexes: which port has a netdev, and where each transparent cube is.
type Wiring struct {
	Graph   *Graph
	Netdevs []*Netdev          // by name
	Owner   map[string]PortRef // the port whose peer is a netdev
	Stack   map[CubeID]Stacked // transparent cubes
	// ToNetdev and ToCube are the cubes with outputs that lead to a netdev, or to a port of a cube.
	ToNetdev map[string][]CubeID
	ToCube   map[CubeID][]CubeID
	// Apart are cubes whose edges to others are data: each has programs of its own, or shares those of others.
	Apart map[CubeID]bool
}

// PortRef is a port with the cube that it belongs to.
type PortRef struct {
	ID   CubeID
	Port *Port
}

// Stacked is the position of a transparent cube: the i-th of the chain on a port or a netdev.
type Stacked struct {
	Chain []CubeID
	I     int
	Port  PortRef
	Dev   *Netdev // nil: on a port
	Host  bool    // between the netdevs and the host's stack; Dev is then no particular one
}

// NewWiring indexes a graph.
func NewWiring(g *Graph) *Wiring {
	w := &Wiring{Graph: g, Owner: map[string]PortRef{}, Stack: map[CubeID]Stacked{}, ToNetdev: map[string][]CubeID{}, ToCube: map[CubeID][]CubeID{}}
	for _, n := range g.Cubes {
		w.place(n)
		for _, o := range n.Outputs {
			if o.Cube != 0 {
				w.ToCube[o.Cube] = append(w.ToCube[o.Cube], n.ID)
			} else {
				w.ToNetdev[o.Netdev] = append(w.ToNetdev[o.Netdev], n.ID)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.Netdevs)) {
		dev := g.Netdevs[name]
		w.Netdevs = append(w.Netdevs, dev)
		for i, t := range dev.Tcubes {
			w.Stack[t] = Stacked{Chain: dev.Tcubes, I: i, Dev: dev}
		}
	}
	for i, t := range g.Host.cubes() {
		w.Stack[t] = Stacked{Chain: g.Host.Tcubes, I: i, Dev: &Netdev{}, Host: true}
	}
	return w
}

// with returns the wiring of a graph with the same connections, in which some cubes are nodes with other ports.
func (w *Wiring) with(g *Graph, other []*Node) *Wiring {
	next := &Wiring{Graph: g, Netdevs: make([]*Netdev, len(w.Netdevs)), Owner: w.Owner, Stack: w.Stack, Apart: w.Apart,
		ToNetdev: w.ToNetdev, ToCube: w.ToCube}
	for i, dev := range w.Netdevs {
		next.Netdevs[i] = g.Netdevs[dev.Name]
	}
	if len(other) > 0 {
		next.Owner, next.Stack = maps.Clone(w.Owner), maps.Clone(w.Stack)
	}
	for _, n := range other {
		next.place(n)
	}
	return next
}

// place records the cubes on a cube's ports.
func (w *Wiring) place(n *Node) {
	for _, p := range n.Ports {
		ref := PortRef{n.ID, p}
		if p.Peer.Netdev != "" {
			w.Owner[p.Peer.Netdev] = ref
		}
		for i, t := range p.Tcubes {
			w.Stack[t] = Stacked{Chain: p.Tcubes, I: i, Port: ref}
		}
	}
}

// PeerOf returns the port at the other end of a link between cubes, if both ends agree.
func (w *Wiring) PeerOf(id CubeID, p *Port) *Port {
	if p.Peer.Cube == 0 {
		return nil
	}
	n := w.Graph.Cubes[p.Peer.Cube]
	if n == nil {
		return nil
	}
	q := n.Ports[p.Peer.Port]
	if q == nil || q.Peer.Cube != id || q.Peer.Port != p.Index {
		return nil
	}
	return q
}

// Enters returns the cubes that get a netdev's packets first: received ones, and sent ones; 0 for none.
func (w *Wiring) Enters(dev *Netdev) (in, out CubeID) {
	if n := len(dev.Tcubes); n > 0 {
		return dev.Tcubes[0], dev.Tcubes[n-1]
	}
	owner := w.Owner[dev.Name]
	if owner.Port != nil {
		if x := w.ApartOn(owner.Port); x != 0 {
			return x, 0
		}
	}
	return owner.ID, 0
}

// ApartOn returns the transparent cube on a port that is set apart, 0 if there is none.
func (w *Wiring) ApartOn(p *Port) CubeID {
	if len(p.Tcubes) == 0 || !w.Apart[p.Tcubes[0]] {
		return 0
	}
	return p.Tcubes[0]
}

// Edge connects two cubes of the graph.
type Edge struct{ A, B CubeID }

// Edges lists the connections between cubes: the neighbours in stacks of transparent cubes, and the links between
// ports, both in the order of the IDs.
func (w *Wiring) Edges() (stacks, links []Edge) {
	for t, at := range w.Stack {
		switch {
		case at.I > 0:
			stacks = append(stacks, Edge{at.Chain[at.I-1], t})
		case at.Dev == nil:
			stacks = append(stacks, Edge{at.Port.ID, t})
		default:
			if ref, ok := w.Owner[at.Dev.Name]; ok {
				stacks = append(stacks, Edge{ref.ID, t})
			}
		}
	}
	for id, n := range w.Graph.Cubes {
		for _, p := range n.Ports {
			if id < p.Peer.Cube && w.Graph.Cubes[p.Peer.Cube] != nil {
				links = append(links, Edge{id, p.Peer.Cube})
			}
		}
	}
	for _, es := range [][]Edge{stacks, links} {
		slices.SortFunc(es, func(x, y Edge) int { return cmp.Or(cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B)) })
	}
	return stacks, links
}

// Redirects lists the connections from transparent cubes to the cubes that receive what they redirect, in the order of
// the IDs.
func (w *Wiring) Redirects() []Edge {
	var out []Edge
	for _, to := range slices.Sorted(maps.Keys(w.ToCube)) {
		for _, from := range w.ToCube[to] {
			if w.Graph.Cubes[to] != nil {
				out = append(out, Edge{from, to})
			}
		}
	}
	return out
}

// Native reports whether one of the cubes, which may be in several segments, is of type XDP_DRV.
func (w *Wiring) Native(segments [][]CubeID) bool {
	for _, ids := range segments {
		if slices.ContainsFunc(ids, func(id CubeID) bool { return w.Graph.Cubes[id].Type == cube.TypeXDPDRV }) {
			return true
		}
	}
	return false
}

// union is a set of disjoint groups of cubes.
type union map[CubeID]CubeID

func (u union) find(id CubeID) CubeID {
	for u[id] != id {
		u[id] = u[u[id]]
		id = u[id]
	}
	return id
}

func (u union) join(a, b CubeID) { u[u.find(a)] = u.find(b) }

// groups returns the groups, each ascending, in the order of their first cubes.
func (u union) groups() [][]CubeID {
	byRoot := map[CubeID][]CubeID{}
	for _, id := range slices.Sorted(maps.Keys(u)) {
		byRoot[u.find(id)] = append(byRoot[u.find(id)], id)
	}
	return slices.SortedFunc(maps.Values(byRoot), func(a, b []CubeID) int { return cmp.Compare(a[0], b[0]) })
}

// Split divides the graph into its connected parts.
func (w *Wiring) Split(edges []Edge) [][]CubeID {
	u := union{}
	for id := range w.Graph.Cubes {
		u[id] = id
	}
	for _, e := range edges {
		u.join(e.A, e.B)
	}
	return u.groups()
}
