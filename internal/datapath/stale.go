// SPDX-License-Identifier: Apache-2.0

package datapath

// What a change leaves as it was. A graph may have a thousand cubes of which a change concerns one: what was derived of
// the others is used again. A cube is stale when its node differs, or that of a neighbour, or a netdev that leads to it.

import (
	"maps"
	"reflect"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
)

// stale marks the cubes for which what was derived of the graph in use does not hold; nil marks all.
type stale map[CubeID]bool

func (s stale) has(id CubeID) bool { return s == nil || s[id] }

// staleIn compares the graph in use with another one.
func (p *Plane) staleIn(w *wiring) stale {
	if p.graph == nil || !reflect.DeepEqual(p.graph.Trace, w.g.Trace) {
		return nil
	}
	s := stale{}
	for id, n := range w.g.Cubes {
		if !n.same(p.graph.Cubes[id]) {
			s.mark(p.graph, p.graph.Cubes[id])
			s.mark(w.g, n)
		}
	}
	for id, n := range p.graph.Cubes {
		if w.g.Cubes[id] == nil {
			s.mark(p.graph, n)
		}
	}
	for name, dev := range w.g.Netdevs {
		if was := p.graph.Netdevs[name]; !dev.same(was) {
			s.markDevice(w, dev)
			s.markDevice(p.wiring, was)
		}
	}
	for name, was := range p.graph.Netdevs {
		if w.g.Netdevs[name] == nil {
			s.markDevice(p.wiring, was)
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
func (p *Plane) onlyCode(g *Graph) (*wiring, bool) {
	was := p.graph
	if was == nil || len(g.Cubes) != len(was.Cubes) || !maps.EqualFunc(g.Netdevs, was.Netdevs, (*Netdev).same) {
		return nil, false
	}
	var other []*Node
	for id, n := range g.Cubes {
		o, c := was.Cubes[id], p.byCube[id]
		if o == nil || c == nil || p.cubes[id] == nil || usedOf(p.cubes[id]).objects != c.used[slices.Index(c.ids, id)].objects {
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
	return p.wiring.with(g, other), true
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

// usedCube is what a segment was described by, beside the graph.
type usedCube struct {
	in      *instance
	objects [2]*link.Object
	frozen  bool
	// taken counts up when other maps take the place of the cube's; until then its node says so.
	taken int
}

func usedOf(in *instance) usedCube {
	return usedCube{in, [2]*link.Object{in.objects[cube.TC], in.objects[cube.XDP]}, in.frozen, in.taken}
}

// still tells whether a segment of the graph in use, which may be nil, is that of the cubes, and would be described in the
// same way.
func (p *Plane) still(s stale, was *segment, ids []CubeID) bool {
	if was == nil || !slices.Equal(was.ids, ids) {
		return false
	}
	for i, id := range ids {
		if s.has(id) || p.cubes[id] == nil || usedOf(p.cubes[id]) != was.used[i] {
			return false
		}
	}
	for _, dev := range was.netdevs {
		if dev.MTU == 0 && dev.Index != 0 { // the kernel is asked each time
			return false
		}
	}
	return true
}

// notInUse are those of some segments that are not in use as they are.
func (p *Plane) notInUse(parts []*segment) []*segment {
	var out []*segment
	for _, c := range parts {
		if p.byCube[c.ids[0]] != c {
			out = append(out, c)
		}
	}
	return out
}

// setParts makes segments those in use, and returns the generations that none has any more.
func (p *Plane) setParts(parts []*segment) (gone []*generation) {
	came, left := p.notInUse(parts), p.parts
	if len(came) < len(parts) { // of a change of code alone: each takes the place of one of the same cubes
		left = nil
		for _, c := range came {
			left = append(left, p.byCube[c.ids[0]])
		}
	}
	for _, c := range left {
		delete(p.byPrint, c.print)
		for _, id := range c.ids {
			delete(p.byCube, id)
		}
	}
	inUse := map[*generation]bool{}
	for _, c := range came {
		inUse[c.gen] = true
		p.byPrint[c.print] = c
		for _, id := range c.ids {
			p.byCube[id] = c
		}
	}
	for _, c := range left {
		if !inUse[c.gen] {
			gone = append(gone, c.gen)
		}
	}
	p.parts = parts
	return gone
}
