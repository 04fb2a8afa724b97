// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
)

// calling is scripted, with the lower half of the answer as the reason, too: the index of the
// program that it calls. It adds its own mark to the first word, which the cube keeps.
func calling(name string, mark int32) *Function {
	return body(name,
		asm.Mov.Reg(asm.R6, asm.R2),
		asm.LoadMem(asm.R1, asm.R6, 24, asm.Word),
		asm.Add.Imm(asm.R1, mark),
		asm.StoreMem(asm.R6, 24, asm.R1, asm.Word),
		asm.FnGetPrandomU32.Call(),
		asm.StoreMem(asm.R6, 2, asm.R0, asm.Half),
		asm.StoreMem(asm.R6, 4, asm.R0, asm.Half),
		asm.RSh.Imm(asm.R0, 16),
		asm.Return(),
	)
}

func call(index int) uint64 { return verdictCall<<16 | uint64(index) }

// pipeline is a cube with programs at the indexes.
func pipeline(id uint16, ingress, egress []uint8) *Cube {
	c := &Cube{ID: id, Name: fmt.Sprint("c", id), Object: &Object{}, Entry: true}
	for dir, indexes := range [][]uint8{ingress, egress} {
		for _, i := range indexes {
			name := fmt.Sprintf("p%d_%d", dir, i)
			c.Programs[dir] = append(c.Programs[dir], CubeProgram{i, c.Object, calling(name, 1), 0})
		}
	}
	return c
}

func pipelines() *graph {
	g := new(graph).cubes(0)
	g.Cubes = []*Cube{
		pipeline(1, []uint8{0, 1, 2, 3, 4, 5, 7, 9}, []uint8{0, 1, 2, 31}),
		pipeline(2, []uint8{0, 1}, nil),
	}
	g.link(1, 2)
	return g
}

func TestProgramsOfACubeCallEachOther(t *testing.T) {
	g := pipelines()
	out := g.Cubes[0].Ports[0].Index
	pass := uint64(verdictPass<<16 | netdevPort)
	tests := []struct {
		name   string
		script []uint64
		trail  string
		fate   int
	}{
		{"in order", []uint64{call(1), call(2), call(9), send(netdevPort), pass}, "1 1:1 1:2 1:9 out", -1},
		{"backwards", []uint64{call(9), call(7), call(1), send(netdevPort), pass}, "1 1:9 1:7 1:1 out", -1},
		{"to and fro", []uint64{call(9), call(1), call(7), call(2), call(5), send(netdevPort), pass}, "1 1:9 1:1 1:7 1:2 1:5 out", -1},
		{"itself", []uint64{call(0), call(0), call(0), send(netdevPort), pass}, "1 1 1 1 out", -1},
		{"one that is not there", []uint64{call(6)}, "1", reasonNoProgram},
		{"one beyond all", []uint64{call(300)}, "1", reasonNoProgram},
		{"on the way out", []uint64{send(netdevPort), call(31), call(2), pass}, "1 out out:31 out:2", -1},
		{"an ingress program from the way out", []uint64{send(netdevPort), call(9)}, "1 out", reasonNoProgram},
		{"on in the next cube", []uint64{call(5), send(out), call(2), verdictPass<<16 | uint64(out), call(1), send(netdevPort)}, "1 1:5 out out:2 2 2:1", -1},
	}
	inBothModes(t, g, func(t *testing.T, m *machine) {
		for _, test := range tests {
			before := m.fate(1, reasonNoProgram)
			got := m.run(OnIngress, 1, test.script...)
			if trail := shortTrail(m.trail); trail != test.trail {
				t.Errorf("%s: passes %q, want %q", test.name, trail, test.trail)
			}
			want := hookVerdicts[m.c.Hook].redirect
			if test.fate >= 0 {
				want = hookVerdicts[m.c.Hook].drop
			}
			if got != want || m.fate(1, reasonNoProgram) != before+btoi(test.fate >= 0) {
				t.Errorf("%s: verdict %#x, %d drops as no-program", test.name, got, m.fate(1, reasonNoProgram)-before)
			}
		}
	})
}

func btoi(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// shortTrail leaves out sweeps, "in.", and the number of the cube on the way out.
func shortTrail(trail []string) string {
	out := make([]string, len(trail))
	for i, at := range trail {
		at = strings.TrimPrefix(strings.TrimSuffix(at, "'"), "in.")
		out[i] = strings.Replace(at, "out.1", "out", 1)
	}
	return strings.Join(out, " ")
}

func TestACubeThatCallsItselfForEverIsStopped(t *testing.T) {
	g := pipelines()
	inBothModes(t, g, func(t *testing.T, m *machine) {
		got := m.run(OnIngress, 1, slices.Repeat([]uint64{call(3), call(2)}, 2*DefaultHops)...)
		if got != hookVerdicts[m.c.Hook].drop || m.fate(1, reasonHopLimit) != 1 {
			t.Errorf("verdict %#x, %d drops as hop-limit", got, m.fate(1, reasonHopLimit))
		}
	})
}

func TestTheWordsStayWithinACubeAndEndAtItsBorder(t *testing.T) {
	g := pipelines()
	for _, p := range g.Cubes[1].Programs[cube.Ingress] {
		*p.Function = *scripted(p.Function.Name)
	}
	out := g.Cubes[0].Ports[0].Index
	inBothModes(t, g, func(t *testing.T, m *machine) {
		r := rand.New(rand.NewPCG(1, 2))
		for range 50 {
			var script []uint64
			for range r.IntN(6) {
				script = append(script, call([]int{0, 1, 2, 3, 4, 5, 7, 9}[r.IntN(8)]))
			}
			script = append(script, send(out), verdictPass<<16|uint64(out), send(netdevPort))
			if got := m.run(OnIngress, 1, script...); got != hookVerdicts[m.c.Hook].redirect || m.sent != 2 {
				t.Fatalf("script %x ends with %#x at netdev %d (%v)", script, got, m.sent, m.trail)
			}
		}
	})
}

func TestAFilterOnAForeignPortIsNoFunctionThatNobodyCalls(t *testing.T) {
	g := new(graph).cubes(3)
	g.link(1, 2)
	g.link(2, 3)
	far := g.Cubes[1]
	gate := g.gate(far, far.Ports[0]) // on the foreign cube's port, in this segment
	far.Foreign = true
	g.Cubes = []*Cube{g.Cubes[0], g.Cubes[2], gate}
	for _, mode := range bothModes {
		for _, hook := range []cube.Hook{cube.TC, cube.XDP} {
			c := g.Component
			c.Hook = hook
			spec, err := Program(&c, newMachine(t, &c, mode).core, mode, OnIngress)
			if err != nil {
				t.Fatal(err)
			}
			references := map[string]bool{}
			for _, name := range spec.Instructions.FunctionReferences() {
				references[name] = true
			}
			for i := range spec.Instructions {
				ins := &spec.Instructions[i]
				if fn := btf.FuncMetadata(ins); fn != nil && i > 0 && !references[ins.Symbol()] {
					t.Errorf("%s %s: nobody calls %s", mode, hook, fn.Name)
				}
			}
		}
	}
}
