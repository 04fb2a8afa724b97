// SPDX-License-Identifier: Apache-2.0

package datapath

// Segments of the graph in use that the next graph reuses.

import (
	"slices"

	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/netdevs"
	"github.com/polycube/polycube/internal/datapath/segments"
)

// onlyCode reports whether a graph differs from the one in use only in programs of some cubes, none of them from other
// objects. It returns the wiring of the new graph.
func (p *Plane) onlyCode(g *Graph) (*graph.Wiring, bool) {
	if p.graph == nil {
		return nil, false
	}
	next, only := p.wiring.OnlyCode(g)
	if !only {
		return nil, false
	}
	for id := range g.Cubes {
		c := p.byCube[id]
		used, open := p.state.Used(id)
		if c == nil || !open || !used.SameObjects(c.Used[slices.Index(c.IDs, id)]) {
			return nil, false
		}
	}
	return next, true
}

// still reports whether a segment of the graph in use, which may be nil, consists of these cubes and would be described
// in the same way.
func (p *Plane) still(s graph.Stale, was *segment, ids []CubeID) bool {
	if was == nil || !slices.Equal(was.IDs, ids) {
		return false
	}
	for i, id := range ids {
		if used, open := p.state.Used(id); s.Has(id) || !open || used != was.Used[i] {
			return false
		}
	}
	for _, dev := range was.Netdevs {
		if dev.MTU == 0 && dev.Index != 0 { // the kernel is asked each time
			return false
		}
	}
	return true
}

// segment is the unit of linking: a connected part of the graph, or, if that is too large for one program, a part of it
// (see partition). It has programs, and packets of its netdevs enter them.
type segment struct {
	*segments.Description
	gen *segments.Generation
	// entrance is where packets of its netdevs enter.
	entrance *netdevs.Entrance
	// note says why the segment is not inlined.
	note string
	// native is true if a cube of its connected part is of type XDP_DRV.
	native bool
	// spare are programs that can take other constants, nil if there are none; no packet runs them. noSpare is set
	// if none can be loaded.
	spare   *segments.Generation
	noSpare bool
	// number and of are the segment's position among the segments of its connected part of the graph, and their
	// number.
	number, of int
}

// inUse are the segments of the graph in use.
type inUse struct {
	parts   []*segment
	byPrint map[string]*segment
	byCube  map[CubeID]*segment
	// claimed are programs that a prepared change gives other constants.
	claimed map[*segments.Generation]bool
}

func newInUse() inUse {
	return inUse{byPrint: map[string]*segment{}, byCube: map[CubeID]*segment{}, claimed: map[*segments.Generation]bool{}}
}

// notInUse are those of some segments that are not in use unchanged.
func (u *inUse) notInUse(parts []*segment) []*segment {
	var out []*segment
	for _, c := range parts {
		if u.byCube[c.IDs[0]] != c {
			out = append(out, c)
		}
	}
	return out
}

// setParts makes these the segments in use, and returns the generations that no segment uses any more.
func (u *inUse) setParts(parts []*segment) (gone []*segments.Generation) {
	came, left := u.notInUse(parts), u.parts
	if len(came) < len(parts) { // of a change of code only: each replaces one with the same cubes
		left = nil
		for _, c := range came {
			left = append(left, u.byCube[c.IDs[0]])
		}
	}
	for _, c := range left {
		delete(u.byPrint, c.Print)
		for _, id := range c.IDs {
			delete(u.byCube, id)
		}
	}
	stay := map[*segments.Generation]bool{}
	for _, c := range came {
		stay[c.gen], stay[c.spare] = true, true
		u.byPrint[c.Print] = c
		for _, id := range c.IDs {
			u.byCube[id] = c
		}
	}
	for _, c := range left {
		for _, gen := range []*segments.Generation{c.gen, c.spare} {
			if gen != nil && !stay[gen] {
				gone = append(gone, gen)
			}
		}
	}
	u.parts = parts
	return gone
}

// part returns the component with a print, or nil.
func (u *inUse) part(print string) *segment {
	return u.byPrint[print]
}

// present are the cubes of the segments in use.
func (u *inUse) present() [][]CubeID {
	out := make([][]CubeID, 0, len(u.parts))
	for _, c := range u.parts {
		out = append(out, c.IDs)
	}
	return out
}
