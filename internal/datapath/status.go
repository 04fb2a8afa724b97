// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"
	"time"
)

// CubeStatus says how a cube's programs run.
type CubeStatus struct {
	// Mode is "call" or "inline"; "" while no program of the cube is in use.
	Mode string
	// Reason says why the cube is not inlined, "" if it is.
	Reason string
	// Segment is the number of the cube's segment among the Segments of its connected part of
	// the graph, from 1, and Cubes how many cubes are in the segment.
	Segment, Segments, Cubes int
	// Alike is how many segments have the same programs, this one included.
	Alike int
	// Spare is set if other programs are ready to take a change of constants without a relink.
	Spare bool
	// Instructions is the size of the kernel program that contains the cube, Verified how many instructions the
	// verifier processed for it, and Load how long that took.
	Instructions, Verified int
	Load                   time.Duration
}

// Status returns how a cube's programs run.
func (p *Plane) Status(id CubeID) CubeStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.parts {
		for _, other := range c.IDs {
			if other == id {
				return CubeStatus{
					Mode: c.gen.Mode.String(), Reason: p.whyCall(c), Segment: c.number, Segments: c.of, Cubes: len(c.IDs), Alike: p.users[c.gen],
					Spare: p.spareOf(c) != nil || c.gen.Live(), Instructions: c.gen.Instructions, Verified: c.gen.Verified, Load: c.gen.LoadTime,
				}
			}
		}
	}
	return CubeStatus{}
}

// Fates returns how packets ended in a cube, other than forwarded: those that occurred and all that the service
// defines. Cube 0 is the framework itself.
func (p *Plane) Fates(id CubeID) ([]Fate, error) {
	p.mu.Lock()
	in := p.state.Cube(id)
	p.mu.Unlock()
	var own []string
	if in != nil {
		own = in.Object(in.Spec().Type.Hook()).Reasons
	}
	return p.fates.Of(id, own)
}

// Timings are how long the steps to the programs of a component took, for benchmarks and logs.
type Timings struct {
	Linked time.Duration // writing the instructions
	Loaded time.Duration // the kernel's verifier and JIT
}

// Timings returns those of the programs that a cube's packets run now; zero if there are none.
func (p *Plane) Timings(id CubeID) Timings {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.parts {
		if slices.Contains(c.IDs, id) && c.gen != nil {
			return Timings{Linked: c.gen.LinkTime, Loaded: c.gen.LoadTime}
		}
	}
	return Timings{}
}
