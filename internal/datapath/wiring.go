// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"cmp"
	"maps"
	"slices"

	"github.com/polycube/polycube/cube"
)

// wiring is a graph with what is looked up in it: which port has a netdev, and where each
// transparent cube is.
type wiring struct {
	g     *Graph
	devs  []*Netdev          // by name
	owner map[string]portRef // the port whose peer is a netdev
	stack map[CubeID]stacked // transparent cubes
}

type portRef struct {
	id   CubeID
	port *Port
}

// stacked is a transparent cube's place: the i-th of the chain on a port or a netdev.
type stacked struct {
	chain []CubeID
	i     int
	port  portRef
	dev   *Netdev // nil: on a port
}

func newWiring(g *Graph) *wiring {
	w := &wiring{g: g, owner: map[string]portRef{}, stack: map[CubeID]stacked{}}
	for _, n := range g.Cubes {
		w.place(n)
	}
	for _, name := range slices.Sorted(maps.Keys(g.Netdevs)) {
		dev := g.Netdevs[name]
		w.devs = append(w.devs, dev)
		for i, t := range dev.Tcubes {
			w.stack[t] = stacked{dev.Tcubes, i, portRef{}, dev}
		}
	}
	return w
}

// with is the wiring of a graph that connects the same things, of which some cubes are other nodes.
func (w *wiring) with(g *Graph, other []*Node) *wiring {
	next := &wiring{g: g, devs: make([]*Netdev, len(w.devs)), owner: maps.Clone(w.owner), stack: maps.Clone(w.stack)}
	for i, dev := range w.devs {
		next.devs[i] = g.Netdevs[dev.Name]
	}
	for _, n := range other {
		next.place(n)
	}
	return next
}

// place notes what is on a cube's ports.
func (w *wiring) place(n *Node) {
	for _, p := range n.Ports {
		ref := portRef{n.ID, p}
		if p.Peer.Netdev != "" {
			w.owner[p.Peer.Netdev] = ref
		}
		for i, t := range p.Tcubes {
			w.stack[t] = stacked{p.Tcubes, i, ref, nil}
		}
	}
}

// peerOf returns the port at the other end of a link between cubes, if both ends agree.
func (w *wiring) peerOf(id CubeID, p *Port) *Port {
	if p.Peer.Cube == 0 {
		return nil
	}
	n := w.g.Cubes[p.Peer.Cube]
	if n == nil {
		return nil
	}
	q := n.Ports[p.Peer.Port]
	if q == nil || q.Peer.Cube != id || q.Peer.Port != p.Index {
		return nil
	}
	return q
}

// enters tells which cubes get a netdev's packets first: those that come in, and those that
// leave; 0 for none.
func (w *wiring) enters(dev *Netdev) (in, out CubeID) {
	if n := len(dev.Tcubes); n > 0 {
		return dev.Tcubes[0], dev.Tcubes[n-1]
	}
	return w.owner[dev.Name].id, 0
}

// edge joins two cubes of the graph.
type edge struct{ a, b CubeID }

// edges lists what connects cubes: the neighbours in stacks of transparent cubes, and the links
// between ports, both in the order of the IDs.
func (w *wiring) edges() (stacks, links []edge) {
	for t, at := range w.stack {
		switch {
		case at.i > 0:
			stacks = append(stacks, edge{at.chain[at.i-1], t})
		case at.dev == nil:
			stacks = append(stacks, edge{at.port.id, t})
		default:
			if ref, ok := w.owner[at.dev.Name]; ok {
				stacks = append(stacks, edge{ref.id, t})
			}
		}
	}
	for id, n := range w.g.Cubes {
		for _, p := range n.Ports {
			if id < p.Peer.Cube && w.g.Cubes[p.Peer.Cube] != nil {
				links = append(links, edge{id, p.Peer.Cube})
			}
		}
	}
	for _, es := range [][]edge{stacks, links} {
		slices.SortFunc(es, func(x, y edge) int { return cmp.Or(cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b)) })
	}
	return stacks, links
}

// native tells whether one of the cubes, which may lie in several segments, is of type XDP_DRV.
func (w *wiring) native(segments [][]CubeID) bool {
	for _, ids := range segments {
		if slices.ContainsFunc(ids, func(id CubeID) bool { return w.g.Cubes[id].Type == cube.TypeXDPDRV }) {
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

// split cuts the graph into its connected parts.
func (w *wiring) split(edges []edge) [][]CubeID {
	u := union{}
	for id := range w.g.Cubes {
		u[id] = id
	}
	for _, e := range edges {
		u.join(e.a, e.b)
	}
	return u.groups()
}
