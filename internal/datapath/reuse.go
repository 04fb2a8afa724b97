// SPDX-License-Identifier: Apache-2.0

package datapath

// Segments of the graph in use that the next one uses again.

import (
	"slices"

	"github.com/polycube/polycube/internal/datapath/graph"
)

// onlyCode tells that a graph differs from the one in use only in what programs of some cubes are like, and that none of
// them is of other objects. It returns the wiring of the new graph.
func (p *Plane) onlyCode(g *Graph) (*graph.Wiring, bool) {
	if p.graph == nil {
		return nil, false
	}
	for id := range g.Cubes {
		c := p.byCube[id]
		used, open := p.state.Used(id)
		if c == nil || !open || !used.SameObjects(c.used[slices.Index(c.ids, id)]) {
			return nil, false
		}
	}
	return p.wiring.OnlyCode(g)
}

// still tells whether a segment of the graph in use, which may be nil, is that of the cubes, and would be described in the
// same way.
func (p *Plane) still(s graph.Stale, was *segment, ids []CubeID) bool {
	if was == nil || !slices.Equal(was.ids, ids) {
		return false
	}
	for i, id := range ids {
		if used, open := p.state.Used(id); s.Has(id) || !open || used != was.used[i] {
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
