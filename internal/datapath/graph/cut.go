// SPDX-License-Identifier: Apache-2.0

package graph

import "github.com/polycube/polycube/internal/datapath/link"

// One kernel program may use 64 maps and 256 functions, and the verifier looks at a million
// instructions at most. A connected part of the graph that needs more is cut into segments.
// Cuts are kept from one graph to the next, so that a change relinks the segments it touches;
// where nothing is known, parts are joined along the links that have carried most packets, so
// that the links that are cut, which cost a tail call, are those least used.

// Load is what a cube or a segment takes of the kernel's limits.
type Load struct{ Cubes, Maps, Functions, Verified int }

// SegmentLimit leaves room for the framework's own: about 20 maps and functions.
var SegmentLimit = Load{Cubes: link.MaxCubes, Maps: 42, Functions: 220, Verified: 600_000}

// Plus adds another load.
func (l Load) Plus(m Load) Load {
	return Load{l.Cubes + m.Cubes, l.Maps + m.Maps, l.Functions + m.Functions, l.Verified + m.Verified}
}

// Fits tells whether the load is within a limit.
func (l Load) Fits(limit Load) bool {
	return l.Cubes <= limit.Cubes && l.Maps <= limit.Maps && l.Functions <= limit.Functions && l.Verified <= limit.Verified
}

// Cut divides a connected part of the graph into segments within the limit. present are those in use.
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
	// What is left are groups without room for a neighbour. Small ones share a segment though no
	// link joins them: the leaves of a star whose hub is full.
	groups := u.groups()
	for i, group := range groups {
		for _, earlier := range groups[:i] {
			join(earlier[0], group[0])
		}
	}
	return u.groups()
}

// kept groups the cubes as they are in the present segments, where those still fit.
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
