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
	// number and of are the segment's position among the segments of its connected part of the graph, and their
	// number.
	number, of int
}

// inUse are the segments of the graph in use. Segments with the same print, those of cubes that are alike, have the same
// programs.
type inUse struct {
	parts   []*segment
	byPrint map[string]map[*segment]bool
	byCube  map[CubeID]*segment
	// users are how many segments have the programs.
	users map[*segments.Generation]int
	// shapes are those of the segments.
	shapes map[string]*shape
	// claimed are programs that a prepared change gives other constants.
	claimed map[*segments.Generation]bool
}

// knows tells whether packets from netdevs may enter the programs in use at a cube.
func (u *inUse) knows(id CubeID) bool {
	c := u.byCube[id]
	return c != nil && c.enters(uint16(id))
}

// shape is what segments whose code differs in constants only have in common.
type shape struct {
	segments int
	// spare are programs that can take other constants, nil if there are none; no packet runs them. noSpare is set
	// if none can be loaded.
	spare   *segments.Generation
	noSpare bool
}

func newInUse() inUse {
	return inUse{byPrint: map[string]map[*segment]bool{}, byCube: map[CubeID]*segment{}, users: map[*segments.Generation]int{},
		shapes: map[string]*shape{}, claimed: map[*segments.Generation]bool{}}
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

// setParts makes these the segments in use. It returns those that left, and the generations that no segment uses any more.
func (u *inUse) setParts(parts []*segment) (left []*segment, gone []*segments.Generation) {
	came, left := u.notInUse(parts), u.parts
	if len(came) < len(parts) { // of a change of code only: each replaces one with the same cubes
		left = nil
		for _, c := range came {
			left = append(left, u.byCube[c.IDs[0]])
		}
	}
	for _, c := range came {
		if u.shapes[c.Shape] == nil {
			u.shapes[c.Shape] = &shape{}
		}
		u.shapes[c.Shape].segments++
		u.users[c.gen]++
	}
	for _, c := range left {
		if delete(u.byPrint[c.Print], c); len(u.byPrint[c.Print]) == 0 {
			delete(u.byPrint, c.Print)
		}
		for _, id := range c.IDs {
			delete(u.byCube, id)
		}
		gone = append(gone, u.leave(c)...)
	}
	for _, c := range came {
		if u.byPrint[c.Print] == nil {
			u.byPrint[c.Print] = map[*segment]bool{}
		}
		u.byPrint[c.Print][c] = true
		for _, id := range c.IDs {
			u.byCube[id] = c
		}
	}
	u.parts = parts
	return left, gone
}

// leave counts a segment that is no longer in use, and returns the generations that nothing uses without it.
func (u *inUse) leave(c *segment) (gone []*segments.Generation) {
	if u.users[c.gen]--; u.users[c.gen] == 0 {
		delete(u.users, c.gen)
		gone = append(gone, c.gen)
	}
	s := u.shapes[c.Shape]
	if s.segments--; s.segments == 0 {
		delete(u.shapes, c.Shape)
		if s.spare != nil {
			gone = append(gone, s.spare)
		}
	}
	return gone
}

// replace gives the segments with a print other programs, and returns the generations that nothing uses any more.
func (u *inUse) replace(print string, gen *segments.Generation) (gone []*segments.Generation) {
	for c := range u.byPrint[print] {
		if u.users[c.gen]--; u.users[c.gen] == 0 {
			delete(u.users, c.gen)
			gone = append(gone, c.gen)
		}
		c.gen, c.note = gen, ""
		u.users[gen]++
	}
	return gone
}

// part returns a segment with a print, or nil. All of them have the same programs.
func (u *inUse) part(print string) *segment {
	for c := range u.byPrint[print] {
		return c
	}
	return nil
}

// spareOf returns the programs that a segment's constants can change to, nil if there are none.
func (u *inUse) spareOf(c *segment) *segments.Generation {
	if s := u.shapes[c.Shape]; s != nil {
		return s.spare
	}
	return nil
}

// present are the cubes of the segments in use.
func (u *inUse) present() [][]CubeID {
	out := make([][]CubeID, 0, len(u.parts))
	for _, c := range u.parts {
		out = append(out, c.IDs)
	}
	return out
}
