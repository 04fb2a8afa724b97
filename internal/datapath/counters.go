// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"time"

	"github.com/polycube/polycube/internal/datapath/abi"
)

// PortCounters are totals since the port was made.
type PortCounters struct {
	RxPackets, RxBytes, TxPackets, TxBytes uint64
}

// Fate is one way that packets ended in a cube, with its counter.
type Fate struct {
	// Name is the verdict or drop reason: "pass", "slowpath", "no-peer", "hop-limit", or
	// one of the cube's own.
	Name string
	// Drop tells reasons of drops from other fates.
	Drop    bool
	Packets uint64
}

// CubeStatus says how a cube's programs run.
type CubeStatus struct {
	// Mode is "call" or "inline"; "" while no program of the cube is in use.
	Mode string
	// Reason says why the cube is not inlined, "" if it is.
	Reason string
	// Segment is the number of the cube's segment among the Segments of its connected part of
	// the graph, from 1, and Cubes how many cubes are in the segment.
	Segment, Segments, Cubes int
	// Instructions is the size of the kernel program that the cube is part of, Verified how many
	// instructions the verifier looked at for it, and Load how long that took.
	Instructions, Verified int
	Load                   time.Duration
}

// frameworkFates are the labels of enum pcn_reason below PCN_REASON_FIRST.
var frameworkFates = []Fate{
	{Name: "unspecified", Drop: true},
	{Name: "pass"},
	{Name: "slowpath"},
	{Name: "flood"},
	{Name: "no-peer", Drop: true},
	{Name: "bad-port", Drop: true},
	{Name: "bad-verdict", Drop: true},
	{Name: "hop-limit", Drop: true},
	{Name: "slowpath-shed", Drop: true},
	{Name: "no-program", Drop: true},
	{Name: "malformed", Drop: true},
	{Name: "copy-failed", Drop: true},
	{Name: "namespace"},
	{Name: "notify-shed"},
	{Name: "too-long", Drop: true},
}

const firstReason = 32 // PCN_REASON_FIRST

// Fates returns how packets ended in a cube, other than forwarded, those that occurred and
// all that the service knows. Cube 0 is the framework itself.
func (p *Plane) Fates(id CubeID) ([]Fate, error) {
	var perCPU []abi.Fates
	if err := p.fw.maps[abi.MapFates].Lookup(uint32(id), &perCPU); err != nil {
		return nil, fmt.Errorf("fates of cube %d: %w", id, err)
	}
	out := append([]Fate(nil), frameworkFates...)
	p.mu.Lock()
	in := p.cubes[id]
	p.mu.Unlock()
	var own []string
	if in != nil {
		own = in.objects[in.spec.Type.Hook()].Reasons
	}
	for _, name := range own {
		out = append(out, Fate{Name: name, Drop: true})
	}
	for _, f := range perCPU {
		for at, n := range f.Count {
			out[fateIndex(at, len(own))].Packets += n
		}
	}
	return out, nil
}

// fateIndex is the place of a counter in what Fates returns: reasons without a label, of the
// framework's or of own ones, are unspecified drops.
func fateIndex(reason, own int) int {
	switch {
	case reason < len(frameworkFates):
		return reason
	case reason >= firstReason && reason < firstReason+own:
		return len(frameworkFates) + reason - firstReason
	}
	return 0
}

// Status tells how a cube's programs run.
func (p *Plane) Status(id CubeID) CubeStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.parts {
		for _, other := range c.ids {
			if other == id {
				return CubeStatus{
					Mode: c.gen.mode.String(), Reason: p.whyCall(c), Segment: c.number, Segments: c.of, Cubes: len(c.ids),
					Instructions: c.gen.insns, Verified: c.gen.verified, Load: c.gen.loaded,
				}
			}
		}
	}
	return CubeStatus{}
}
