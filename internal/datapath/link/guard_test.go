// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/kernel"
)

// tagged gives a function a second argument that is never NULL.
func tagged(f *Function) *Function {
	fn := *btf.FuncMetadata(&f.Body[0])
	fn.Type = &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4}, Params: []btf.FuncParam{{Name: "ctx"}, {Name: "md"}}}
	fn.ParamTags = [][]string{nil, {kernel.NonNullTag}}
	f.Body[0] = btf.WithFuncMetadata(f.Body[0], &fn)
	return f
}

// linkedAlone is a function as it stands in a program for a kernel.
func linkedAlone(t *testing.T, f *Function, k kernel.Features) asm.Instructions {
	t.Helper()
	g := newGenerator(linking{c: &Component{}, core: &Core{Kernel: k}})
	out, err := g.function(site{cube: &Cube{ID: 1, Name: "c", Object: &Object{}}}, "c1i_f", f.Body, btf.GlobalFunc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestOldKernelsGetANullTestPerTaggedArgument(t *testing.T) {
	plain := body("f", asm.LoadMem(asm.R0, asm.R2, 0, asm.Byte), asm.Return())
	marked := tagged(body("f", asm.LoadMem(asm.R0, asm.R2, 0, asm.Byte), asm.Return()))
	for _, test := range []struct {
		name string
		f    *Function
		k    kernel.Features
		want int
	}{
		{"not tagged", plain, kernel.Features{}, 2},
		{"tagged, on a kernel that knows the tag", marked, kernel.All, 2},
		{"tagged, on one that does not", marked, kernel.Features{}, 5},
	} {
		out := linkedAlone(t, test.f, test.k)
		if len(out) != test.want {
			t.Errorf("%s: %d instructions, want %d:\n%v", test.name, len(out), test.want, out)
		}
		if fn := btf.FuncMetadata(&out[0]); fn == nil || out[0].Symbol() != fn.Name {
			t.Errorf("%s: the first instruction does not begin the function", test.name)
		}
		for i := range out[1:] {
			if btf.FuncMetadata(&out[i+1]) != nil {
				t.Errorf("%s: instruction %d begins the function again", test.name, i+1)
			}
		}
		if r0, _ := runBody(t, out, 7, false); r0 != 7 {
			t.Errorf("%s: it returns %d, want 7", test.name, r0)
		}
	}
	m := &vm{}
	m.frame()
	if r0, err := m.function(linkedAlone(t, marked, kernel.Features{}), 0); r0 != 0 || err != nil {
		t.Errorf("with NULL it returns %d, %v", r0, err)
	}
}

// TestALoopAtTheHeadStaysBehindTheNullTest: by then the register of the argument may hold a zero that is no pointer.
func TestALoopAtTheHeadStaysBehindTheNullTest(t *testing.T) {
	f := tagged(body("f",
		asm.Mov.Reg(asm.R2, asm.R3),
		asm.Add.Imm(asm.R3, 1),
		to(asm.JLT.Imm(asm.R3, 4, ""), -3),
		asm.Mov.Reg(asm.R0, asm.R3),
		asm.Return()))
	if r0, _ := runBody(t, linkedAlone(t, f, kernel.Features{}), 0, false); r0 != 4 {
		t.Errorf("the loop ends with %d, want 4", r0)
	}
}

// falling is a loop that is entered at its head, below its body, which falls through into it.
func falling() *Function {
	return body("f",
		asm.Mov.Imm(asm.R0, 0),
		to(asm.Ja.Label(""), 1),
		asm.Add.Imm(asm.R0, 1),
		to(asm.JLT.Imm(asm.R0, 4, ""), -2),
		asm.Return())
}

func TestALoopThatFallsIntoItsHeadGetsAJump(t *testing.T) {
	for _, test := range []struct {
		name string
		f    *Function
		k    kernel.Features
		want int
	}{
		{"on a kernel that follows it", falling(), kernel.All, 5},
		{"on one that does not", falling(), kernel.Features{}, 6},
		{"a jump forward only", bodies["jumps to one place from two"], kernel.Features{}, 8},
		{"a loop that ends in its jump", bodies["a jump to the first instruction"], kernel.Features{}, 6},
	} {
		out := linkedAlone(t, test.f, test.k)
		if len(out) != test.want {
			t.Errorf("%s: %d instructions, want %d:\n%v", test.name, len(out), test.want, out)
		}
		want, wantData := alone(t, test.f, 9)
		if got, data := runBody(t, out, 9, false); got != want || string(data) != string(wantData) {
			t.Errorf("%s: r0 is %d, alone %d", test.name, got, want)
		}
	}
	out := linkedAlone(t, falling(), kernel.Features{})
	if ja := out[3]; ja.OpCode.JumpOp() != asm.Ja || ja.Reference() != out[4].Symbol() {
		t.Errorf("before the head stands %v:\n%v", ja, out)
	}
	if got, _ := inlined(t, falling(), 0); got != 4 {
		t.Errorf("inlined, the loop ends with %d, want 4", got)
	}
}

// TestAProgramIsLinkedAlikeEachTime: trials leave out programs that they have loaded before, by their instructions. Frames in
// several buffers on an old kernel have one more way to end.
func TestAProgramIsLinkedAlikeEachTime(t *testing.T) {
	for _, h := range []cube.Hook{cube.TC, cube.XDP} {
		var first string
		for range 20 {
			g := new(graph).cubes(3)
			g.link(1, 2)
			g.Hook = h
			m := newMachine(t, &g.Component, Call)
			m.core.Frags = true
			got := fmt.Sprint(m.program(OnIngress))
			if first == "" {
				first = got
			}
			if got != first {
				t.Fatalf("%s: the same cubes become\n%s\nand\n%s", h, first, got)
			}
		}
	}
}
