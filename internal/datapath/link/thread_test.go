// SPDX-License-Identifier: Apache-2.0

package link

import (
	"maps"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

// outPort is the offset of md.out_port.
const outPort = 2

func TestReturnsOfConstantsSkipTheDispatch(t *testing.T) {
	store := func(value asm.Register) asm.Instruction { return asm.StoreMem(asm.R2, outPort, value, asm.Half) }
	tests := []struct {
		name string
		want map[int]string
		body []asm.Instruction
	}{
		{"a constant verdict", map[int]string{1: "drop.1"}, []asm.Instruction{asm.Mov.Imm(asm.R0, 2), asm.Return()}},
		{"a verdict that does not exist", map[int]string{1: "badverdict.1"}, []asm.Instruction{asm.Mov.Imm(asm.R0, 77), asm.Return()}},
		{"a computed verdict", map[int]string{}, []asm.Instruction{asm.Mov.Reg(asm.R0, asm.R1), asm.Return()}},
		{"a verdict that a call may have changed", map[int]string{}, []asm.Instruction{
			asm.Mov.Imm(asm.R0, 1), asm.FnKtimeGetNs.Call(), asm.Return(),
		}},
		{"a constant port with code", map[int]string{3: "port.1.1.0"}, []asm.Instruction{
			asm.Mov.Imm(asm.R3, 1), store(asm.R3), asm.Mov.Imm(asm.R0, 1), asm.Return(),
		}},
		{"a constant port that is the verdict too", map[int]string{2: "port.1.1.0"}, []asm.Instruction{
			asm.Mov.Imm(asm.R0, 1), store(asm.R0), asm.Return(),
		}},
		{"a constant port without code", map[int]string{3: "wire.1.0"}, []asm.Instruction{
			asm.Mov.Imm(asm.R3, 5), store(asm.R3), asm.Mov.Imm(asm.R0, 1), asm.Return(),
		}},
		{"the last of two ports", map[int]string{5: "wire.1.0"}, []asm.Instruction{
			asm.Mov.Imm(asm.R3, 1), store(asm.R3), asm.Mov.Imm(asm.R3, 5), store(asm.R3), asm.Mov.Imm(asm.R0, 1), asm.Return(),
		}},
		{"a port that is not known", map[int]string{3: "wire.1.0"}, []asm.Instruction{
			asm.LoadMem(asm.R3, asm.R2, 0, asm.Half), store(asm.R3), asm.Mov.Imm(asm.R0, 1), asm.Return(),
		}},
		{"a port written as part of a word", map[int]string{5: "wire.1.0"}, []asm.Instruction{
			asm.Mov.Imm(asm.R3, 1), store(asm.R3), asm.Mov.Imm(asm.R3, 0), asm.StoreMem(asm.R2, 0, asm.R3, asm.Word),
			asm.Mov.Imm(asm.R0, 1), asm.Return(),
		}},
		{"a return that a branch joins: what falls into it", map[int]string{3: "drop.1"}, []asm.Instruction{
			asm.Mov.Imm(asm.R0, 1), to(asm.JEq.Imm(asm.R3, 0, ""), 1), asm.Mov.Imm(asm.R0, 2), asm.Return(),
		}},
		{"a verdict before the branch that it falls through", map[int]string{}, []asm.Instruction{
			asm.Mov.Imm(asm.R0, 1), to(asm.JEq.Imm(asm.R3, 0, ""), 0), asm.Return(),
		}},
		{"a goto that others jump to", map[int]string{}, []asm.Instruction{
			to(asm.JEq.Imm(asm.R3, 0, ""), 1), asm.Mov.Imm(asm.R0, 2), to(asm.Ja.Label(""), 1), asm.Mov.Imm(asm.R4, 0), asm.Return(),
		}},
	}
	c := &Cube{ID: 1, Name: "c", Ports: []*Port{{Index: 1}}}
	for _, test := range tests {
		f := body("f", test.body...)
		c.Object = &Object{Functions: map[string]*Function{Ingress: f}}
		g := newGenerator(linking{c: &Component{}, core: &Core{}})
		threads := g.threads(first(c, cube.Ingress), f, label(f.Body, "p", "p"))
		got := maps.Clone(threads.at)
		maps.Copy(got, threads.before)
		if !maps.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestAReturnThatNothingReachesAnyMoreIsLeftOut(t *testing.T) {
	// two paths meet at one exit, both with constants
	f := body("f",
		to(asm.JEq.Imm(asm.R3, 0, ""), 2),
		asm.Mov.Imm(asm.R0, 1),
		to(asm.Ja.Label(""), 1),
		asm.Mov.Imm(asm.R0, 2),
		asm.Return())
	g := newGenerator(linking{c: &Component{}, core: &Core{}})
	b := &block{label: "in.1"}
	at := place{site{cube: &Cube{ID: 1, Object: &Object{}}}, 0}
	if err := g.inline(b, at, f, "in.1.done"); err != nil {
		t.Fatal(err)
	}
	for _, ins := range b.ins {
		if isExit(&ins) {
			t.Errorf("a return is left in %v", b.ins)
		}
	}
}
