// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"math"
	"slices"

	"github.com/cilium/ebpf/asm"
)

// block is a run of driver code with one entry, its label, that ends with a jump or exit.
type block struct {
	label string
	ins   asm.Instructions
	next  string // label for the next instruction, or ""
	inner int    // labels made inside the block
	// inlined is set if the block ends with the code of a cube.
	inlined bool
}

// add appends instructions, putting a pending label on the first.
func (b *block) add(ins ...asm.Instruction) {
	for _, i := range ins {
		if b.next != "" {
			i, b.next = i.WithSymbol(b.next), ""
		}
		b.ins = append(b.ins, i)
	}
}

// local creates a label inside the block, to be placed with mark.
func (b *block) local() string {
	b.inner++
	return fmt.Sprintf("%s.%d", b.label, b.inner)
}

func (b *block) mark(label string) { b.next = label }

func (b *block) jump(label string) { b.add(asm.Ja.Label(label)) }

// frame offsets of the driver, from r10.
const (
	offCtx     = -8
	offPage    = -16  // pointer to the component's page of counters
	offMD      = -80  // struct pcn_md
	offKey     = -88  // key of a map lookup
	offSafe    = -104 // the framework's members of md while a cube runs that may write to them
	frameSize  = 104
	stackLimit = 512
)

// offsets in struct pcn_md.
const (
	mdInPort       = offMD + 0
	mdOutPort      = offMD + 2
	mdReason       = offMD + 4
	mdHops         = offMD + 6
	mdLen          = offMD + 8
	mdTrafficClass = offMD + 12
	mdFlowHash     = offMD + 16
	mdWords        = offMD + 24
	mdPassIfindex  = offMD + 40
	mdTurns        = offMD + 44
	mdFlags        = offMD + 46
	mdTraceID      = offMD + 48
	mdNotes        = offMD + 50
	mdCube         = offMD + 52
	mdReserved     = offMD + 56 // never written there
	mdSize         = 64
)

func (b *block) load(dst, src asm.Register, off int16, size asm.Size) {
	b.add(asm.LoadMem(dst, src, off, size))
}

func (b *block) store(dst asm.Register, off int16, src asm.Register, size asm.Size) {
	b.add(asm.StoreMem(dst, off, src, size))
}

// set stores a constant; unlike asm.StoreImm it can store 8 bytes.
func (b *block) set(dst asm.Register, off int16, value int32, size asm.Size) {
	b.add(asm.Instruction{
		OpCode: asm.StoreImmOp(size), Dst: dst, Offset: off, Constant: int64(value),
	})
}

func mapPtr(dst asm.Register, m asm.FDer) asm.Instruction {
	ins := asm.LoadMapPtr(dst, 0)
	if err := ins.AssociateMap(m); err != nil {
		panic(err) // the instruction was made two lines above
	}
	return ins
}

// lookup calls map_lookup_elem with the key at offKey; NULL goes to the label.
func (b *block) lookup(m asm.FDer, null string) {
	b.add(mapPtr(asm.R1, m),
		asm.Mov.Reg(asm.R2, asm.R10), asm.Add.Imm(asm.R2, offKey),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, null))
}

// lookupConst is lookup with a constant key.
func (b *block) lookupConst(m asm.FDer, key int32, null string) {
	b.set(asm.R10, offKey, key, asm.Word)
	b.lookup(m, null)
}

// args sets r1 = ctx and r2 = md, the first arguments of everything.
func (b *block) args() {
	b.load(asm.R1, asm.R10, offCtx, asm.DWord)
	b.add(asm.Mov.Reg(asm.R2, asm.R10), asm.Add.Imm(asm.R2, offMD))
}

// frameSlot is a pointer that the driver keeps, on its stack and, if no cube's code needs the register, in one.
type frameSlot uint8

const (
	slotPage frameSlot = iota // the component's page of counters
	slotMD                    // md
	slotCtx                   // the context
)

// registers are those that keep pointers.
type registers map[frameSlot]asm.Register

// keep chooses the registers. Called functions preserve callee-saved registers; inlined code must not use them.
func keep(mode Mode, order []site) registers {
	var used uint16
	if mode == Inline {
		for _, s := range order {
			used |= s.program().Function.registers
		}
	}
	kept := registers{}
	for slot, r := range map[frameSlot]asm.Register{slotPage: asm.R9, slotMD: asm.R8, slotCtx: asm.R7} {
		if used>>r&1 == 0 {
			kept[slot] = r
		}
	}
	return kept
}

// fill loads the registers that are kept; it is the last step before the first cube.
func (r registers) fill(b *block) {
	for _, slot := range []frameSlot{slotPage, slotMD, slotCtx} {
		if reg, ok := r[slot]; ok {
			r.get(b, reg, slot, true)
		}
	}
}

// get copies a kept pointer to a register, from its register or, if fresh, from the stack.
func (r registers) get(b *block, to asm.Register, slot frameSlot, fresh bool) {
	if reg, ok := r[slot]; ok && !fresh {
		b.add(asm.Mov.Reg(to, reg))
		return
	}
	switch slot {
	case slotPage:
		b.load(to, asm.R10, offPage, asm.DWord)
	case slotMD:
		b.add(asm.Mov.Reg(to, asm.R10), asm.Add.Imm(to, offMD))
	case slotCtx:
		b.load(to, asm.R10, offCtx, asm.DWord)
	}
}

// call calls one of the framework's functions.
func (b *block) call(name string) { b.add(asm.Call.Label(name)) }

// number sets a register to the number of a cube, with other bits.
func (b *block) number(to asm.Register, c *Cube, bits int32) {
	if !c.Alike {
		b.add(asm.Mov.Imm(to, int32(c.ID)|bits))
		return
	}
	b.load(to, asm.R10, mdCube, asm.Half)
	if bits != 0 {
		b.add(asm.Or.Imm(to, bits))
	}
}

// exitKey sets a register to the key of a cube's port in the table of exits: the register has the index of the port.
func (b *block) exitKey(reg, free asm.Register, c *Cube) {
	if !c.Alike {
		b.add(asm.Or.Imm(reg, int32(c.ID)*MaxPorts))
		return
	}
	b.load(free, asm.R10, mdCube, asm.Half)
	b.add(asm.Mul.Imm(free, MaxPorts), asm.Or.Reg(reg, free))
}

func (b *block) leave(verdict int32) { b.add(asm.Mov.Imm(asm.R0, verdict), asm.Return()) }

// count adds one packet of md.packet_len bytes to the pair of counters at base+off.
func (b *block) count(base asm.Register, off int16) {
	b.load(asm.R3, base, off, asm.DWord)
	b.add(asm.Add.Imm(asm.R3, 1))
	b.store(base, off, asm.R3, asm.DWord)
	b.load(asm.R3, base, off+8, asm.DWord)
	b.load(asm.R4, asm.R10, mdLen, asm.Word)
	b.add(asm.Add.Reg(asm.R3, asm.R4))
	b.store(base, off+8, asm.R3, asm.DWord)
}

type branch struct {
	value int32
	label string
}

// choose jumps to the branch whose value reg has, otherwise to the label: compare and jump for a few branches, binary
// search for many. Branches are in ascending order.
func (b *block) choose(reg asm.Register, branches []branch, otherwise string) {
	const linear = 5
	if len(branches) <= linear {
		for _, br := range branches {
			b.add(asm.JEq.Imm(reg, br.value, br.label))
		}
		b.jump(otherwise)
		return
	}
	mid := len(branches) / 2
	upper := b.local()
	b.add(asm.JGE.Imm(reg, branches[mid].value, upper))
	b.choose(reg, branches[:mid], otherwise)
	b.mark(upper)
	b.choose(reg, branches[mid:], otherwise)
}

// layout joins the blocks reachable from the first, dropping jumps to the block that follows.
func layout(blocks []*block) (asm.Instructions, error) {
	byLabel := make(map[string]*block, len(blocks))
	for _, b := range blocks {
		byLabel[b.label] = b
	}
	reached := map[*block]bool{}
	stack := []*block{blocks[0]}
	for len(stack) > 0 {
		b := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if reached[b] {
			continue
		}
		reached[b] = true
		for _, i := range b.ins {
			if next := byLabel[i.Reference()]; next != nil && !isCall(&i) {
				stack = append(stack, next)
			}
		}
	}
	blocks = slices.DeleteFunc(slices.Clone(blocks), func(b *block) bool { return !reached[b] })
	var out asm.Instructions
	for n, b := range blocks {
		last := len(b.ins) - 1
		if n+1 < len(blocks) && isJumpTo(&b.ins[last], blocks[n+1].label) && last > 0 {
			last--
		}
		first := len(out)
		out = append(out, b.ins[:last+1]...)
		out[first] = out[first].WithSymbol(b.label)
		if n > 0 && blocks[n-1].inlined {
			out[first] = from(out[first], Origin{Function: driverName})
		}
	}
	return out, checkJumps(out)
}

// isCall is true for references to a function, of the program or of the kernel, rather than to a label.
func isCall(ins *asm.Instruction) bool { return ins.IsFunctionReference() || ins.IsKfuncCall() }

func isJumpTo(ins *asm.Instruction, label string) bool {
	return ins.OpCode.JumpOp() == asm.Ja && ins.Reference() == label && ins.Symbol() == ""
}

// checkJumps refuses jumps that do not fit 16 bits, which the assembler would truncate silently.
func checkJumps(insns asm.Instructions) error {
	offsets := map[string]asm.RawInstructionOffset{}
	for it := insns.Iterate(); it.Next(); {
		if s := it.Ins.Symbol(); s != "" {
			offsets[s] = it.Offset
		}
	}
	for it := insns.Iterate(); it.Next(); {
		ref := it.Ins.Reference()
		if ref == "" || !it.Ins.OpCode.Class().IsJump() || isCall(it.Ins) {
			continue
		}
		to, ok := offsets[ref]
		if !ok {
			return fmt.Errorf("jump to unknown label %q", ref)
		}
		if d := int64(to) - int64(it.Offset) - 1; d < math.MinInt16 || d > math.MaxInt16 {
			return fmt.Errorf("jump over %d instructions to %q: %w", d, ref, ErrTooLarge)
		}
	}
	return nil
}
