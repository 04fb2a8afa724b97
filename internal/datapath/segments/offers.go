// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"fmt"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/state"
)

// A standard cube offers packets that are addressed to itself to the transparent cubes of a port, if one of them takes
// offers.

const (
	// OffersConstant tells a program that a port has such a cube (pcn/config.h).
	OffersConstant = "pcn_offers"
	// takesConstant is the constant that PCN_TAKES_OFFERS leaves in an object.
	takesConstant = "pcn_takes_offers"
)

// takesOffers reports whether a transparent cube takes offers.
func (b *builder) takesOffers(id graph.CubeID) bool {
	programs, err := b.m.state.ProgramsOf(b.Graph.Cubes[id], b.c.Hook)
	return err == nil && slices.ContainsFunc(programs, func(pr state.Program) bool {
		return pr.Direction == cube.Egress && pr.Object.HasConstant(takesConstant)
	})
}

// addOffers records for a transparent cube on a port whose offers it may see, and whether they end after it.
func (b *builder) addOffers(lt *link.Cube, at graph.Stacked) {
	programs, err := b.m.state.ProgramsOf(b.Graph.Cubes[at.Port.ID], b.c.Hook)
	if err == nil && slices.ContainsFunc(programs, func(pr state.Program) bool { return pr.Object.Reads(OffersConstant) }) {
		lt.OfferedBy = b.cube(at.Port.ID)
		lt.LastTaker = b.takesOffers(at.Chain[at.I]) && !slices.ContainsFunc(at.Chain[at.I+1:], b.takesOffers)
	}
	fmt.Fprintf(&b.print, "offered %t %t\n", lt.OfferedBy != nil, lt.LastTaker)
}

// offersConstant tells a program whether its offers reach any cube.
func (b *builder) offersConstant(o *link.Object, n *graph.Node, values map[string]any) {
	if !o.Reads(OffersConstant) {
		return
	}
	for _, p := range n.Ports {
		if slices.ContainsFunc(p.Tcubes, b.takesOffers) {
			values[OffersConstant] = uint32(1)
		}
	}
}
