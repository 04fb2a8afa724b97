// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
)

// drop, pass and so on are the hooks' verdicts.
var hookVerdicts = map[cube.Hook]struct{ drop, pass, redirect uint32 }{
	cube.TC: {2, 0xffffffff, 7}, cube.XDP: {1, 2, 4},
}

func TestEveryVerdictEndsAsItShould(t *testing.T) {
	tests := []struct {
		name    string
		script  uint64
		verdict func(h cube.Hook) uint32
		fate    int // -1 for none
	}{
		{"pass", verdictPass << 16, func(h cube.Hook) uint32 { return hookVerdicts[h].pass }, reasonPass},
		{"send to a netdev", send(netdevPort), func(h cube.Hook) uint32 { return hookVerdicts[h].redirect }, -1},
		{"send to a port that is not there", send(9), dropped, reasonNoPeer},
		{"send to the last port number", send(MaxPorts - 1), dropped, reasonNoPeer},
		{"send beyond the last port number", send(MaxPorts), dropped, reasonBadPort},
		{"send to a port as large as can be", send(65535), dropped, reasonBadPort},
		{"drop without a reason", verdictDrop << 16, dropped, reasonUnspecified},
		{"to the slow path", verdictController << 16, dropped, -1},
		{"a verdict that does not exist", 99 << 16, dropped, reasonBadVerdict},
		{"a negative verdict", 0xffff << 16, dropped, reasonBadVerdict},
	}
	g := new(graph).cubes(1)
	inBothModes(t, g, func(t *testing.T, m *machine) {
		for _, test := range tests {
			var before [reasonMax]uint64
			for reason := range before {
				before[reason] = m.fate(1, reason)
			}
			if got := m.run(OnIngress, 1, test.script); got != test.verdict(m.c.Hook) {
				t.Errorf("%s: verdict %#x, want %#x", test.name, got, test.verdict(m.c.Hook))
			}
			for reason := range before {
				want := before[reason]
				if reason == test.fate {
					want++
				}
				if got := m.fate(1, reason); got != want {
					t.Errorf("%s: reason %d counts %d, want %d", test.name, reason, got, want)
				}
			}
			if up := test.script == verdictController<<16; up != (len(m.up) == 1 && m.up[0] == 1) {
				t.Errorf("%s: the slow path was called for %v", test.name, m.up)
			}
		}
	})
}

func dropped(h cube.Hook) uint32 { return hookVerdicts[h].drop }

// dropping drops with a reason.
func dropping(reason int32) *Function {
	return body(Ingress,
		asm.Mov.Imm(asm.R1, reason), asm.StoreMem(asm.R2, 4, asm.R1, asm.Half),
		asm.Mov.Imm(asm.R0, verdictDrop), asm.Return())
}

func TestACubeCannotForgeTheFrameworksReasons(t *testing.T) {
	for reason, want := range map[int32]int{
		reasonPass: reasonUnspecified, reasonNoPeer: reasonUnspecified, reasonHopLimit: reasonUnspecified,
		31: reasonUnspecified, 32: 32, 63: 63, 64: reasonUnspecified, 65535: reasonUnspecified,
	} {
		g := new(graph).cubes(1)
		g.Cubes[0].Object.Functions[Ingress] = dropping(reason)
		inBothModes(t, g, func(t *testing.T, m *machine) {
			m.run(OnIngress, 1)
			for r := range reasonMax {
				if got := m.fate(1, r); got != 0 && r != want || r == want && got != 1 {
					t.Errorf("a drop for reason %d: reason %d counts %d", reason, r, got)
				}
			}
		})
	}
}

func TestPacketsThatNobodyExpectsAreDroppedAndCounted(t *testing.T) {
	g := new(graph).cubes(2)
	g.link(1, 2)
	inBothModes(t, g, func(t *testing.T, m *machine) {
		m.row("pcn_entries", 40, [4]uint16{77, 0, 0, 0})        // a cube that is not here
		m.row("pcn_entries", 41, [4]uint16{0, 0, 0, 0})         // nobody
		m.row("pcn_entries", 42, [4]uint16{1, 0, 0, NoSlot})    // no port's counters: good
		m.row("pcn_entries", 43, [4]uint16{1, 0, 0, Slots + 1}) // beyond the page
		m.row("pcn_far_entries", Entries+5, [4]uint16{2, netdevPort, 3, 8})
		for ifindex, lost := range map[uint32]bool{39: true, 40: true, 41: true, 42: false, 43: true, Entries + 5: false, Entries + 6: true} {
			before := m.fate(0, reasonNoProgram)
			verdict := m.run(OnIngress, ifindex, send(netdevPort))
			if got := m.fate(0, reasonNoProgram) - before; lost != (got == 1) || lost != (verdict == dropped(m.c.Hook)) {
				t.Errorf("from netdev %d: verdict %#x, %d counted as lost; lost should be %t", ifindex, verdict, got, lost)
			}
		}
		if got := m.counter(3, 8, 0); got != [2]uint64{1, 100} {
			t.Errorf("the port whose counters are in another page has received %v", got)
		}
	})
}

func TestCountersOfAnotherPageAreReached(t *testing.T) {
	g := new(graph).cubes(2)
	p, _ := g.link(1, 2)
	p.Page, p.Slot = 5, 999
	inBothModes(t, g, func(t *testing.T, m *machine) {
		m.netdev(2, g.Cubes[1], netdevPort, 9, 17)
		m.run(OnIngress, 1, send(p.Index), send(netdevPort))
		if a, b := m.counter(5, 999, slotTx), m.counter(9, 17, slotTx); a != [2]uint64{1, 100} || b != a {
			t.Errorf("sent over the link %v, to the netdev %v; want one packet of 100 bytes each", a, b)
		}
	})
}

func TestProgramsOverTheLimitsAreRefused(t *testing.T) {
	functions := new(graph).cubes(60)
	for _, c := range functions.Cubes {
		var calls []asm.Instruction
		for n := range 4 {
			calls = append(calls, asm.Call.Label(fmt.Sprint("helper", n)))
		}
		f := body(Ingress, append(calls, asm.Return())...)
		c.Object.Functions[Ingress] = f
		for n := range 4 {
			name := fmt.Sprint("helper", n)
			f.Callees[name] = asm.Instructions{
				btf.WithFuncMetadata(nop().WithSymbol(name), &btf.Func{Name: name}), asm.Return(),
			}
		}
	}
	code := new(graph).cubes(30)
	long := make([]asm.Instruction, 0, 3002)
	for range 3000 {
		long = append(long, nop())
	}
	long = append(long, asm.Return())
	for i, c := range code.Cubes {
		c.Object.Functions[Ingress] = body(Ingress, long...)
		if i > 0 {
			code.link(i, i+1)
		}
	}
	tests := []struct {
		name string
		g    *graph
		mode Mode
		want error
	}{
		{"too many functions, called", functions, Call, ErrTooLarge},
		{"jumps that are too far, inlined", code, Inline, ErrTooLarge},
		{"the same cubes, called", code, Call, nil},
	}
	for _, test := range tests {
		for _, role := range []Role{OnIngress, OnResume} {
			test.g.Hook = cube.TC
			_, err := Program(&test.g.Component, testCore(t), test.mode, role)
			if !errors.Is(err, test.want) {
				t.Errorf("%s, %s: %v, want %v", test.name, role, err, test.want)
			}
		}
	}
}

// testCore is a framework for programs that are linked but not run.
func testCore(t *testing.T) *Core {
	t.Helper()
	m := newMachine(t, &new(graph).cubes(1).Component, Call)
	return m.core
}

func TestAFrameworkWithoutItsMapsIsRefused(t *testing.T) {
	for _, name := range []string{"pcn_entries", "pcn_counters", "pcn_fates", "pcn_exits", "pcn_resumes"} {
		core := testCore(t)
		delete(core.Maps, name)
		c := new(graph).cubes(1).Component
		_, err1 := Program(&c, core, Call, OnIngress)
		_, err2 := Program(&c, core, Call, OnResume)
		if !errors.Is(errors.Join(err1, err2), cube.ErrNotFound) {
			t.Errorf("without %s: %v, %v; want ErrNotFound", name, err1, err2)
		}
	}
}

func TestProgramsHaveTheTypeOfTheirHook(t *testing.T) {
	for hook, want := range map[cube.Hook]ebpf.ProgramSpec{
		cube.TC:  {Type: ebpf.SchedCLS},
		cube.XDP: {Type: ebpf.XDP, AttachType: ebpf.AttachXDP, Flags: FlagFrags},
	} {
		g := new(graph).cubes(1)
		g.Hook = hook
		spec, err := Program(&g.Component, testCore(t), Inline, OnIngress)
		if err != nil {
			t.Fatal(err)
		}
		if spec.Type != want.Type || spec.AttachType != want.AttachType || spec.Flags != want.Flags || spec.Name != "pcn_in" {
			t.Errorf("%s: %s of type %v, %v, flags %#x", hook, spec.Name, spec.Type, spec.AttachType, spec.Flags)
		}
	}
}
