// SPDX-License-Identifier: Apache-2.0

package link

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf/asm"
)

// offering is a cube with a port behind three transparent cubes, of which the middle one takes offers, and one without. The
// middle one asks the script when packets leave.
func offering() (g *graph, taken, other *Port) {
	g = new(graph).cubes(2)
	c := g.Cubes[0]
	taken, _ = g.link(1, 2)
	other, _ = g.link(1, 2)
	for range 3 {
		g.gate(c, taken).OfferedBy = c
	}
	g.gate(c, other).OfferedBy = c
	c.Offers, taken.Takes = true, true
	taken.Tcubes[1].LastTaker = true
	taken.Tcubes[1].Object.Functions[Egress] = scripted(Egress)
	return g, taken, other
}

func TestOffersReachWhoTakesThemAndComeBack(t *testing.T) {
	g, taken, other := offering()
	offer := func(p *Port) uint64 { return verdictOffer<<16 | uint64(p.Index) }
	const pass, turnBack = verdictPass << 16, verdictTurn << 16
	for _, test := range []struct {
		name   string
		script []uint64
		trail  []string
		in     uint16 // where the cube receives it the second time
	}{
		{"nobody turns it", []uint64{offer(taken), pass, send(netdevPort)}, []string{"in.1", "out.3", "out.4", "in.1"}, netdevPort},
		{"it is turned", []uint64{offer(taken), turnBack, send(netdevPort)}, []string{"in.1", "out.3", "out.4", "in.4", "in.3", "in.1"}, taken.Index},
		{"to a port where nobody takes it", []uint64{offer(other), send(netdevPort)}, []string{"in.1", "in.1"}, netdevPort},
		{"to a port that is not there", []uint64{offer(&Port{Index: 77}), send(netdevPort)}, []string{"in.1", "in.1"}, netdevPort},
		{"then it is sent by the same port", []uint64{offer(taken), pass, send(taken.Index), pass, send(netdevPort)},
			[]string{"in.1", "out.3", "out.4", "in.1", "out.3", "out.4", "out.5", "in.2"}, netdevPort},
		{"it is turned, sent by the same port and turned again", []uint64{offer(taken), turnBack, send(taken.Index), turnBack, send(netdevPort)},
			[]string{"in.1", "out.3", "out.4", "in.4", "in.3", "in.1", "out.3", "out.4", "in.4", "in.3", "in.1"}, taken.Index},
		{"it is turned and offered again", []uint64{offer(taken), turnBack, offer(taken), pass, send(netdevPort)},
			[]string{"in.1", "out.3", "out.4", "in.4", "in.3", "in.1", "out.3", "out.4", "in.1"}, taken.Index},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBothModes(t, g, func(t *testing.T, m *machine) {
				m.run(OnIngress, 1, test.script...)
				if got := plain(m.trail); !slices.Equal(got, test.trail) {
					t.Errorf("the packet passed %v, want %v", m.trail, test.trail)
				}
				second := 1 + slices.Index(plain(m.trail)[1:], "in.1")
				if m.ports[second] != test.in {
					t.Errorf("the cube got it the second time on port %d, want %d", m.ports[second], test.in)
				}
				if m.sent == 0 {
					t.Error("it did not leave")
				}
			})
		})
	}
}

// TestAnOfferComesBackToTheRightPort: whatever a cube on the way wrote to md.in_port.
func TestAnOfferComesBackToTheRightPort(t *testing.T) {
	g, taken, _ := offering()
	taken.Tcubes[0].Object.Functions[Egress] = body(Egress,
		asm.Mov.Imm(asm.R3, 77), asm.StoreMem(asm.R2, mdInPort-offMD, asm.R3, asm.Half), asm.Mov.Imm(asm.R0, verdictPass), asm.Return())
	inBothModes(t, g, func(t *testing.T, m *machine) {
		m.run(OnIngress, 1, verdictOffer<<16|uint64(taken.Index), verdictPass<<16, send(netdevPort))
		if last := m.ports[len(m.ports)-1]; last != netdevPort {
			t.Errorf("it came back on port %d, want %d", last, netdevPort)
		}
	})
}

// TestOnlyResumeProgramsLookAtOffers: what is received from a netdev and forwarded pays nothing.
func TestOnlyResumeProgramsLookAtOffers(t *testing.T) {
	g, _, _ := offering()
	inBothModes(t, g, func(t *testing.T, m *machine) {
		loads := func(role Role) (n int) {
			insns := driver(program(t, m, role))
			for i, ins := range insns {
				n += int(btoi(isLoad(&ins) && ins.Offset == mdFlags && ins.OpCode.Size().Sizeof() == 2 && !handsOver(insns, i)))
			}
			return n
		}
		// In the ingress program the flags are read where the cube offers and where one turns, once for each sweep.
		if n := loads(OnIngress); n > 2*(1+len(m.c.Cubes)) {
			t.Errorf("the ingress program reads md.flags in %d places", n)
		}
		if loads(OnResume) <= loads(OnIngress) {
			t.Error("the resume program does not look at md.flags")
		}
	})
}
