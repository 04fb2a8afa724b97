// SPDX-License-Identifier: Apache-2.0

package graph

// The part of a graph that a change does not affect. A graph may have a thousand cubes of which a change affects one:
// data derived from the others is reused. A cube is stale if its node differs, or that of a neighbour, or a netdev that
// leads to it.

import (
	"maps"
	"reflect"
	"slices"
)

// Stale marks the cubes for which data derived from the graph in use is invalid; nil marks all.
type Stale map[CubeID]bool

// Has reports whether a cube is stale.
func (s Stale) Has(id CubeID) bool { return s == nil || s[id] }

// StaleSince compares a graph with the one in use, which is nil before the first.
func (w *Wiring) StaleSince(was *Wiring) Stale {
	if was == nil || !reflect.DeepEqual(was.Graph.Trace, w.Graph.Trace) {
		return nil
	}
	s := Stale{}
	for id, n := range w.Graph.Cubes {
		before := was.Graph.Cubes[id]
		switch {
		case n == before:
		case before == nil || !n.sameButPorts(before):
			s.mark(was.Graph, before)
			s.mark(w.Graph, n)
		default:
			s.markChanged(w.Graph, n, before)
			s.markChanged(was.Graph, before, n)
		}
	}
	for id, n := range was.Graph.Cubes {
		if w.Graph.Cubes[id] == nil {
			s.mark(was.Graph, n)
		}
		if w.Apart[id] != was.Apart[id] {
			s.markApart(was, id)
			s.markApart(w, id)
		}
	}
	for name, dev := range w.Graph.Netdevs {
		if before := was.Graph.Netdevs[name]; !dev.same(before) {
			s.markDevice(w, dev)
			s.markDevice(was, before)
		}
	}
	for name, before := range was.Graph.Netdevs {
		if w.Graph.Netdevs[name] == nil {
			s.markDevice(was, before)
		}
	}
	if !slices.Equal(w.Graph.Host.cubes(), was.Graph.Host.cubes()) {
		for _, id := range slices.Concat(w.Graph.Host.cubes(), was.Graph.Host.cubes()) {
			s[id] = true
		}
	}
	s.markOutputs(was, w)
	return s
}

// markOutputs marks the cubes with outputs that lead to stale cubes.
func (s Stale) markOutputs(wirings ...*Wiring) {
	var from []CubeID
	for id := range s {
		for _, w := range wirings {
			from = append(from, w.ToCube[id]...)
		}
	}
	for _, id := range from {
		s[id] = true
	}
}

// Same reports whether two graphs are equal. Shared parts are not compared.
func (g *Graph) Same(o *Graph) bool {
	return maps.EqualFunc(g.Cubes, o.Cubes, (*Node).same) && maps.EqualFunc(g.Netdevs, o.Netdevs, (*Netdev).same) &&
		g.Host.Same(o.Host) && (g.Trace == o.Trace || reflect.DeepEqual(g.Trace, o.Trace))
}

// mark marks a cube of a graph and its neighbours.
func (s Stale) mark(g *Graph, n *Node) {
	if n == nil {
		return
	}
	s[n.ID] = true
	for _, port := range n.Ports {
		s.markPort(g, n.ID, port)
	}
	for _, o := range n.Outputs {
		if o.Cube != 0 {
			s[o.Cube] = true
		}
		if dev := g.Netdevs[o.Netdev]; dev != nil {
			for _, id := range dev.Tcubes {
				s[id] = true
			}
		}
	}
}

// markPort marks the cube of a port and its neighbours there.
func (s Stale) markPort(g *Graph, id CubeID, port *Port) {
	s[id] = true
	if port.Peer.Cube != 0 {
		s[port.Peer.Cube] = true
	}
	for _, id := range port.Tcubes {
		s[id] = true
	}
	if dev := g.Netdevs[port.Peer.Netdev]; dev != nil {
		for _, id := range dev.Tcubes {
			s[id] = true
		}
	}
}

// markChanged marks a cube and its neighbours at those ports that it has not, or not the same, in another graph.
func (s Stale) markChanged(g *Graph, n, other *Node) {
	for index, port := range n.Ports {
		if o := other.Ports[index]; o == nil || !port.Same(o) {
			s.markPort(g, n.ID, port)
		}
	}
}

// markApart marks a cube whose edges become data, or code, and its neighbours.
func (s Stale) markApart(w *Wiring, id CubeID) {
	s.mark(w.Graph, w.Graph.Cubes[id])
	if at, there := w.Stack[id]; there && at.Port.Port != nil {
		s.mark(w.Graph, w.Graph.Cubes[at.Port.ID])
	}
}

// markDevice marks the cubes that a netdev leads to.
func (s Stale) markDevice(w *Wiring, dev *Netdev) {
	if dev == nil {
		return
	}
	if ref, ok := w.Owner[dev.Name]; ok {
		s.markPort(w.Graph, ref.ID, ref.Port)
	}
	for _, id := range slices.Concat(w.ToNetdev[dev.Name], dev.Tcubes) {
		s[id] = true
	}
}

// OnlyCode reports whether a graph differs from the one in use only in the programs of some cubes: constants, maps, log
// levels. Data derived from ports and netdevs is then still valid. It returns the wiring of the new graph.
func (w *Wiring) OnlyCode(g *Graph) (*Wiring, bool) {
	if w == nil || len(g.Cubes) != len(w.Graph.Cubes) || !maps.EqualFunc(g.Netdevs, w.Graph.Netdevs, (*Netdev).same) ||
		!g.Host.Same(w.Graph.Host) {
		return nil, false
	}
	var other []*Node
	for id, n := range g.Cubes {
		o := w.Graph.Cubes[id]
		if o == nil {
			return nil, false
		}
		if n == o {
			continue
		}
		if n.Type != o.Type || (n.Ports == nil) != (o.Ports == nil) || !maps.EqualFunc(n.Ports, o.Ports, (*Port).Same) ||
			!slices.Equal(n.Outputs, o.Outputs) || !reflect.DeepEqual(n.Shadow, o.Shadow) || !reflect.DeepEqual(n.Programs, o.Programs) {
			return nil, false
		}
		if !maps.Equal(n.Ports, o.Ports) {
			other = append(other, n)
		}
	}
	return w.with(g, other), true
}

// JoinedAs reports whether two graphs connect the same cubes in the same way, as far as stale cubes tell: only their
// programs differ.
func (s Stale) JoinedAs(w, was *Wiring) bool {
	if s == nil || was == nil || len(w.Graph.Cubes) != len(was.Graph.Cubes) || len(w.Graph.Netdevs) != len(was.Graph.Netdevs) ||
		!slices.Equal(w.Graph.Host.cubes(), was.Graph.Host.cubes()) {
		return false
	}
	for name, dev := range w.Graph.Netdevs {
		if o := was.Graph.Netdevs[name]; o == nil || !slices.Equal(dev.Tcubes, o.Tcubes) {
			return false
		}
	}
	for id := range s {
		n, o := w.Graph.Cubes[id], was.Graph.Cubes[id]
		if n == o {
			continue
		}
		if n == nil || o == nil || n.Type != o.Type || !maps.EqualFunc(n.Ports, o.Ports, (*Port).Same) ||
			!reflect.DeepEqual(n.Programs, o.Programs) {
			return false
		}
	}
	return true
}

func (n *Node) same(o *Node) bool {
	return n == o || o != nil && n.sameButPorts(o) && maps.EqualFunc(n.Ports, o.Ports, (*Port).Same)
}

// sameButPorts reports whether two nodes are equal, whatever their ports are.
func (n *Node) sameButPorts(o *Node) bool {
	return n.ID == o.ID && n.Name == o.Name && n.Type == o.Type && n.LogLevel == o.LogLevel && n.Maps == o.Maps &&
		(n.Ports == nil) == (o.Ports == nil) && slices.Equal(n.Outputs, o.Outputs) && reflect.DeepEqual(n.Shadow, o.Shadow) &&
		reflect.DeepEqual(n.Constants, o.Constants) && len(n.Programs) == len(o.Programs) && reflect.DeepEqual(n.Programs, o.Programs)
}

// Same reports whether two ports are equal.
func (p *Port) Same(o *Port) bool {
	return p == o || p.Index == o.Index && p.Name == o.Name && p.Slot == o.Slot && p.Peer == o.Peer && slices.Equal(p.Tcubes, o.Tcubes)
}

func (d *Netdev) same(o *Netdev) bool {
	return d == o || o != nil && d.Name == o.Name && d.Index == o.Index && d.MTU == o.MTU && d.Down == o.Down &&
		d.Carrier == o.Carrier && d.Flaps == o.Flaps && slices.Equal(d.Tcubes, o.Tcubes)
}
