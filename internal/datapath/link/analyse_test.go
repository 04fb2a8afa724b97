// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"

	"github.com/cilium/ebpf/asm"
)

func TestWritesToTheWordsAreFound(t *testing.T) {
	st := func(dst asm.Register, off int16, size asm.Size) asm.Instruction {
		return asm.StoreMem(dst, off, asm.R3, size)
	}
	three := asm.Mov.Imm(asm.R3, 3)
	tests := []struct {
		name string
		want bool
		body []asm.Instruction
	}{
		{"nothing", false, nil},
		{"the output port", false, []asm.Instruction{three, st(asm.R2, 2, asm.Half)}},
		{"up to the first word", false, []asm.Instruction{three, st(asm.R2, 16, asm.DWord)}},
		{"behind the last word", false, []asm.Instruction{three, st(asm.R2, 40, asm.DWord)}},
		{"the first word", true, []asm.Instruction{three, st(asm.R2, 24, asm.Byte)}},
		{"the last byte", true, []asm.Instruction{three, st(asm.R2, 39, asm.Byte)}},
		{"into the words from before", true, []asm.Instruction{three, st(asm.R2, 20, asm.DWord)}},
		{"with a constant", true, []asm.Instruction{asm.StoreImm(asm.R2, 28, 1, asm.Word)}},
		{"atomically", true, []asm.Instruction{three, asm.AddAtomic.Mem(asm.R2, asm.R3, asm.Word, 32)}},
		{"reading is no writing", false, []asm.Instruction{asm.LoadMem(asm.R3, asm.R2, 24, asm.DWord)}},
		{"through a copy", true, []asm.Instruction{three, asm.Mov.Reg(asm.R6, asm.R2), st(asm.R6, 24, asm.Word)}},
		{"through a copy of a copy", true, []asm.Instruction{
			three, asm.Mov.Reg(asm.R6, asm.R2), asm.Mov.Reg(asm.R7, asm.R6), asm.Mov.Imm(asm.R6, 0), st(asm.R7, 24, asm.Word),
		}},
		{"elsewhere through a copy", false, []asm.Instruction{three, asm.Mov.Reg(asm.R6, asm.R2), st(asm.R6, 4, asm.Half)}},
		{"through a pointer moved on", true, []asm.Instruction{three, asm.Add.Imm(asm.R2, 24), st(asm.R2, 0, asm.Word)}},
		{"through a pointer with a computed offset", true, []asm.Instruction{
			three, asm.LoadMem(asm.R4, asm.R2, 0, asm.Half), asm.Add.Reg(asm.R2, asm.R4), st(asm.R2, 0, asm.Byte),
		}},
		{"through a number plus the pointer", true, []asm.Instruction{
			three, asm.Mov.Imm(asm.R4, 8), asm.Add.Reg(asm.R4, asm.R2), st(asm.R4, 0, asm.Byte),
		}},
		{"elsewhere once the register is something else", false, []asm.Instruction{three, asm.Mov.Reg(asm.R2, asm.R1), st(asm.R2, 24, asm.Word)}},
		{"the packet's bytes", false, []asm.Instruction{three, asm.LoadMem(asm.R4, asm.R1, 0, asm.Word), st(asm.R4, 24, asm.Word)}},
		{"through the stack", true, []asm.Instruction{
			three, asm.StoreMem(asm.R10, -8, asm.R2, asm.DWord), asm.LoadMem(asm.R7, asm.R10, -8, asm.DWord), st(asm.R7, 0, asm.Word),
		}},
		{"a number from the stack is no pointer", false, []asm.Instruction{
			three, wide(-8), asm.LoadMem(asm.R7, asm.R10, -8, asm.DWord), st(asm.R7, 24, asm.Word),
		}},
		{"a pointer hidden in a map's value", true, []asm.Instruction{asm.StoreMem(asm.R1, 0, asm.R2, asm.DWord)}},
		{"a helper that gets md", true, []asm.Instruction{asm.FnSkbLoadBytes.Call()}},
		{"a helper that does not", false, []asm.Instruction{asm.Mov.Imm(asm.R2, 0), asm.FnSkbLoadBytes.Call()}},
		{"a helper, when md is on the stack", true, []asm.Instruction{
			asm.StoreMem(asm.R10, -8, asm.R2, asm.DWord), asm.Mov.Imm(asm.R2, 0), asm.FnSkbLoadBytes.Call(),
		}},
		{"a helper that only reads", false, []asm.Instruction{asm.FnMapLookupElem.Call()}},
		{"a function of the cube that gets md", true, []asm.Instruction{asm.Call.Label("own")}},
		{"the framework's functions", false, []asm.Instruction{asm.Call.Label("pcn_core_copy")}},
		{"behind a call the register is gone", false, []asm.Instruction{
			asm.Call.Label("pcn_core_copy"), three, st(asm.R2, 24, asm.Word),
		}},
		{"a copy in a saved register survives a call", true, []asm.Instruction{
			asm.Mov.Reg(asm.R6, asm.R2), asm.Call.Label("pcn_core_copy"), three, st(asm.R6, 24, asm.Word),
		}},
		{"on one of two ways", true, []asm.Instruction{
			three, asm.Mov.Reg(asm.R6, asm.R1), to(asm.JEq.Imm(asm.R3, 0, ""), 1), asm.Mov.Reg(asm.R6, asm.R2), st(asm.R6, 24, asm.Word),
		}},
		{"behind a jump over a wide load", true, []asm.Instruction{
			three, to(asm.JEq.Imm(asm.R3, 0, ""), 3), asm.LoadImm(asm.R2, 1, asm.DWord), asm.Mov.Imm(asm.R2, 0), st(asm.R2, 24, asm.Word),
		}},
		{"in the second round of a loop", true, []asm.Instruction{
			three, asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Reg(asm.R7, asm.R2), st(asm.R6, 24, asm.Word),
			asm.Mov.Reg(asm.R6, asm.R7), to(asm.JEq.Imm(asm.R3, 0, ""), -3),
		}},
		{"where nothing leads", false, []asm.Instruction{to(asm.Ja.Label(""), 1), st(asm.R2, 24, asm.Word)}},
	}
	for _, test := range tests {
		f := body("f", append(test.body, asm.Mov.Imm(asm.R0, 0), asm.Return())...)
		if writes := f.effects&writesWords != 0; writes != test.want {
			t.Errorf("%s: writes %t, want %t", test.name, writes, test.want)
		}
	}
}

func TestUsedRegistersAreThoseOfBothOperands(t *testing.T) {
	got := usedRegisters(asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R2), asm.StoreMem(asm.R10, -8, asm.R9, asm.DWord), asm.Call.Label("f"), asm.Return(),
	})
	for r, want := range map[asm.Register]bool{
		asm.R2: true, asm.R6: true, asm.R9: true, asm.R10: true, asm.R7: false, asm.R8: false,
	} {
		if used := got>>r&1 != 0; used != want {
			t.Errorf("%v used: %t, want %t", r, used, want)
		}
	}
}
