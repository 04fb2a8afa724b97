// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"math/bits"

	"github.com/polycube/polycube/internal/datapath/link"
)

// One kernel program may use 64 maps and 256 functions, and the verifier processes a million instructions at most. A
// connected part of the graph that needs more is split into segments. The split is kept from one graph to the next, so
// that a change relinks only the segments that it affects; otherwise, parts are merged along the links that have
// carried most packets, so that the links between segments, which cost a tail call, are those least used.

// Load is the share of the kernel's limits that a cube or a segment takes.
type Load struct {
	Cubes, Maps, Functions, Verified int
	// Shared has a bit for each map that cubes share, which a segment needs once.
	Shared uint64
}

// SegmentLimit reserves some for the framework: about 20 maps and functions.
var SegmentLimit = Load{Cubes: link.MaxCubes, Maps: 42, Functions: 220, Verified: 600_000}

// Plus adds another load.
func (l Load) Plus(m Load) Load {
	return Load{l.Cubes + m.Cubes, l.Maps + m.Maps, l.Functions + m.Functions, l.Verified + m.Verified, l.Shared | m.Shared}
}

// Fits reports whether the load is within a limit.
func (l Load) Fits(limit Load) bool {
	return l.Cubes <= limit.Cubes && l.Maps+bits.OnesCount64(l.Shared) <= limit.Maps && l.Functions <= limit.Functions && l.Verified <= limit.Verified
}

// Cut divides a connected part of the graph into segments within the limit. present are the current ones.
func Cut(ids []CubeID, edges []Edge, loads map[CubeID]Load, limit Load, present [][]CubeID) [][]CubeID {
	u, total := kept(ids, loads, limit, present)
	join := func(a, b CubeID) {
		a, b = u.find(a), u.find(b)
		if sum := total[a].Plus(total[b]); a != b && sum.Fits(limit) {
			u.join(a, b)
			total[u.find(a)] = sum
		}
	}
	for _, e := range edges {
		if _, ours := u[e.A]; ours {
			join(e.A, e.B)
		}
	}
	// The remaining groups have no room for a neighbour. Small ones share a segment although no link connects them:
	// the leaves of a star whose hub is full.
	groups := u.groups()
	for i, group := range groups {
		for _, earlier := range groups[:i] {
			join(earlier[0], group[0])
		}
	}
	return u.groups()
}

// kept groups the cubes as in the present segments, where those still fit.
func kept(ids []CubeID, loads map[CubeID]Load, limit Load, present [][]CubeID) (union, map[CubeID]Load) {
	u, total := union{}, map[CubeID]Load{}
	for _, id := range ids {
		u[id], total[id] = id, loads[id]
	}
	for _, segment := range present {
		var group []CubeID
		var sum Load
		for _, id := range segment {
			if _, ours := u[id]; ours {
				group, sum = append(group, id), sum.Plus(loads[id])
			}
		}
		if len(group) == 0 || !sum.Fits(limit) {
			continue
		}
		for _, id := range group {
			u.join(id, group[0])
		}
		total[u.find(group[0])] = sum
	}
	return u, total
}
