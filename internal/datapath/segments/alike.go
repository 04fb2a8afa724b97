// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/state"
)

// Cubes that are alike run the same programs: the number of the cube is data there. A cube can be one of several if its
// programs use no map of its own, and its connections to other cubes are data.

// Shareable reports whether other cubes may have the same programs as a cube, as far as that depends on the cube alone.
func Shareable(s *state.State, n *graph.Node) bool {
	in := s.Cube(n.ID)
	if in == nil || n.Shadow != nil || in.Spec().External {
		return false
	}
	for _, h := range abi.Hooks { // the TC side of a cube at XDP is in its companion
		if in.Object(h) == nil {
			continue
		}
		programs, err := s.ProgramsOf(n, h)
		if err != nil || slices.ContainsFunc(programs, func(pr state.Program) bool {
			return in.HasOwn(pr.Function.Maps) || pr.Object.HasConstant(takesConstant) // offers go to cubes that are code
		}) {
			return false
		}
	}
	return true
}

// alike reports whether the cube of a segment can be one of several.
func (b *builder) alike(ids []graph.CubeID) bool {
	if len(ids) != 1 {
		return false
	}
	n := b.Graph.Cubes[ids[0]]
	for _, p := range n.Ports {
		if len(p.Tcubes) > 0 || b.PeerOf(n.ID, p) != nil && !b.Apart[n.ID] {
			return false
		}
	}
	if at, there := b.Stack[n.ID]; there && !b.Apart[n.ID] && (at.Dev == nil || at.Host || b.Owner[at.Dev.Name].Port != nil) {
		return false
	}
	return Shareable(b.m.state, n)
}

// data reports whether a port that leads to a cube is data. If its packets are captured, it is code: the place of the
// capture.
func (b *builder) data(id graph.CubeID, p *graph.Port) bool {
	if b.Graph.Trace != nil && slices.ContainsFunc(b.Graph.Trace.Sessions, func(s link.Session) bool {
		return s.Capture != nil && *s.Capture == link.Capture{Cube: uint16(id), Port: p.Index}
	}) {
		return false
	}
	if len(p.Tcubes) == 0 {
		joined := b.Apart[id] || b.Apart[p.Peer.Cube]
		b.c.Code.Joined = b.c.Code.Joined || joined
		return joined
	}
	if !b.Apart[p.Tcubes[0]] {
		return false
	}
	b.c.Code.Joined, b.cubes[id].Stacks = true, true
	return true
}

// membersSpec is a map with a bit for each cube that a generation's programs are for.
var membersSpec = &ebpf.MapSpec{
	Name: "pcn_members", Type: ebpf.Array, KeySize: 4, ValueSize: link.MaxCubes / 8, MaxEntries: 1, Flags: flagRdonlyProg,
}

// NewMembers creates that map, with no members.
func NewMembers() (*ebpf.Map, error) {
	m, err := ebpf.NewMap(membersSpec)
	if err != nil {
		return nil, fmt.Errorf("members: %w", withoutDescriptors(err))
	}
	return m, nil
}

// members are the cubes that a generation's programs are for.
type members struct {
	row [link.MaxCubes / 8]byte
	m   *ebpf.Map
}

// Admit makes the programs process packets of a cube, which others may do meanwhile. It does nothing for programs in
// whose code the cubes are.
func (gen *Generation) Admit(id graph.CubeID) error { return gen.set(id, true) }

// Expel ends that. No packet of the cube may be in the programs.
func (gen *Generation) Expel(id graph.CubeID) error { return gen.set(id, false) }

// ExpelAll expels all members, for programs that no packet runs.
func (gen *Generation) ExpelAll() error {
	if gen.members == nil {
		return nil
	}
	return gen.write([link.MaxCubes / 8]byte{})
}

func (gen *Generation) set(id graph.CubeID, member bool) error {
	if gen.members == nil {
		return nil
	}
	next := gen.members.row
	if next[id/8] |= 1 << (id % 8); !member {
		next[id/8] &^= 1 << (id % 8)
	}
	return gen.write(next)
}

func (gen *Generation) write(next [link.MaxCubes / 8]byte) error {
	if next == gen.members.row {
		return nil
	}
	if err := gen.members.m.Put(uint32(0), next[:]); err != nil {
		return fmt.Errorf("set the members of programs: %w", err)
	}
	gen.members.row = next
	return nil
}

// Has reports whether a cube is a member.
func (gen *Generation) Has(id graph.CubeID) bool {
	return gen.members != nil && gen.members.row[id/8]>>(id%8)&1 != 0
}
