// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
)

// labelled makes a block of instructions.
func labelled(name string, insns ...asm.Instruction) *block {
	b := &block{label: name}
	b.add(insns...)
	return b
}

func nop() asm.Instruction { return asm.Mov.Imm(asm.R0, 0) }

func TestLayoutKeepsWhatIsReachedAndDropsNeedlessJumps(t *testing.T) {
	tests := []struct {
		name   string
		blocks []*block
		labels string // in order
		jumps  int
	}{
		{"a jump to the block that follows", []*block{
			labelled("a", nop(), asm.Ja.Label("b")), labelled("b", asm.Return()),
		}, "a b", 0},
		{"a jump over a block that is needed", []*block{
			labelled("a", asm.JEq.Imm(asm.R1, 1, "b"), asm.Ja.Label("c")), labelled("b", asm.Return()), labelled("c", asm.Return()),
		}, "a b c", 2},
		{"a jump over a block that nothing needs", []*block{
			labelled("a", nop(), asm.Ja.Label("c")), labelled("b", asm.Ja.Label("b2")), labelled("b2", asm.Return()), labelled("c", asm.Return()),
		}, "a c", 0},
		{"a jump backwards", []*block{
			labelled("a", nop(), asm.Ja.Label("c")), labelled("b", asm.Return()), labelled("c", nop(), asm.Ja.Label("b")),
		}, "a b c", 2},
		{"a block that is one jump stays, since it may be jumped to", []*block{
			labelled("a", asm.JEq.Imm(asm.R1, 1, "c"), asm.Ja.Label("b")), labelled("b", asm.Ja.Label("c")), labelled("c", asm.Return()),
		}, "a b c", 2},
		{"a call of a function is no jump to the block of that name", []*block{
			labelled("a", asm.Call.Label("b"), asm.Return()), labelled("b", asm.Return()),
		}, "a", 0},
		{"a call of a function of the kernel", []*block{
			labelled("a", kernelCall("b"), asm.Return()), labelled("b", asm.Return()),
		}, "a", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out, err := layout(test.blocks)
			if err != nil {
				t.Fatal(err)
			}
			var labels []string
			jumps := 0
			for i := range out {
				if s := out[i].Symbol(); s != "" {
					labels = append(labels, s)
				}
				if out[i].Reference() != "" && !out[i].IsFunctionReference() && !out[i].IsKfuncCall() {
					jumps++
				}
			}
			if got := strings.Join(labels, " "); got != test.labels || jumps != test.jumps {
				t.Errorf("blocks %q with %d jumps, want %q with %d:\n%v", got, jumps, test.labels, test.jumps, out)
			}
		})
	}
}

// kernelCall calls a function of the kernel.
func kernelCall(name string) asm.Instruction {
	call := asm.Call.Label(name)
	call.Src = asm.PseudoKfuncCall
	return call
}

func TestALabelledJumpIsNotDropped(t *testing.T) {
	a := labelled("a", asm.JEq.Imm(asm.R1, 0, "a.1"), nop())
	a.mark("a.1")
	a.jump("b")
	out, err := layout([]*block{a, labelled("b", asm.Return())})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != 4 || out[2].Symbol() != "a.1" {
		t.Errorf("the jump that carries a label is gone:\n%v", out)
	}
}

func TestJumpsThatDoNotFitAreRefused(t *testing.T) {
	// far is a program whose jump goes over n instructions.
	far := func(n int, back bool) asm.Instructions {
		out := asm.Instructions{asm.JEq.Imm(asm.R1, 0, "end")}
		if back {
			out = asm.Instructions{nop().WithSymbol("end")}
			n--
		}
		out = append(out, slices.Repeat(asm.Instructions{nop()}, n)...)
		if back {
			return append(out, asm.JEq.Imm(asm.R1, 0, "end"), asm.Return())
		}
		return append(out, asm.Return().WithSymbol("end"))
	}
	wide := far(32766, false)
	wide[1] = asm.LoadImm(asm.R0, 1, asm.DWord) // counts as two
	tooWide := far(32767, false)
	tooWide[1] = asm.LoadImm(asm.R0, 1, asm.DWord)
	tests := []struct {
		name  string
		insns asm.Instructions
		want  error
	}{
		{"the furthest forward", far(32767, false), nil},
		{"one too far forward", far(32768, false), ErrTooLarge},
		{"the furthest back", far(32767, true), nil},
		{"one too far back", far(32768, true), ErrTooLarge},
		{"the furthest over a wide instruction", wide, nil},
		{"one too far over a wide instruction", tooWide, ErrTooLarge},
	}
	for _, test := range tests {
		if err := checkJumps(test.insns); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
	if err := checkJumps(asm.Instructions{asm.Ja.Label("nowhere"), asm.Return()}); err == nil {
		t.Error("a jump to a label that does not exist was accepted")
	}
}

func TestChooseFindsTheBranchOfEveryValue(t *testing.T) {
	for _, values := range [][]int32{
		{}, {0}, {7}, {0, 1, 2}, {1, 3, 5, 7, 9}, {0, 2, 4, 6, 8, 10}, // around the change to binary search
		{5, 6, 7, 8, 9, 10, 11}, ascending(0, 511, 1), ascending(3, 1023, 17), ascending(0, 65535, 601),
	} {
		t.Run(fmt.Sprint(len(values)), func(t *testing.T) {
			b := &block{label: "start"}
			var to []branch
			blocks := []*block{b}
			for n, v := range values {
				to = append(to, branch{v, fmt.Sprint("is", v)})
				blocks = append(blocks, labelled(fmt.Sprint("is", v), asm.Mov.Imm(asm.R0, int32(n)), asm.Return()))
			}
			b.choose(asm.R1, to, "none")
			blocks = append(blocks, labelled("none", asm.Mov.Imm(asm.R0, -1), asm.Return()))
			insns, err := layout(blocks)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[int32]bool{}
			for _, v := range values {
				for _, near := range []int32{v - 1, v, v + 1} {
					seen[max(near, 0)] = true
				}
			}
			m := &vm{}
			for v := range seen {
				m.r[1] = uint64(v)
				m.steps = 0
				got, err := m.function(insns, 0)
				want := slices.Index(values, v)
				if err != nil || int32(got) != int32(want) {
					t.Errorf("%d goes to branch %d, %v; want %d", v, int32(got), err, want)
				}
				if m.steps > 25 {
					t.Errorf("%d takes %d instructions", v, m.steps)
				}
			}
		})
	}
}

func ascending(from, to, step int32) []int32 {
	var out []int32
	for v := from; v <= to; v += step {
		out = append(out, v)
	}
	return out
}
