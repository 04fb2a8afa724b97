// SPDX-License-Identifier: Apache-2.0

package world

// The namespace of a cube (a shadow cube), as data for the code that manages namespaces and for the data plane.

import (
	"maps"
	"slices"

	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/shadow"
)

// Namespace describes a cube to the code that manages namespaces.
func (r *Cube) Namespace() shadow.Cube {
	return shadow.Cube{Name: r.Name, UUID: r.UUID, Ports: slices.Sorted(maps.Keys(r.Ports))}
}

// shadowNode is a cube's namespace as the data plane sees it, nil for none.
func (r *Cube) shadowNode() *datapath.Shadow {
	if !r.Shadow {
		return nil
	}
	n := &datapath.Shadow{Span: r.Span, Ends: make(map[uint16]int, len(r.Ports))}
	for _, p := range r.Ports {
		n.Ends[p.Index] = p.Outer
	}
	return n
}
