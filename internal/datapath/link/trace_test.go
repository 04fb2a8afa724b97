// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
)

// TestTracingCostsNothingWhenOff: all that tracing adds to a program is emitted by the functions
// below, and without a session they emit nothing. So the instructions are those of a linker that
// knows no tracing.
func TestTracingCostsNothingWhenOff(t *testing.T) {
	c, core := new(graph).cubes(1).Cubes[0], &Core{}
	hooks := map[string]func(g *generator, b *block){
		"begin":   func(g *generator, b *block) { g.traceBegin(b) },
		"resume":  func(g *generator, b *block) { g.traceResume(b) },
		"program": func(g *generator, b *block) { g.traceProgram(b, first(c, cube.Ingress)) },
		"end":     func(g *generator, b *block) { g.traceEnd(b) },
		"leave":   func(g *generator, b *block) { g.traceLeave(b) },
		"in":      func(g *generator, b *block) { g.captureIn(b, first(c, cube.Ingress)) },
		"out":     func(g *generator, b *block) { g.captureOut(b, c) },
		"flood":   func(g *generator, b *block) { g.captureFlood(b, c) },
	}
	whole := []Session{{Bit: 0}, {Bit: 1, Capture: &Capture{Cube: c.ID}}}
	for name, emit := range hooks {
		for _, trace := range []*Trace{nil, {}} {
			b := &block{label: "b"}
			if emit(newGenerator(linking{core: core, c: &Component{Trace: trace}}), b); len(b.ins) != 0 || b.next != "" {
				t.Errorf("%s emits %d instructions without a session", name, len(b.ins))
			}
		}
		b := &block{label: "b"}
		if emit(newGenerator(linking{core: core, c: &Component{Trace: &Trace{Sessions: whole}}}), b); len(b.ins) == 0 {
			t.Errorf("%s emits nothing with sessions: it is not among what tracing adds", name)
		}
	}
}

// TestProgramsWithoutSessionsHaveNoTraceOfTracing looks at whole programs: they are the same for
// no sessions as for none given, and touch nothing that is tracing's.
func TestProgramsWithoutSessionsHaveNoTraceOfTracing(t *testing.T) {
	inBothModes(t, new(graph).cubes(3), func(t *testing.T, m *machine) {
		for _, role := range []Role{OnIngress, OnResume} {
			m.c.Trace = nil
			off := program(t, m, role)
			m.c.Trace = &Trace{}
			if none := program(t, m, role); sorted(off) != sorted(none) {
				t.Errorf("%s: no sessions make another program", role)
			}
			for i, ins := range driver(off) {
				if ref := ins.Reference(); strings.Contains(ref, "trace") || strings.Contains(ref, "filter") || strings.Contains(ref, "capture") {
					t.Errorf("%s: instruction %d refers to %s", role, i, ref)
				}
				onFrame := isStore(&ins) && ins.Dst == asm.R10 || isLoad(&ins) && ins.Src == asm.R10
				narrow := ins.OpCode.Size() != asm.DWord // whole words are copies of all of md
				if onFrame && narrow && (ins.Offset == mdFlags && !unflags(driver(off), i) && !handsOver(driver(off), i) || ins.Offset == mdTraceID) {
					t.Errorf("%s: instruction %d is about a member of md that is tracing's: %v", role, i, ins)
				}
			}
			m.c.Trace = &Trace{Sessions: []Session{{}}}
			if on := program(t, m, role); len(on) <= len(off) {
				t.Errorf("%s: %d instructions when traced, %d when not", role, len(on), len(off))
			}
			m.c.Trace = nil
		}
	})
}

// unflags tells whether an instruction is the load or the store of what clears the bits that are not tracing's.
func unflags(insns asm.Instructions, i int) bool {
	and := func(at int) bool {
		return at > 0 && at < len(insns) && insns[at].OpCode.ALUOp() == asm.And && insns[at].Constant == mdTrace
	}
	return and(i-1) || and(i+1)
}

// handsOver tells whether an instruction loads a member of md for the resume program, which gets all of it.
func handsOver(insns asm.Instructions, i int) bool {
	return isLoad(&insns[i]) && i+1 < len(insns) && insns[i+1].OpCode.ALUOp() == asm.LSh && insns[i+1].Constant == 48
}

func program(t *testing.T, m *machine, role Role) asm.Instructions {
	t.Helper()
	spec, err := Program(m.c, m.core, m.mode, role)
	if err != nil {
		t.Fatal(err)
	}
	return spec.Instructions
}

// driver is the program without the functions behind it.
func driver(insns asm.Instructions) asm.Instructions {
	for i := range insns {
		if i > 0 && btf.FuncMetadata(&insns[i]) != nil {
			return insns[:i]
		}
	}
	return insns
}

// sorted is the driver's code, one instruction a line: the order of blocks that are rarely run is
// not fixed.
func sorted(insns asm.Instructions) string {
	var lines []string
	for _, ins := range driver(insns) {
		lines = append(lines, fmt.Sprintf("%s: %d %d %d %d %d %s", ins.Symbol(), ins.OpCode, ins.Dst, ins.Src, ins.Offset,
			ins.Constant, ins.Reference()))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
