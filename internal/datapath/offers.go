// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
)

// A standard cube offers packets for itself to the transparent cubes of a port, if one of them takes offers.

const (
	// offersConstant tells a program that a port has such a cube (pcn/config.h).
	offersConstant = "pcn_offers"
	// takesConstant is what PCN_TAKES_OFFERS leaves in an object.
	takesConstant = "pcn_takes_offers"
)

// mayTurn tells whether transparent cubes may turn packets back to a standard cube.
func (b *builder) mayTurn(n *Node) bool {
	for _, p := range n.Ports {
		if dev := b.g.Netdevs[p.Peer.Netdev]; len(p.Tcubes) > 0 || dev != nil && len(dev.Tcubes) > 0 {
			return true
		}
	}
	return false
}

// takesOffers tells whether a transparent cube does.
func (b *builder) takesOffers(id CubeID) bool {
	programs, err := b.p.programsOf(b.g.Cubes[id], b.c.hook)
	return err == nil && slices.ContainsFunc(programs, func(pr placed) bool {
		return pr.Direction == cube.Egress && pr.object.HasConstant(takesConstant)
	})
}

// isLastTaker tells whether a transparent cube on a port takes offers and none further out does.
func (b *builder) isLastTaker(at stacked) bool {
	return b.takesOffers(at.chain[at.i]) && !slices.ContainsFunc(at.chain[at.i+1:], b.takesOffers)
}

// offersConstant lets a program know whether its offers reach anybody.
func (b *builder) offersConstant(o *link.Object, n *Node, values map[string]any) {
	if !o.Reads(offersConstant) {
		return
	}
	for _, p := range n.Ports {
		if slices.ContainsFunc(p.Tcubes, b.takesOffers) {
			values[offersConstant] = uint32(1)
		}
	}
}
