// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf/asm"
)

// The tests run linked programs in this small machine, which knows what the driver and the
// hand-made cubes need: no kernel, no root, and every byte of every frame can be looked at.

// region is a piece of memory; an address is its number and the offset in it.
type region struct {
	name string
	data []byte
}

// table is a map of the framework as the machine sees it.
type table struct {
	name string
	rows map[uint32]int // key to region
	size int            // of rows that are there from the start, 0 for none
}

// FD satisfies asm.FDer; nothing here reaches a kernel.
func (t *table) FD() int { return 1 }

// vm is the machine: one CPU and its memory.
type vm struct {
	regions []region
	tables  []*table
	// helper runs the kernel's functions that the machine does not know.
	helper func(m *vm, fn asm.BuiltinFunc) (uint64, error)
	// framework is called for the framework's own functions, whose bodies are not run.
	framework func(m *vm, name string) (uint64, error)
	// at is called where the code has a label.
	at func(m *vm, label string) error
	// resume is where a tail call goes.
	resume asm.Instructions
	r      [11]uint64
	steps  int
	ways   map[*asm.Instruction]ways
}

// ways is where a program's jumps and labels lead.
type ways struct {
	target []int
	labels map[string]int
}

const frameRegionSize = 512

// memory makes a region and returns its number.
func (m *vm) memory(name string, data []byte) int {
	m.regions = append(m.regions, region{name, data})
	return len(m.regions) - 1
}

func address(number, offset int) uint64 { return uint64(number+1)<<32 + uint64(offset) }

// bytes returns n bytes at an address; outside of its region they are an error.
func (m *vm) bytes(addr uint64, n int) ([]byte, error) {
	number, offset := int(addr>>32)-1, int(uint32(addr))
	if number < 0 || number >= len(m.regions) || offset+n > len(m.regions[number].data) {
		return nil, fmt.Errorf("%d bytes at %#x are in no region", n, addr)
	}
	return m.regions[number].data[offset : offset+n], nil
}

func (m *vm) get(addr uint64, n int) (uint64, error) {
	b, err := m.bytes(addr, n)
	if err != nil {
		return 0, err
	}
	var wide [8]byte
	copy(wide[:], b)
	return binary.LittleEndian.Uint64(wide[:]), nil
}

func (m *vm) put(addr uint64, n int, value uint64) error {
	b, err := m.bytes(addr, n)
	if err != nil {
		return err
	}
	var wide [8]byte
	binary.LittleEndian.PutUint64(wide[:], value)
	copy(b, wide[:n])
	return nil
}

// frame starts a function: r10 is the end of a stack of its own, full of junk.
func (m *vm) frame() {
	junk := make([]byte, frameRegionSize)
	for i := range junk {
		junk[i] = 0xa5
	}
	m.r[10] = address(m.memory("frame", junk), frameRegionSize)
}

// run runs a program from its first instruction, r1 as given, and returns its r0.
func (m *vm) run(prog asm.Instructions, ctx uint64) (uint64, error) {
	m.frame()
	m.r[1] = ctx
	return m.function(prog, 0)
}

// jumps is where each instruction's jump leads, -1 for none.
func jumps(prog asm.Instructions) (target []int, labels map[string]int, err error) {
	labels, index := map[string]int{}, map[asm.RawInstructionOffset]int{}
	for it := prog.Iterate(); it.Next(); {
		index[it.Offset] = it.Index
		if s := it.Ins.Symbol(); s != "" {
			if _, twice := labels[s]; twice {
				return nil, nil, fmt.Errorf("label %s is there twice", s)
			}
			labels[s] = it.Index
		}
	}
	target = make([]int, len(prog))
	for it := prog.Iterate(); it.Next(); {
		target[it.Index] = -1
		op := it.Ins.OpCode
		if !op.Class().IsJump() || op.JumpOp() == asm.Exit || op.JumpOp() == asm.Call {
			continue
		}
		to, ok := labels[it.Ins.Reference()]
		if it.Ins.Reference() == "" {
			delta := int64(it.Ins.Offset)
			if op.Class() == asm.Jump32Class && op.JumpOp() == asm.Ja {
				delta = it.Ins.Constant
			}
			to, ok = index[it.Offset+asm.RawInstructionOffset(delta)+1]
		}
		if !ok {
			return nil, nil, fmt.Errorf("instruction %d, %v, jumps nowhere", it.Index, it.Ins)
		}
		target[it.Index] = to
	}
	return target, labels, nil
}

// know works out a program's jumps, once.
func (m *vm) know(prog asm.Instructions) (w ways, err error) {
	w, ok := m.ways[&prog[0]]
	if ok {
		return w, nil
	}
	if w.target, w.labels, err = jumps(prog); err != nil {
		return w, err
	}
	if m.ways == nil {
		m.ways = map[*asm.Instruction]ways{}
	}
	m.ways[&prog[0]] = w
	return w, nil
}

// function runs from an instruction to the exit.
func (m *vm) function(prog asm.Instructions, pc int) (uint64, error) {
	known, err := m.know(prog)
	if err != nil {
		return 0, err
	}
	target, labels := known.target, known.labels
	for {
		if m.steps++; m.steps > 100_000 {
			return 0, fmt.Errorf("no end after %d instructions", m.steps)
		}
		if pc >= len(prog) {
			return 0, fmt.Errorf("ran over the end")
		}
		ins := &prog[pc]
		if s := ins.Symbol(); s != "" && m.at != nil {
			if err := m.at(m, s); err != nil {
				return 0, err
			}
		}
		op := ins.OpCode
		switch {
		case op.Class().IsJump() && op.JumpOp() == asm.Exit:
			return m.r[0], nil
		case op.Class().IsJump() && op.JumpOp() == asm.Call && ins.IsFunctionReference():
			err = m.call(prog, ins.Reference(), labels)
		case op.Class().IsJump() && op.JumpOp() == asm.Call:
			if asm.BuiltinFunc(ins.Constant) == asm.FnTailCall && m.resume != nil {
				return m.run(m.resume, m.r[1])
			}
			err = m.builtin(asm.BuiltinFunc(ins.Constant))
		case op.Class().IsJump():
			if m.taken(ins) {
				pc = target[pc]
				continue
			}
		default:
			err = m.plain(ins)
		}
		if err != nil {
			return 0, fmt.Errorf("instruction %d, %v: %w", pc, ins, err)
		}
		pc++
	}
}

// call runs a function of the program in a frame of its own; r6 to r9 and r10 survive, r1 to
// r5 do not.
func (m *vm) call(prog asm.Instructions, name string, labels map[string]int) error {
	if m.framework != nil && len(name) > 9 && name[:9] == "pcn_core_" {
		r0, err := m.framework(m, name)
		m.clobber(r0)
		return err
	}
	pc, ok := labels[name]
	if !ok {
		return fmt.Errorf("no function %s", name)
	}
	saved := m.r
	m.frame()
	r0, err := m.function(prog, pc)
	copy(m.r[6:], saved[6:])
	m.clobber(r0)
	return err
}

const junk = 0xdead_dead_dead_dead

func (m *vm) clobber(r0 uint64) {
	m.r[0] = r0
	for i := 1; i <= 5; i++ {
		m.r[i] = junk
	}
}

// builtin runs one of the kernel's functions.
func (m *vm) builtin(fn asm.BuiltinFunc) error {
	if fn != asm.FnMapLookupElem {
		if m.helper == nil {
			return fmt.Errorf("call of %v", fn)
		}
		r0, err := m.helper(m, fn)
		m.clobber(r0)
		return err
	}
	number := int(uint32(m.r[1]))
	if m.r[1]>>32 != 0xffff || number >= len(m.tables) {
		return fmt.Errorf("lookup in %#x, which is no map", m.r[1])
	}
	key, err := m.get(m.r[2], 4)
	m.clobber(m.row(m.tables[number], uint32(key)))
	return err
}

// row returns the address of a row, 0 if it is not there.
func (m *vm) row(t *table, key uint32) uint64 {
	n, ok := t.rows[key]
	if !ok && t.size > 0 {
		n = m.memory(fmt.Sprintf("%s[%d]", t.name, key), make([]byte, t.size))
		t.rows[key], ok = n, true
	}
	if !ok {
		return 0
	}
	return address(n, 0)
}

// plain runs loads, stores and arithmetic.
func (m *vm) plain(ins *asm.Instruction) (err error) {
	op := ins.OpCode
	switch op.Class() {
	case asm.LdClass:
		m.r[ins.Dst] = uint64(ins.Constant)
		if mapped := ins.Map(); mapped != nil {
			t, ok := mapped.(*table)
			if !ok {
				return fmt.Errorf("map %v", mapped)
			}
			for n := range m.tables {
				if m.tables[n] == t {
					m.r[ins.Dst] = 0xffff<<32 + uint64(n)
				}
			}
		}
	case asm.LdXClass:
		m.r[ins.Dst], err = m.get(m.r[ins.Src]+uint64(int64(ins.Offset)), op.Size().Sizeof())
	case asm.StClass:
		err = m.put(m.r[ins.Dst]+uint64(int64(ins.Offset)), op.Size().Sizeof(), uint64(ins.Constant))
	case asm.StXClass:
		err = m.put(m.r[ins.Dst]+uint64(int64(ins.Offset)), op.Size().Sizeof(), m.r[ins.Src])
	default:
		err = m.alu(ins)
	}
	return err
}

func (m *vm) alu(ins *asm.Instruction) error {
	a, b := m.r[ins.Dst], m.operand(ins)
	if ins.OpCode.Class() == asm.ALUClass {
		a, b = uint64(uint32(a)), uint64(uint32(b))
	}
	switch ins.OpCode.ALUOp() {
	case asm.Mov:
		a = b
	case asm.Add:
		a += b
	case asm.Sub:
		a -= b
	case asm.And:
		a &= b
	case asm.Or:
		a |= b
	case asm.Xor:
		a ^= b
	case asm.Mul:
		a *= b
	case asm.LSh:
		a <<= b
	case asm.RSh:
		a >>= b
	default:
		return fmt.Errorf("operation %v", ins.OpCode.ALUOp())
	}
	if ins.OpCode.Class() == asm.ALUClass {
		a = uint64(uint32(a))
	}
	m.r[ins.Dst] = a
	return nil
}

func (m *vm) operand(ins *asm.Instruction) uint64 {
	if ins.OpCode.Source() == asm.RegSource {
		return m.r[ins.Src]
	}
	return uint64(ins.Constant)
}

// taken tells whether a jump is.
func (m *vm) taken(ins *asm.Instruction) bool {
	a, b := m.r[ins.Dst], m.operand(ins)
	if ins.OpCode.Class() == asm.Jump32Class {
		a, b = uint64(uint32(a)), uint64(uint32(b))
	}
	switch ins.OpCode.JumpOp() {
	case asm.Ja:
		return true
	case asm.JSet:
		return a&b != 0
	case asm.JEq:
		return a == b
	case asm.JNE:
		return a != b
	case asm.JGT:
		return a > b
	case asm.JGE:
		return a >= b
	case asm.JLT:
		return a < b
	case asm.JLE:
		return a <= b
	case asm.JSLT:
		if ins.OpCode.Class() == asm.Jump32Class {
			return int32(a) < int32(b)
		}
		return int64(a) < int64(b)
	}
	panic(fmt.Sprintf("jump %v", ins))
}
