// SPDX-License-Identifier: Apache-2.0

package pcapfilter

import "encoding/binary"

// machine is the state of classic BPF.
type machine struct {
	a, x   uint32
	mem    [memorySlots]uint32
	packet []byte
	length uint32
}

// Match reports whether a frame of length bytes on the wire, of which packet was captured, passes the filter. A nil
// filter passes everything.
func (f *Filter) Match(packet []byte, length int) bool {
	if f == nil {
		return true
	}
	m := machine{packet: packet, length: uint32(length)}
	for pc := 0; pc < len(f.prog); pc++ {
		ins := f.prog[pc]
		switch ins.code & classMask {
		case classRET:
			if ins.code&retA != 0 {
				return m.a != 0
			}
			return ins.k != 0
		case classJMP:
			pc += m.jump(ins)
		case classALU:
			if !m.compute(ins) {
				return false
			}
		case classLD, classLDX:
			if !m.load(ins) {
				return false
			}
		case classST:
			m.mem[ins.k] = m.a
		case classSTX:
			m.mem[ins.k] = m.x
		case classMISC:
			if ins.code&miscTA != 0 {
				m.a = m.x
			} else {
				m.x = m.a
			}
		}
	}
	return false
}

// fetch reads n bytes of the packet in network byte order.
func (m *machine) fetch(at uint64, n uint32) (uint32, bool) {
	if at+uint64(n) > uint64(len(m.packet)) {
		return 0, false
	}
	b := m.packet[at:]
	switch n {
	case 1:
		return uint32(b[0]), true
	case 2:
		return uint32(binary.BigEndian.Uint16(b)), true
	}
	return binary.BigEndian.Uint32(b), true
}

func (m *machine) load(ins instruction) bool {
	var v uint32
	ok := true
	switch ins.code & modeMask {
	case modeIMM:
		v = ins.k
	case modeMEM:
		v = m.mem[ins.k]
	case modeLEN:
		v = m.length
	case modeABS:
		v, ok = m.fetch(uint64(ins.k), ins.width())
	case modeIND:
		v, ok = m.fetch(uint64(m.x+ins.k), ins.width())
	case modeMSH:
		v, ok = m.fetch(uint64(ins.k), 1)
		v = v & 0xf << 2
	}
	if ins.code&classMask == classLD {
		m.a = v
	} else {
		m.x = v
	}
	return ok
}

func (m *machine) operand(ins instruction) uint32 {
	if ins.code&srcX != 0 {
		return m.x
	}
	return ins.k
}

// compute is false if the program ends, on a division by zero.
func (m *machine) compute(ins instruction) bool {
	v := m.operand(ins)
	switch ins.code & opMask {
	case aluAdd:
		m.a += v
	case aluSub:
		m.a -= v
	case aluMul:
		m.a *= v
	case aluOr:
		m.a |= v
	case aluAnd:
		m.a &= v
	case aluXor:
		m.a ^= v
	case aluLsh:
		m.a <<= v & 31
	case aluRsh:
		m.a >>= v & 31
	case aluNeg:
		m.a = -m.a
	case aluDiv, aluMod:
		switch {
		case v == 0:
			return false
		case ins.code&opMask == aluDiv:
			m.a /= v
		default:
			m.a %= v
		}
	}
	return true
}

// jump is how many instructions are skipped.
func (m *machine) jump(ins instruction) int {
	v, yes := m.operand(ins), false
	switch ins.code & opMask {
	case jmpJA:
		return int(ins.k)
	case jmpJEQ:
		yes = m.a == v
	case jmpJGT:
		yes = m.a > v
	case jmpJGE:
		yes = m.a >= v
	case jmpJSET:
		yes = m.a&v != 0
	}
	if yes {
		return int(ins.jt)
	}
	return int(ins.jf)
}
