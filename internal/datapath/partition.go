// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/counters"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/segments"
	"github.com/polycube/polycube/internal/datapath/state"
)

// How much of the kernel's limits cubes need, and how a graph is cut so that each segment stays within them.

// partitioner cuts graphs into segments.
type partitioner struct {
	state    *state.State
	counters *counters.Counters
	cubes    int // of one segment; 0 for as many as the kernel can load

	// heavier counts how often an object's programs needed more than estimated.
	heavier map[*link.Object]int
	// loads are the shares of the kernel's limits that cubes need, as far as known.
	loads map[CubeID]knownLoad
	// shared are the bits of maps that cubes share, by place.
	shared map[string]uint64
	// shareable are the cubes whose programs others may have, as far as known.
	shareable map[CubeID]knownShareable
	// partitioned is how the graph in use was cut into segments.
	partitioned [][][]CubeID
}

// verifiedPerInstruction is an estimate of how often the verifier processes an instruction of a program that it has not
// verified yet.
const verifiedPerInstruction = 4

// loadOf is the load of a cube. A cube whose programs are not known has none; describe refuses it.
func (p *partitioner) loadOf(n *Node) graph.Load {
	l := graph.Load{Cubes: 1}
	programs, err := p.state.ProgramsOf(n, n.Type.Hook())
	if err != nil {
		return l
	}
	used := map[string]bool{}
	for _, pr := range programs {
		for _, m := range pr.Function.Maps {
			if strings.HasPrefix(m, ".") { // all constants are in one
				continue
			}
			if bit := p.sharedBit(n.ID, m); bit != 0 {
				l.Shared |= bit
			} else {
				used[m] = true
			}
		}
		l.Functions += 1 + len(pr.Function.Callees)
		l.Verified += pr.Function.Instructions * verifiedPerInstruction << p.heavier[pr.Object]
	}
	l.Maps = len(used)
	return l
}

// sharedBit returns the bit in a load of a cube's map that other cubes share, 0 for any other map.
func (p *partitioner) sharedBit(id CubeID, name string) uint64 {
	place := p.state.Cube(id).Place(name)
	if place == "" {
		return 0
	}
	bit, known := p.shared[place]
	if !known && len(p.shared) < 64 {
		bit = 1 << len(p.shared)
		p.shared[place] = bit
	}
	return bit
}

// knownLoad is the load of a node of the graph, as long as the cube is linked from the same input.
type knownLoad struct {
	graph.Load
	node *Node
	used state.UsedCube
}

// loadsOf are the loads of the cubes. Cubes that are not stale keep theirs.
func (p *partitioner) loadsOf(g *Graph, s graph.Stale) map[CubeID]graph.Load {
	loads := make(map[CubeID]graph.Load, len(g.Cubes))
	known := make(map[CubeID]knownLoad, len(g.Cubes))
	for id, n := range g.Cubes {
		used, _ := p.state.Used(id)
		k, ok := p.loads[id]
		if !ok || s.Has(id) && k.node != n || k.used != used {
			k = knownLoad{p.loadOf(n), n, used}
		}
		loads[id], known[id] = k.Load, k
	}
	p.loads = known
	return loads
}

// knownShareable is whether other cubes may have the programs of a cube, as long as it has the same objects.
type knownShareable struct {
	used       state.UsedCube
	yes, large bool
}

// kindOf is what cubes that are set apart have in common.
func (p *partitioner) kindOf(n *Node) graph.Kind {
	used, open := p.state.Used(n.ID)
	if !open || n.Shadow != nil {
		return graph.Kind{}
	}
	k, known := p.shareable[n.ID]
	if !known || k.used != used || len(n.Programs) > 0 {
		k = knownShareable{used, segments.Shareable(p.state, n), p.large(n)}
		p.shareable[n.ID] = k
	}
	if !k.yes {
		return graph.Kind{}
	}
	return graph.Kind{Service: p.state.Cube(n.ID).Spec().Service, Type: n.Type, Large: k.large}
}

// largeProgram is from how many instructions on, with the functions that a program has once for all cubes, a cube's program is
// large: each change near it would take tens of milliseconds, since the verifier processes many of them again and again.
const largeProgram = 2_500

// large reports whether a program of a cube is large.
func (p *partitioner) large(n *Node) bool {
	programs, err := p.state.ProgramsOf(n, n.Type.Hook())
	if err != nil {
		return false
	}
	total := 0
	for _, pr := range programs {
		total = max(total, pr.Function.Whole())
	}
	return total > largeProgram
}

// partition cuts the graph into segments; asBefore is set if they are those of the graph in use. onlyCode is that of
// the change, was the graph in use and present its segments.
func (p *partitioner) partition(w, was *graph.Wiring, s graph.Stale, onlyCode bool, present func() [][]CubeID) (segments [][][]CubeID, asBefore bool) {
	if p.partitioned != nil && p.loads != nil && (onlyCode || s.JoinedAs(w, was) && maps.Equal(w.Apart, was.Apart)) {
		return p.partitioned, true
	}
	stacks, links := w.Edges()
	limit := graph.SegmentLimit
	if n := p.cubes; n > 0 {
		limit.Cubes = n
	}
	loads := p.loadsOf(w.Graph, s)
	var out [][][]CubeID
	var edges []graph.Edge // in the order in which to join
	for _, ids := range w.Split(append(stacks, links...)) {
		var total graph.Load
		var part [][]CubeID
		var together []CubeID
		for _, id := range ids {
			if w.Apart[id] {
				part = append(part, []CubeID{id})
				continue
			}
			total, together = total.Plus(loads[id]), append(together, id)
		}
		if total.Fits(limit) {
			if len(together) > 0 {
				part = append(part, together)
			}
			out = append(out, part)
			continue
		}
		if edges == nil {
			p.byUse(w, links, present())
			edges = slices.DeleteFunc(append(stacks, links...), func(e graph.Edge) bool { return w.Apart[e.A] || w.Apart[e.B] })
		}
		out = append(out, append(part, graph.Cut(together, edges, loads, limit, present())...))
	}
	return out, false
}

// byUse sorts the links between cubes by the packets that have crossed them, most first. It is used if nothing else
// decides how to cut: at the start of a daemon that adopts its counters.
func (p *partitioner) byUse(w *graph.Wiring, links []graph.Edge, present [][]CubeID) {
	if len(present) > 0 {
		return
	}
	packets := map[graph.Edge]uint64{}
	for id, n := range w.Graph.Cubes {
		for _, port := range n.Ports {
			if w.PeerOf(id, port) == nil {
				continue
			}
			c, err := p.counters.PortCounters(port.Slot)
			if err != nil {
				return // in the order of the IDs, then
			}
			packets[graph.Edge{A: min(id, port.Peer.Cube), B: max(id, port.Peer.Cube)}] += c.TxPackets
		}
	}
	slices.SortStableFunc(links, func(x, y graph.Edge) int { return cmp.Compare(packets[y], packets[x]) })
}

// tooLarge reports whether an error means that a segment must be smaller, and records that its programs are heavier
// than estimated: once for each object, however many segments contain it in the same cut (noted). A single cube cannot
// be cut.
func (p *partitioner) tooLarge(c *segment, err error, noted map[*link.Object]bool) bool {
	if len(c.IDs) < 2 || !errors.Is(err, link.ErrTooLarge) && !errors.Is(err, unix.E2BIG) {
		return false
	}
	for _, lc := range c.Code.Cubes {
		for _, dir := range []cube.Direction{cube.Ingress, cube.Egress} {
			for _, pr := range lc.Programs[dir] {
				if !noted[pr.Object] {
					noted[pr.Object] = true
					p.heavier[pr.Object]++
					p.loads = nil
				}
			}
		}
	}
	return true
}

// smallVerified is up to how many instructions the verifier is estimated to process for a small cube.
const smallVerified = 20_000

// small reports whether a segment is a single cube whose programs are small.
func (p *partitioner) small(c *segment) bool {
	if len(c.IDs) > 1 {
		return false
	}
	load, known := p.loads[c.IDs[0]]
	return known && load.Verified <= smallVerified
}

// forgetLoads forgets the loads of programs of removed objects.
func (p *partitioner) forgetLoads(gone []*link.Object) {
	for _, o := range gone {
		delete(p.heavier, o)
	}
}
