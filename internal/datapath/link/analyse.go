// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"
)

// The driver's work around a cube depends on the cube's code: whether it may write to the cube's own words of md, or to
// members that belong to the framework, and which callee-saved registers it preserves.

// effects is the set of changes that a body may make to md, and whether it may depend on the number of the cube.
type effects uint8

const (
	writesWords     effects = 1 << iota // to the cube's own words
	writesFramework                     // to hops, packet_len, pass_ifindex or reserved members
	readsCube                           // does not change md: it may read the number of the cube
	anything        = writesWords | writesFramework | readsCube
)

// on returns the effects of a write of size bytes at an offset in md.
func on(offset, size int) effects {
	overlaps := func(from, to int) bool { return offset < to && offset+size > from }
	var e effects
	if overlaps(24, 40) {
		e |= writesWords
	}
	if overlaps(6, 12) || overlaps(40, mdNotes-offMD) || overlaps(mdCube-offMD, mdSize) {
		e |= writesFramework
	}
	return e
}

// pointers is what is known at one instruction about pointers into md.
type pointers struct {
	md      uint16 // registers that may point to md or into it
	derived uint16 // those with an unknown offset
	spilled bool   // a pointer into md may be on the stack
	reached bool
}

func (p pointers) has(r asm.Register) bool { return p.md>>r&1 != 0 }

func (p *pointers) set(r asm.Register, md, derived bool) {
	p.md &^= 1 << r
	p.derived &^= 1 << r
	if md {
		p.md |= 1 << r
	}
	if md && derived {
		p.derived |= 1 << r
	}
}

func (p pointers) join(q pointers) pointers {
	return pointers{p.md | q.md, p.derived | q.derived, p.spilled || q.spilled, true}
}

// effectsOf returns the changes that a body may make to md; all, if a pointer into md escapes. It follows the pointers
// through the control flow until nothing changes.
func effectsOf(body asm.Instructions) effects {
	_, all := follow(body)
	return all
}

// follow returns what is known about pointers into md before each instruction of a body.
func follow(body asm.Instructions) ([]pointers, effects) {
	index, offset := offsets(body)
	states := make([]pointers, len(body))
	states[0] = pointers{md: 1 << asm.R2, reached: true}
	work := []int{0}
	var all effects
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		after, e := states[i].step(&body[i])
		all |= e
		for _, next := range successors(body, index, offset, i) {
			if joined := states[next].join(after); joined != states[next] {
				states[next] = joined
				work = append(work, next)
			}
		}
	}
	return states, all
}

// checkFlow refuses a body that jumps out of itself or does not end.
func checkFlow(body asm.Instructions) error {
	index, offset := offsets(body)
	for i := range body {
		if slices.Contains(successors(body, index, offset, i), len(body)) {
			return fmt.Errorf("function %s: instruction %d leads out of it: %w", body[0].Symbol(), i, ErrObject)
		}
	}
	return nil
}

// offsets are those of the instructions of a body, in units of jumps, and the reverse.
func offsets(body asm.Instructions) (index map[asm.RawInstructionOffset]int, offset []asm.RawInstructionOffset) {
	index, offset = map[asm.RawInstructionOffset]int{}, make([]asm.RawInstructionOffset, len(body))
	for it := body.Iterate(); it.Next(); {
		index[it.Offset], offset[it.Index] = it.Index, it.Offset
	}
	return index, offset
}

// successors lists the instructions that may follow the i-th; len(body) stands for the end.
func successors(body asm.Instructions, index map[asm.RawInstructionOffset]int, offset []asm.RawInstructionOffset, i int) []int {
	ins := &body[i]
	op := ins.OpCode
	if !op.Class().IsJump() || op.JumpOp() == asm.Call {
		return []int{i + 1}
	}
	if op.JumpOp() == asm.Exit {
		return nil
	}
	delta := int64(ins.Offset)
	if op.Class() == asm.Jump32Class && op.JumpOp() == asm.Ja {
		delta = ins.Constant
	}
	target, ok := index[offset[i]+asm.RawInstructionOffset(delta)+1]
	if !ok {
		target = len(body)
	}
	if op.JumpOp() == asm.Ja {
		return []int{target}
	}
	return []int{i + 1, target}
}

// step returns what is known after an instruction, and the changes that it may make to md.
func (p pointers) step(ins *asm.Instruction) (pointers, effects) {
	op := ins.OpCode
	switch {
	case op.Class().IsJump():
		if op.JumpOp() != asm.Call {
			return p, 0
		}
		return p.call(ins)
	case isStore(ins):
		return p.store(ins)
	case isLoad(ins):
		e := p.load(ins)
		p.set(ins.Dst, ins.Src == asm.R10 && p.spilled && op.Size() == asm.DWord, true)
		return p, e
	case op.Class() == asm.ALU64Class && op.ALUOp() == asm.Mov && op.Source() == asm.RegSource:
		p.set(ins.Dst, p.has(ins.Src), p.derived>>ins.Src&1 != 0)
	case op.Class() == asm.ALU64Class && op.ALUOp() != asm.Mov:
		fromSrc := op.Source() == asm.RegSource && p.has(ins.Src)
		p.set(ins.Dst, p.has(ins.Dst) || fromSrc, true)
	default: // constants and 32-bit results are no pointers
		p.set(ins.Dst, false, false)
	}
	return p, 0
}

// load tells whether a load may read the number of the cube.
func (p pointers) load(ins *asm.Instruction) effects {
	const at = mdCube - offMD
	from, to := int(ins.Offset), int(ins.Offset)+ins.OpCode.Size().Sizeof()
	if p.has(ins.Src) && (p.derived>>ins.Src&1 != 0 || from < at+2 && to > at) {
		return readsCube
	}
	return 0
}

func (p pointers) store(ins *asm.Instruction) (pointers, effects) {
	if ins.OpCode.Class() == asm.StXClass && p.has(ins.Src) {
		if ins.Dst != asm.R10 {
			return p, anything // the pointer escapes
		}
		p.spilled = true
	}
	switch {
	case !p.has(ins.Dst):
		return p, 0
	case p.derived>>ins.Dst&1 != 0:
		return p, anything
	}
	return p, on(int(ins.Offset), ins.OpCode.Size().Sizeof())
}

// harmless are helpers that do not write to memory through their arguments.
var harmless = map[asm.BuiltinFunc]bool{
	asm.FnMapLookupElem: true, asm.FnMapUpdateElem: true, asm.FnMapDeleteElem: true,
	asm.FnKtimeGetNs: true, asm.FnKtimeGetCoarseNs: true, asm.FnKtimeGetBootNs: true,
	asm.FnGetSmpProcessorId: true, asm.FnGetPrandomU32: true, asm.FnSkbPullData: true,
	asm.FnSkbVlanPush: true, asm.FnSkbVlanPop: true, asm.FnSkbChangeProto: true, asm.FnSkbChangeTail: true,
	asm.FnSkbChangeHead: true, asm.FnSkbAdjustRoom: true, asm.FnXdpAdjustHead: true, asm.FnXdpAdjustTail: true,
	asm.FnXdpGetBuffLen: true,
}

// callsFramework reports whether the function, or one that it calls, calls a function of <pcn/core.h>.
func (f *Function) callsFramework() bool {
	for name := range f.Callees {
		if _, stub := stubs[name]; stub {
			return true
		}
	}
	return false
}

// resizing are helpers after which a packet may have another length.
var resizing = map[asm.BuiltinFunc]bool{
	asm.FnSkbVlanPush: true, asm.FnSkbVlanPop: true, asm.FnSkbChangeProto: true, asm.FnSkbChangeTail: true,
	asm.FnSkbChangeHead: true, asm.FnSkbAdjustRoom: true, asm.FnXdpAdjustHead: true, asm.FnXdpAdjustTail: true,
}

// resizes reports whether a body may change the length of a packet.
func resizes(body asm.Instructions) bool {
	return slices.ContainsFunc(body, func(ins asm.Instruction) bool {
		return ins.IsBuiltinCall() && resizing[asm.BuiltinFunc(ins.Constant)]
	})
}

// call: a function that gets a pointer into md may write through it, except the framework's and harmless ones.
func (p pointers) call(ins *asm.Instruction) (pointers, effects) {
	_, framework := stubs[ins.Reference()]
	framework = framework || ins.IsBuiltinCall() && harmless[asm.BuiltinFunc(ins.Constant)]
	var e effects
	for r := asm.R1; r <= asm.R5; r++ {
		if p.has(r) && !framework {
			return p.called(), anything
		}
		if p.has(r) && ins.IsBuiltinCall() {
			e = readsCube
		}
	}
	if p.spilled && !framework {
		return p.called(), anything // the callee may get a pointer to the place of the pointer
	}
	return p.called(), e
}

// called returns what is known after a call.
func (p pointers) called() pointers {
	for r := asm.R0; r <= asm.R5; r++ {
		p.set(r, false, false)
	}
	return p
}

// usedRegisters is the set of registers that a body names, as a bit mask.
func usedRegisters(body asm.Instructions) uint16 {
	var used uint16
	for i := range body {
		used |= 1<<body[i].Dst | 1<<(body[i].Src&15)
	}
	return used
}
