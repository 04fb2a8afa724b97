// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

type exitRow struct {
	Ifindex    uint32
	Page, Slot uint16
}

// TestRedirects: where each verdict of a transparent cube on a port leads, and what is counted. Output 3 leads to netdev 42,
// output 4 to a port of cube 2, output 5 nowhere.
func TestRedirects(t *testing.T) {
	const page, slot = 0, 77
	to := func(output uint64) uint64 { return verdictRedirect<<16 | output }
	for _, redirects := range []bool{true, false} {
		g := new(graph).cubes(2)
		p, q := g.link(1, 2)
		gate := g.gate(g.Cubes[0], p)
		gate.Object.Functions[Egress] = scripted(Egress)
		gate.Redirects = redirects
		inBothModes(t, g, func(t *testing.T, m *machine) {
			key := uint32(gate.ID) * MaxPorts
			m.row("pcn_exits", key+3, exitRow{42, 0, 0})
			m.row("pcn_exits", key+4, exitRow{1<<31 | 2<<16 | uint32(q.Index), page, slot})
			m.row("pcn_exits", key+5, exitRow{})
			for _, test := range []struct {
				name   string
				script []uint64
				sent   uint32
				fate   int
				trail  []string
			}{
				{"to a netdev", []uint64{to(3)}, 42, reasonRedirected, []string{"in.1", "out.3"}},
				{"to a port", []uint64{to(4), send(netdevPort)}, 2, reasonRedirected, []string{"in.1", "out.3", "in.2"}},
				{"nowhere", []uint64{to(5)}, 0, reasonNoOutput, []string{"in.1", "out.3"}},
				{"to an output without a row", []uint64{to(6)}, 0, reasonNoOutput, []string{"in.1", "out.3"}},
				{"to an output out of range", []uint64{to(Outputs)}, 0, reasonNoOutput, []string{"in.1", "out.3"}},
				{"to the largest number", []uint64{to(outputNeigh)}, 0, reasonNoOutput, []string{"in.1", "out.3"}},
			} {
				if !redirects {
					test.sent, test.fate, test.trail, test.script = 0, reasonBadVerdict, test.trail[:2], test.script[:1]
				}
				before, received := m.fate(gate.ID, test.fate), m.counter(page, slot, 0)
				m.run(OnIngress, 1, append([]uint64{send(p.Index)}, test.script...)...)
				if m.sent != test.sent || !slices.Equal(plain(m.trail), test.trail) {
					t.Errorf("%s: passed %v and was sent to %d, want %v and %d", test.name, m.trail, m.sent, test.trail, test.sent)
				}
				if got := m.fate(gate.ID, test.fate) - before; got != 1 {
					t.Errorf("%s: %d packets with fate %d, want 1", test.name, got, test.fate)
				}
				if got := m.counter(page, slot, 0)[0] - received[0]; got == 1 != (len(test.trail) == 3) {
					t.Errorf("%s: the port received %d packets", test.name, got)
				}
				if last := len(m.ports) - 1; len(test.trail) == 3 && m.ports[last] != q.Index {
					t.Errorf("%s: received on port %d, want %d", test.name, m.ports[last], q.Index)
				}
			}
		})
	}
}

// TestRedirectsToNetdevsOfTheHost: the netdev is in the first word of the packet, and programs at XDP have no such redirect.
func TestRedirectsToNetdevsOfTheHost(t *testing.T) {
	for _, test := range []struct {
		output int64
		netdev uint32
		fate   int
	}{
		{outputNetdev, 42, reasonRedirected},
		{outputNeigh, 42, reasonRedirected},
		{outputNeigh, 1 << 31, reasonRedirected},
		{outputNetdev, 0, reasonNoOutput},
		{outputNeigh, 0, reasonNoOutput},
	} {
		g := new(graph).cubes(1)
		p := &Port{Index: 3}
		g.Cubes[0].Ports = append(g.Cubes[0].Ports, p)
		gate := g.gate(g.Cubes[0], p)
		gate.Redirects = true
		gate.Object.variables, gate.Object.loaded = map[string]variable{netdevsConstant: {}}, map[uint32]bool{0: true}
		gate.Object.Functions[Egress] = body(Egress,
			asm.StoreImm(asm.R2, mdOutPort-offMD, test.output, asm.Half),
			asm.StoreImm(asm.R2, mdWords-offMD, int64(int32(test.netdev)), asm.Word),
			asm.Mov.Imm(asm.R0, verdictRedirect),
			asm.Return())
		inBothModes(t, g, func(t *testing.T, m *machine) {
			test := test
			if m.c.Hook == cube.XDP {
				test.netdev, test.fate = 0, reasonNoOutput
			}
			want := map[int64]uint32{test.output: test.netdev}
			before := m.fate(gate.ID, test.fate)
			m.run(OnIngress, 1, send(p.Index))
			if m.sent != want[outputNetdev] || m.sentNeigh != want[outputNeigh] {
				t.Errorf("%+v: sent to netdev %d, and to a neighbour on %d", test, m.sent, m.sentNeigh)
			}
			if got := m.fate(gate.ID, test.fate) - before; got != 1 {
				t.Errorf("%+v: %d packets with that fate, want 1", test, got)
			}
		})
	}
}

// TestRedirectsToNetdevsAreHops: at TC the packet carries their number, which the next program continues from.
func TestRedirectsToNetdevsAreHops(t *testing.T) {
	g := new(graph).cubes(1)
	p := &Port{Index: 3}
	g.Cubes[0].Ports = append(g.Cubes[0].Ports, p)
	gate := g.gate(g.Cubes[0], p)
	gate.Object.Functions[Egress], gate.Redirects = scripted(Egress), true
	g.Hook = cube.TC
	m := newMachine(t, &g.Component, Inline)
	m.netdev(1, g.Cubes[0], netdevPort, 0, 1)
	m.row("pcn_exits", uint32(gate.ID)*MaxPorts, exitRow{42, 0, 0})
	ctx := m.vm.regions[m.ctx].data
	mark := func() uint32 { return binary.LittleEndian.Uint32(ctx[skbTCIndex:]) }
	before := m.fate(1, reasonHopLimit) + m.fate(gate.ID, reasonHopLimit)
	for hops := range uint32(DefaultHops + 1) {
		m.arrive = func(ctx []byte) {
			if hops > 0 {
				binary.LittleEndian.PutUint32(ctx[skbTCIndex:], redirectMark<<8|hops-1)
			}
		}
		m.run(OnIngress, 1, send(p.Index), verdictRedirect<<16)
		last := hops == DefaultHops
		if sent := m.sent == 42; sent == last || sent && mark() != redirectMark<<8|max(hops, 1) {
			t.Fatalf("after %d hops: sent %v with mark %#x", hops, sent, mark())
		}
	}
	if got := m.fate(1, reasonHopLimit) + m.fate(gate.ID, reasonHopLimit) - before; got != 1 {
		t.Errorf("%d packets exceeded the hop limit, want 1", got)
	}
}
