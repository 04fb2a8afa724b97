// SPDX-License-Identifier: Apache-2.0

package datapath

// What a change leaves as it was. A graph may have a thousand cubes of which a change concerns one: what was derived of
// the others is used again. A cube is stale when its node differs, or that of a neighbour, or a netdev that leads to it.

import (
	"maps"
	"reflect"
	"slices"
)

// stale marks the cubes for which what was derived of the graph in use does not hold; nil marks all.
type stale map[CubeID]bool

func (s stale) has(id CubeID) bool { return s == nil || s[id] }

// staleSince compares a graph with the one in use, which is nil before the first.
func (w *wiring) staleSince(was *wiring) stale {
	if was == nil || !reflect.DeepEqual(was.g.Trace, w.g.Trace) {
		return nil
	}
	s := stale{}
	for id, n := range w.g.Cubes {
		if !n.same(was.g.Cubes[id]) {
			s.mark(was.g, was.g.Cubes[id])
			s.mark(w.g, n)
		}
	}
	for id, n := range was.g.Cubes {
		if w.g.Cubes[id] == nil {
			s.mark(was.g, n)
		}
	}
	for name, dev := range w.g.Netdevs {
		if before := was.g.Netdevs[name]; !dev.same(before) {
			s.markDevice(w, dev)
			s.markDevice(was, before)
		}
	}
	for name, before := range was.g.Netdevs {
		if w.g.Netdevs[name] == nil {
			s.markDevice(was, before)
		}
	}
	return s
}

// mark marks a cube of a graph and its neighbours.
func (s stale) mark(g *Graph, n *Node) {
	if n == nil {
		return
	}
	s[n.ID] = true
	for _, port := range n.Ports {
		if port.Peer.Cube != 0 {
			s[port.Peer.Cube] = true
		}
		beside := port.Tcubes
		if dev := g.Netdevs[port.Peer.Netdev]; dev != nil {
			beside = append(slices.Clip(beside), dev.Tcubes...)
		}
		for _, id := range beside {
			s[id] = true
		}
	}
}

// markDevice marks the cubes that a netdev leads to.
func (s stale) markDevice(w *wiring, dev *Netdev) {
	if dev == nil {
		return
	}
	if ref, ok := w.owner[dev.Name]; ok {
		s.mark(w.g, w.g.Cubes[ref.id])
	}
	for _, id := range dev.Tcubes {
		s[id] = true
	}
}

// onlyCode tells that a graph differs from the one in use only in what programs of some cubes are like: constants, maps,
// levels of logs. What is derived of ports and netdevs then holds. It returns the wiring of the new graph.
func (w *wiring) onlyCode(g *Graph) (*wiring, bool) {
	if w == nil || len(g.Cubes) != len(w.g.Cubes) || !maps.EqualFunc(g.Netdevs, w.g.Netdevs, (*Netdev).same) {
		return nil, false
	}
	var other []*Node
	for id, n := range g.Cubes {
		o := w.g.Cubes[id]
		if o == nil {
			return nil, false
		}
		if n == o {
			continue
		}
		if n.Type != o.Type || (n.Ports == nil) != (o.Ports == nil) || !maps.EqualFunc(n.Ports, o.Ports, (*Port).same) ||
			!reflect.DeepEqual(n.Shadow, o.Shadow) || !reflect.DeepEqual(n.Programs, o.Programs) {
			return nil, false
		}
		other = append(other, n)
	}
	return w.with(g, other), true
}

// joinedAs tells that two graphs connect the same cubes in the same way, as far as stale cubes tell: what differs is what
// their programs are like.
func (s stale) joinedAs(w, was *wiring) bool {
	if s == nil || was == nil || len(w.g.Cubes) != len(was.g.Cubes) || len(w.g.Netdevs) != len(was.g.Netdevs) {
		return false
	}
	for name, dev := range w.g.Netdevs {
		if o := was.g.Netdevs[name]; o == nil || !slices.Equal(dev.Tcubes, o.Tcubes) {
			return false
		}
	}
	for id := range s {
		n, o := w.g.Cubes[id], was.g.Cubes[id]
		if n == o {
			continue
		}
		if n == nil || o == nil || n.Type != o.Type || !maps.EqualFunc(n.Ports, o.Ports, (*Port).same) ||
			!reflect.DeepEqual(n.Programs, o.Programs) {
			return false
		}
	}
	return true
}

func (n *Node) same(o *Node) bool {
	if n == o {
		return true
	}
	return o != nil && n.ID == o.ID && n.Name == o.Name && n.Type == o.Type && n.LogLevel == o.LogLevel && n.Maps == o.Maps &&
		len(n.Programs) == len(o.Programs) && (n.Ports == nil) == (o.Ports == nil) &&
		maps.EqualFunc(n.Ports, o.Ports, (*Port).same) && reflect.DeepEqual(n.Shadow, o.Shadow) &&
		reflect.DeepEqual(n.Constants, o.Constants) && reflect.DeepEqual(n.Programs, o.Programs)
}

func (p *Port) same(o *Port) bool {
	return p == o || p.Index == o.Index && p.Name == o.Name && p.Slot == o.Slot && p.Peer == o.Peer && slices.Equal(p.Tcubes, o.Tcubes)
}

func (d *Netdev) same(o *Netdev) bool {
	return d == o || o != nil && d.Name == o.Name && d.Index == o.Index && d.MTU == o.MTU && d.Down == o.Down &&
		d.Carrier == o.Carrier && d.Flaps == o.Flaps && slices.Equal(d.Tcubes, o.Tcubes)
}
