// SPDX-License-Identifier: Apache-2.0

package pcapfilter

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
)

// Registers of the translation; all survive calls.
const (
	regCtx = asm.R6
	regA   = asm.R7
	regX   = asm.R8
)

// Calls names the functions by which the code reads the packet: Load(ctx, offset, width) is the value, or negative
// beyond the end of the packet, and Length(ctx) the packet's length.
type Calls struct{ Load, Length string }

// EBPF translates the filter to a function int(ctx) that returns 1 for packets that pass and 0 for others. Labels
// start with the name, which is the symbol of its first instruction. Classic BPF only jumps forward, so the kernel's
// verifier processes each path once.
func (f *Filter) EBPF(name string, calls Calls) asm.Instructions {
	t := translator{name: name, calls: calls, targets: map[int]bool{}}
	t.add(asm.Mov.Reg(regCtx, asm.R1).WithSymbol(name), asm.Mov.Imm32(regA, 0), asm.Mov.Imm32(regX, 0))
	t.program(f.prog)
	if t.fails { // the kernel refuses unreachable code
		t.next = t.name + ".no"
		t.add(asm.Mov.Imm(asm.R0, 0), asm.Return())
	}
	return t.out
}

type translator struct {
	name  string
	calls Calls
	// direct is nil in a function that reads the packet by calls.
	direct  *direct
	pc      int
	targets map[int]bool
	next    string // label of the next instruction
	fails   bool   // something ends early
	out     asm.Instructions
}

// program translates all instructions.
func (t *translator) program(prog []instruction) {
	for _, ins := range prog {
		if class := ins.code & classMask; class <= classLDX && ins.code&modeMask == modeMEM {
			t.add(asm.StoreImm(asm.R10, slot(ins.k), 0, asm.Word))
		}
	}
	t.findTargets(prog)
	for i, ins := range prog {
		t.pc = i
		if t.targets[i] {
			t.next = t.label(i)
		}
		t.instruction(ins)
	}
}

func (t *translator) label(i int) string { return fmt.Sprintf("%s.%d", t.name, i) }

// no is the label for an early end of the filter.
func (t *translator) no() string {
	t.fails = true
	return t.name + ".no"
}

func (t *translator) add(ins ...asm.Instruction) {
	for _, i := range ins {
		if t.next != "" {
			i, t.next = i.WithSymbol(t.next), ""
		}
		t.out = append(t.out, i)
	}
}

// slot is the position of a word of memory on the stack.
func slot(k uint32) int16 { return -4 * int16(k+1) }

func (t *translator) findTargets(prog []instruction) {
	for i, ins := range prog {
		if ins.code&classMask != classJMP {
			continue
		}
		if ins.code&opMask == jmpJA {
			t.targets[i+1+int(ins.k)] = true
			continue
		}
		t.targets[i+1+int(ins.jt)] = true
		t.targets[i+1+int(ins.jf)] = true
	}
}

func (t *translator) instruction(ins instruction) {
	switch ins.code & classMask {
	case classLD:
		t.load(ins, regA)
	case classLDX:
		t.load(ins, regX)
	case classST:
		t.add(asm.StoreMem(asm.R10, slot(ins.k), regA, asm.Word))
	case classSTX:
		t.add(asm.StoreMem(asm.R10, slot(ins.k), regX, asm.Word))
	case classALU:
		t.compute(ins)
	case classJMP:
		t.jump(ins)
	case classRET:
		t.leave(ins)
	case classMISC:
		if ins.code&miscTA != 0 {
			t.add(asm.Mov.Reg32(regA, regX))
		} else {
			t.add(asm.Mov.Reg32(regX, regA))
		}
	}
}

// load reads into A or X; beyond the end of the packet, the filter ends with no.
func (t *translator) load(ins instruction, to asm.Register) {
	switch ins.code & modeMask {
	case modeIMM:
		t.add(asm.Mov.Imm32(to, int32(ins.k)))
		return
	case modeMEM:
		t.add(asm.LoadMem(to, asm.R10, slot(ins.k), asm.Word))
		return
	case modeLEN:
		t.length(to)
		return
	}
	if t.direct != nil {
		t.direct.load(t, ins, to)
	} else {
		t.field(ins, to)
	}
	if ins.code&modeMask == modeMSH {
		t.add(asm.And.Imm32(to, 0xf), asm.LSh.Imm32(to, 2))
	}
}

// length reads the length of the packet.
func (t *translator) length(to asm.Register) {
	if t.direct != nil {
		t.direct.length(t, to)
		return
	}
	t.add(asm.Mov.Reg(asm.R1, regCtx), asm.Call.Label(t.calls.Length), asm.Mov.Reg32(to, asm.R0))
}

// field reads a field of the packet by a call.
func (t *translator) field(ins instruction, to asm.Register) {
	t.add(asm.Mov.Reg(asm.R1, regCtx))
	if ins.code&modeMask == modeIND {
		t.add(asm.Mov.Reg32(asm.R2, regX), asm.Add.Imm32(asm.R2, int32(ins.k)))
	} else {
		t.add(asm.Mov.Imm32(asm.R2, int32(ins.k)))
	}
	t.add(asm.Mov.Imm32(asm.R3, int32(ins.bytes())), asm.Call.Label(t.calls.Load),
		asm.JSLT.Imm(asm.R0, 0, t.no()), asm.Mov.Reg32(to, asm.R0))
}

// bytes is the number of bytes that a load reads from the packet.
func (i instruction) bytes() uint32 {
	if i.code&modeMask == modeMSH {
		return 1
	}
	return i.width()
}

var arithmetic = map[uint16]asm.ALUOp{
	aluAdd: asm.Add, aluSub: asm.Sub, aluMul: asm.Mul, aluDiv: asm.Div, aluOr: asm.Or, aluAnd: asm.And,
	aluLsh: asm.LSh, aluRsh: asm.RSh, aluMod: asm.Mod, aluXor: asm.Xor,
}

func (t *translator) compute(ins instruction) {
	op := ins.code & opMask
	divides := op == aluDiv || op == aluMod
	switch {
	case op == aluNeg:
		t.add(asm.Neg.Imm32(regA, 0))
	case ins.code&srcX != 0:
		if divides {
			t.add(jump32(asm.JEq, regX, 0, t.no()))
		}
		t.add(asm.Mov.Reg32(asm.R1, regX))
		if op == aluLsh || op == aluRsh {
			t.add(asm.And.Imm32(asm.R1, 31))
		}
		t.add(arithmetic[op].Reg32(regA, asm.R1))
	case divides && ins.k == 0:
		t.add(asm.Ja.Label(t.no()))
	default:
		k := ins.k
		if op == aluLsh || op == aluRsh {
			k &= 31
		}
		t.add(arithmetic[op].Imm32(regA, int32(k)))
	}
}

var conditions = map[uint16]asm.JumpOp{jmpJEQ: asm.JEq, jmpJGT: asm.JGT, jmpJGE: asm.JGE, jmpJSET: asm.JSet}

func jump32(op asm.JumpOp, r asm.Register, k uint32, label string) asm.Instruction {
	return op.Imm32(r, int32(k), label)
}

func (t *translator) jump(ins instruction) {
	op := ins.code & opMask
	if op == jmpJA {
		t.add(asm.Ja.Label(t.label(t.pc + 1 + int(ins.k))))
		return
	}
	yes, no := t.label(t.pc+1+int(ins.jt)), t.label(t.pc+1+int(ins.jf))
	if ins.code&srcX != 0 {
		t.add(conditions[op].Reg32(regA, regX, yes))
	} else {
		t.add(jump32(conditions[op], regA, ins.k, yes))
	}
	if ins.jf != 0 {
		t.add(asm.Ja.Label(no))
	}
}

func (t *translator) leave(ins instruction) {
	switch {
	case t.direct != nil:
		t.direct.leave(t, ins)
	case ins.code&retA != 0:
		yes := t.label(t.pc) + ".yes"
		t.add(jump32(asm.JNE, regA, 0, yes), asm.Mov.Imm(asm.R0, 0), asm.Return())
		t.next = yes
		t.add(asm.Mov.Imm(asm.R0, 1), asm.Return())
	case ins.k == 0:
		t.add(asm.Mov.Imm(asm.R0, 0), asm.Return())
	default:
		t.add(asm.Mov.Imm(asm.R0, 1), asm.Return())
	}
}
