// SPDX-License-Identifier: Apache-2.0

package datapath

import "github.com/polycube/polycube/internal/datapath/link"

// One kernel program may use 64 maps and 256 functions, and the verifier looks at a million
// instructions at most. A connected part of the graph that needs more is cut into segments.
// Cuts are kept from one graph to the next, so that a change relinks the segments it touches;
// where nothing is known, parts are joined along the links that have carried most packets, so
// that the links that are cut, which cost a tail call, are those least used.

// load is what a cube or a segment takes of the kernel's limits.
type load struct{ cubes, maps, functions, verified int }

// segmentLimit leaves room for the framework's own: about 20 maps and functions.
var segmentLimit = load{cubes: link.MaxCubes, maps: 42, functions: 220, verified: 600_000}

func (l load) plus(m load) load {
	return load{l.cubes + m.cubes, l.maps + m.maps, l.functions + m.functions, l.verified + m.verified}
}

func (l load) fits(limit load) bool {
	return l.cubes <= limit.cubes && l.maps <= limit.maps && l.functions <= limit.functions && l.verified <= limit.verified
}

// cut divides a connected part of the graph into segments within the limit. present are those in use.
func cut(ids []CubeID, edges []edge, loads map[CubeID]load, limit load, present [][]CubeID) [][]CubeID {
	u, total := kept(ids, loads, limit, present)
	join := func(a, b CubeID) {
		a, b = u.find(a), u.find(b)
		if sum := total[a].plus(total[b]); a != b && sum.fits(limit) {
			u.join(a, b)
			total[u.find(a)] = sum
		}
	}
	for _, e := range edges {
		if _, ours := u[e.a]; ours {
			join(e.a, e.b)
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
func kept(ids []CubeID, loads map[CubeID]load, limit load, present [][]CubeID) (union, map[CubeID]load) {
	u, total := union{}, map[CubeID]load{}
	for _, id := range ids {
		u[id], total[id] = id, loads[id]
	}
	for _, segment := range present {
		var group []CubeID
		var sum load
		for _, id := range segment {
			if _, ours := u[id]; ours {
				group, sum = append(group, id), sum.plus(loads[id])
			}
		}
		if len(group) == 0 || !sum.fits(limit) {
			continue
		}
		for _, id := range group {
			u.join(id, group[0])
		}
		total[u.find(group[0])] = sum
	}
	return u, total
}
