// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/counters"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/state"
)

// What cubes take of the kernel's limits, and how a graph is cut so that each segment stays within them.

// partitioner cuts graphs into segments.
type partitioner struct {
	state    *state.State
	counters *counters.Counters
	cubes    int // of one segment; 0 for what the kernel can take

	// heavier counts how often an object's programs turned out heavier than thought.
	heavier map[*link.Object]int
	// loads are what cubes take of the kernel's limits, as far as it is known.
	loads map[CubeID]knownLoad
	// partitioned is how the graph in use was cut into segments.
	partitioned [][][]CubeID
}

// verifiedPerInstruction guesses how often the verifier looks at an instruction of a program
// that it has not met yet.
const verifiedPerInstruction = 4

// loadOf is what a cube takes. A cube whose programs are not known takes nothing; describe
// refuses it.
func (p *partitioner) loadOf(n *Node) graph.Load {
	l := graph.Load{Cubes: 1}
	programs, err := p.state.ProgramsOf(n, n.Type.Hook())
	if err != nil {
		return l
	}
	used := map[string]bool{}
	for _, pr := range programs {
		maps, instructions := pr.Function.Uses()
		for _, m := range maps {
			if !strings.HasPrefix(m, ".") { // constants of all are in one
				used[m] = true
			}
		}
		l.Functions += 1 + len(pr.Function.Callees)
		l.Verified += instructions * verifiedPerInstruction << p.heavier[pr.Object]
	}
	l.Maps = len(used)
	return l
}

// knownLoad is the load of a node of the graph, as long as the cube is linked of the same.
type knownLoad struct {
	graph.Load
	node *Node
	used state.UsedCube
}

// loadsOf are what the cubes take. Those that are not stale take what they took.
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

// partition cuts the graph into segments; asBefore tells that they are those of the graph in use. onlyCode is that of the
// change, was the graph in use and present its segments.
func (p *partitioner) partition(w, was *graph.Wiring, s graph.Stale, onlyCode bool, present func() [][]CubeID) (segments [][][]CubeID, asBefore bool) {
	if p.partitioned != nil && p.loads != nil && (onlyCode || s.JoinedAs(w, was)) {
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
		for _, id := range ids {
			total = total.Plus(loads[id])
		}
		if total.Fits(limit) {
			out = append(out, [][]CubeID{ids})
			continue
		}
		if edges == nil {
			p.byUse(w, links, present())
			edges = append(stacks, links...)
		}
		out = append(out, graph.Cut(ids, edges, loads, limit, present()))
	}
	return out, false
}

// byUse sorts the links between cubes by the packets that have crossed them, most first, when
// nothing else tells how to cut: at the start of a daemon that adopts its counters.
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

// tooLarge tells whether an error means that a segment must be smaller, and notes that its
// programs are heavier than was thought: once for each object, however many segments have it in the same cut (noted). A
// single cube cannot be cut.
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

// forgetLoads forgets how heavy programs are of objects that are gone.
func (p *partitioner) forgetLoads(gone []*link.Object) {
	for _, o := range gone {
		delete(p.heavier, o)
	}
}
