// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"maps"
	"slices"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/segments"
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
	// Instructions is the size of the segment's largest program, Verified the most instructions that the verifier
	// processed for one, and Stack the most bytes of stack that one needs, as the kernel counts them.
	Instructions, Verified, Stack int
	// OwnInstructions are those of the cube alone, and OwnStack is what it adds to the stack of the driver.
	OwnInstructions, OwnStack int
	// Load is how long it took to load the programs, and Programs what each costs.
	Load     time.Duration
	Programs []ProgramStatus
}

// ProgramStatus says what one of a segment's programs costs.
type ProgramStatus struct {
	Hook cube.Hook
	// Role is in, out or resume.
	Role                          string
	Instructions, Verified, Stack int
}

// Status returns how a cube's programs run.
func (p *Plane) Status(id CubeID) CubeStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.parts {
		if i := slices.Index(c.IDs, id); i >= 0 {
			s := c.status(i)
			s.Reason, s.Alike, s.Spare = p.whyCall(c), p.users[c.gen], p.spareOf(c) != nil || c.gen.Live()
			return s
		}
	}
	return CubeStatus{}
}

// status returns what the segment knows about how one of its cubes runs, by the cube's place.
func (c *segment) status(i int) CubeStatus {
	own := c.gen.Share(c.Code.Cubes[i].Name)
	s := CubeStatus{
		Mode: c.gen.Mode.String(), Segment: c.number, Segments: c.of, Cubes: len(c.IDs), Instructions: c.gen.Instructions,
		Verified: c.gen.Verified, Stack: c.gen.Stack, OwnInstructions: own.Instructions, OwnStack: own.Stack, Load: c.gen.LoadTime,
	}
	for _, key := range slices.SortedFunc(maps.Keys(c.gen.Programs), segments.Program.Compare) {
		cost := c.gen.Programs[key]
		s.Programs = append(s.Programs, ProgramStatus{key.Hook, key.Role.String(), cost.Instructions, cost.Verified, cost.Stack})
	}
	return s
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
