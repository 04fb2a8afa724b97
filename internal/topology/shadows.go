// SPDX-License-Identifier: Apache-2.0

package topology

// What follows from a cube's having a namespace (a shadow cube), as data for its keeper and for the data plane.

import (
	"maps"
	"slices"

	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/shadow"
)

// shadowOf describes a cube to the keeper of namespaces.
func (r *record) shadowOf() shadow.Cube {
	return shadow.Cube{Name: r.name, UUID: r.uuid, Ports: slices.Sorted(maps.Keys(r.ports))}
}

// shadowNode is a cube's namespace as the data plane sees it, nil for none.
func (r *record) shadowNode() *datapath.Shadow {
	if !r.shadow {
		return nil
	}
	n := &datapath.Shadow{Span: r.span, Ends: make(map[uint16]int, len(r.ports))}
	for _, p := range r.ports {
		n.Ends[p.index] = p.outer
	}
	return n
}
