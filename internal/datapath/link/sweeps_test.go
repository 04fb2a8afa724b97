// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
)

// graph grows a component of scripted cubes for the tests.
type graph struct {
	Component
	slots uint16
}

// cubes adds n standard cubes, numbered from 1.
func (g *graph) cubes(n int) *graph {
	g.Hops = DefaultHops
	for i := range n {
		g.Cubes = append(g.Cubes, scriptedCube(uint16(i+1), false))
	}
	return g
}

// link joins ports of two cubes (numbered from 1), each a new one, and returns them.
func (g *graph) link(a, b int) (p, q *Port) {
	x, y := g.Cubes[a-1], g.Cubes[b-1]
	p, q = g.port(x), g.port(y)
	p.Peer, p.PeerPort, q.Peer, q.PeerPort = y, q, x, p
	return p, q
}

// port adds a coded port to a cube; slot 0 is left to netdevs.
func (g *graph) port(c *Cube) *Port {
	g.slots++
	p := &Port{Index: uint16(len(c.Ports)) * 3, Slot: g.slots}
	c.Ports = append(c.Ports, p)
	return p
}

// gate puts a transparent cube on a port, outermost.
func (g *graph) gate(c *Cube, p *Port) *Cube {
	t := gateCube(uint16(len(g.Cubes) + 1))
	g.Cubes = append(g.Cubes, t)
	t.NextIn = Next{Kind: ToPort, Cube: c, Port: p.Index}
	t.NextOut = Next{Kind: ToPeer, Cube: c, Port: p.Index}
	if n := len(p.Tcubes); n > 0 {
		t.NextIn = Next{Kind: ToCube, Cube: p.Tcubes[n-1]}
		p.Tcubes[n-1].NextOut = Next{Kind: ToCube, Cube: t}
	}
	p.Tcubes = append(p.Tcubes, t)
	return t
}

// netdevPort is the index of the port of each cube that leads to a netdev, which has the number
// of the cube.
const netdevPort = 300

var bothModes = []Mode{Call, Inline}

func inBothModes(t *testing.T, g *graph, test func(*testing.T, *machine)) {
	for _, mode := range bothModes {
		for _, hook := range []cube.Hook{cube.TC, cube.XDP} {
			t.Run(fmt.Sprint(mode, " ", hook), func(t *testing.T) {
				c := g.Component
				c.Hook = hook
				m := newMachine(t, &c, mode)
				for _, cb := range g.Cubes {
					if !cb.Transparent {
						m.netdev(uint32(cb.ID), cb, netdevPort, 0, 0)
					}
				}
				test(t, m)
			})
		}
	}
}

// send is a script entry: send to a port.
func send(port uint16) uint64 { return verdictSend<<16 | uint64(port) }

// along is the script of a walk over cubes, numbered from 1, out to the last one's netdev.
func (g *graph) along(cubes ...int) []uint64 {
	var out []uint64
	for i, at := range cubes {
		if i == len(cubes)-1 {
			return append(out, send(netdevPort))
		}
		for _, p := range g.Cubes[at-1].Ports {
			if p.Peer == g.Cubes[cubes[i+1]-1] {
				out = append(out, send(p.Index))
				break
			}
		}
	}
	return out
}

func TestPacketsTurnOnlyWhereTheGraphMakesThem(t *testing.T) {
	chain, ring, star, tree := new(graph).cubes(5), new(graph).cubes(4), new(graph).cubes(5), new(graph).cubes(7)
	for i := range 4 {
		chain.link(i+1, i+2)
		ring.link(i+1, (i+1)%4+1)
		star.link(1, i+2)
	}
	for i := 2; i <= 7; i++ {
		tree.link(i/2, i)
	}
	tests := []struct {
		name  string
		g     *graph
		walk  []int
		turns int // at most
	}{
		{"up a chain", chain, []int{1, 2, 3, 4, 5}, 0},
		{"down a chain", chain, []int{5, 4, 3, 2, 1}, 0},
		{"from the middle of a chain up", chain, []int{3, 4, 5}, 0},
		{"from the middle of a chain down", chain, []int{3, 2, 1}, 0},
		{"to one end of a chain and back", chain, []int{3, 2, 1, 2, 3}, 0},
		{"to the other end of a chain and back", chain, []int{3, 4, 5, 4, 3}, 1},
		{"round a ring", ring, []int{1, 2, 3, 4}, 0},
		{"round a ring the other way", ring, []int{4, 3, 2, 1}, 0},
		{"round and round a ring", ring, []int{1, 2, 3, 4, 1, 2, 3, 4, 1}, 2},
		{"through the middle of a star", star, []int{2, 1, 3}, 1},
		{"and back", star, []int{3, 1, 2}, 1},
		{"from leaf to leaf of a tree", tree, []int{4, 2, 1, 3, 7}, 1},
		{"and back", tree, []int{7, 3, 1, 2, 4}, 1},
		{"down a tree", tree, []int{1, 3, 6}, 1},
		{"up a tree", tree, []int{6, 3, 1}, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inBothModes(t, test.g, func(t *testing.T, m *machine) {
				m.run(OnIngress, uint32(test.walk[0]), test.g.along(test.walk...)...)
				var want []string
				for _, id := range test.walk {
					want = append(want, fmt.Sprint("in.", id))
				}
				if got := plain(m.trail); !slices.Equal(got, want) {
					t.Errorf("the packet passed %v, want %v", m.trail, want)
				}
				if m.sent != uint32(test.walk[len(test.walk)-1]) {
					t.Errorf("it left through netdev %d", m.sent)
				}
				if m.turns > test.turns {
					t.Errorf("%d turns on %v, want at most %d", m.turns, m.trail, test.turns)
				}
			})
		})
	}
}

// plain takes the sweeps off place labels.
func plain(trail []string) []string {
	var out []string
	for _, s := range trail {
		out = append(out, strings.TrimSuffix(s, "'"))
	}
	return out
}

func TestEdgesGoUpInTheFirstSweepAndDownInTheSecond(t *testing.T) {
	g := new(graph).cubes(6)
	for i := range 5 {
		g.link(i+1, i+2)
	}
	inBothModes(t, g, func(t *testing.T, m *machine) {
		// The cubes are in the order 6 to 1.
		m.run(OnIngress, 6, g.along(6, 5, 4, 3, 2, 1, 2, 3, 4, 5, 6)...)
		want := "in.6 in.5 in.4 in.3 in.2 in.1 in.2' in.3' in.4' in.5' in.6'"
		if got := strings.Join(m.trail, " "); got != want || m.turns != 0 {
			t.Errorf("the packet passed %s with %d turns, want %s", got, m.turns, want)
		}
	})
}

func TestALoopEndsAfterTheBudgetOfHops(t *testing.T) {
	g := new(graph).cubes(2)
	g.Hops = 5
	p, q := g.link(1, 2)
	inBothModes(t, g, func(t *testing.T, m *machine) {
		var script []uint64
		for range 20 {
			script = append(script, send(p.Index), send(q.Index))
		}
		verdict := m.run(OnIngress, 1, script...)
		if m.turns != 5 || m.fate(1, reasonHopLimit)+m.fate(2, reasonHopLimit) != 1 {
			t.Errorf("%d turns, fates %d and %d, want 5 and one packet over the limit",
				m.turns, m.fate(1, reasonHopLimit), m.fate(2, reasonHopLimit))
		}
		if want := map[cube.Hook]uint32{cube.TC: 2, cube.XDP: 1}[m.c.Hook]; verdict != want {
			t.Errorf("verdict %d, want %d", verdict, want)
		}
	})
}

// visit is one stop of the reference: a site and the port where the packet came in.
type visit struct {
	place string
	port  uint16
}

// reference says what must happen to a packet that the cubes send by a script: the sites it
// passes and the ports that count it as sent.
func (g *graph) reference(c *Cube, port uint16, script []uint64) (out []visit, sent map[uint16]uint64) {
	sent = map[uint16]uint64{}
	at := c.port(port)
	for _, s := range script {
		if at != nil {
			for _, t := range slices.Backward(at.Tcubes) {
				out = append(out, visit{fmt.Sprint("in.", t.ID), port})
			}
		}
		out = append(out, visit{fmt.Sprint("in.", c.ID), port})
		if c.has(cube.Egress) {
			out = append(out, visit{fmt.Sprint("out.", c.ID), port})
		}
		p := c.port(uint16(s))
		if p == nil {
			return out, sent
		}
		for _, t := range p.Tcubes {
			out = append(out, visit{fmt.Sprint("out.", t.ID), port})
		}
		sent[p.Slot]++
		c, at, port = p.Peer, p.PeerPort, p.PeerPort.Index
	}
	return out, sent
}

// random makes a connected graph, some of its ports with transparent cubes, some cubes with
// an egress program.
func random(r *rand.Rand) *graph {
	n := 2 + r.IntN(6)
	g := new(graph)
	g.Hops = DefaultHops
	for i := range n {
		g.Cubes = append(g.Cubes, scriptedCube(uint16(i+1), r.IntN(3) == 0))
	}
	for i := 2; i <= n; i++ {
		g.link(1+r.IntN(i-1), i)
	}
	for range r.IntN(4) {
		g.link(1+r.IntN(n), 1+r.IntN(n))
	}
	for _, c := range slices.Clone(g.Cubes) {
		for _, p := range c.Ports {
			for range max(0, r.IntN(4)-1) {
				g.gate(c, p)
			}
		}
	}
	return g
}

// walk makes a script that ends at a netdev.
func (g *graph) walk(r *rand.Rand, c *Cube) []uint64 {
	var script []uint64
	for range r.IntN(12) {
		p := c.Ports[r.IntN(len(c.Ports))]
		script = append(script, send(p.Index))
		c = p.Peer
	}
	return append(script, send(netdevPort))
}

func TestRandomWalksOverRandomGraphsPassWhatTheGraphSays(t *testing.T) {
	const graphs, walks = 12, 12
	for seed := range uint64(graphs) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := random(r)
		inBothModes(t, g, func(t *testing.T, m *machine) {
			r := rand.New(rand.NewPCG(seed, 2))
			want := map[uint16]uint64{}
			for range walks {
				c := g.Cubes[0]
				script := g.walk(r, c)
				visits, sent := g.reference(c, netdevPort, script)
				for slot, n := range sent {
					want[slot] += n
				}
				m.run(OnIngress, uint32(c.ID), script...)
				g.check(t, m, visits)
			}
			for slot := uint16(1); slot <= g.slots; slot++ {
				if got := m.counter(0, slot, slotTx); got != [2]uint64{want[slot], 100 * want[slot]} {
					t.Errorf("seed %d, slot %d: sent %v, want %d packets of 100 bytes", seed, slot, got, want[slot])
				}
			}
			if got := m.counter(0, 0, 0); got[0] != walks {
				t.Errorf("seed %d: %d packets entered, want %d", seed, got[0], walks)
			}
		})
	}
}

// check compares where a packet has been with the reference.
func (g *graph) check(t *testing.T, m *machine, visits []visit) {
	t.Helper()
	var want []string
	for _, v := range visits {
		want = append(want, v.place)
	}
	if got := plain(m.trail); !slices.Equal(got, want) {
		t.Fatalf("the packet passed %v, want %v", m.trail, want)
	}
	for i, v := range visits {
		if m.ports[i] != v.port {
			t.Errorf("at %s, stop %d of %v, md.in_port is %d, want %d", v.place, i, m.trail, m.ports[i], v.port)
		}
	}
}
