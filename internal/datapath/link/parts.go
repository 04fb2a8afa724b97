// SPDX-License-Identifier: Apache-2.0

package link

import (
	"github.com/cilium/ebpf/asm"
)

// Part is a run of a linked program's instructions with one origin.
type Part struct {
	Origin
	// Subprogram is the index of the function that the run is in, as the kernel counts them, and Symbol its name there.
	Subprogram int
	Symbol     string
	// Inlined is set for a cube's code in the driver.
	Inlined bool
	// Frame is the stack that the code uses, if inlined that below the driver's own. The verifier counts less for a function
	// of which it can leave out parts.
	Frame int
	Code  asm.Instructions
}

// Parts divides a linked program by origin.
func Parts(insns asm.Instructions) []Part {
	var out []Part
	at := Part{Subprogram: -1}
	first := 0
	end := func(i int) {
		if i > first {
			at.Code = insns[first:i]
			at.Inlined = at.Subprogram == 0 && !at.Framework()
			if at.Frame = deepestAccess(at.Code); at.Inlined {
				at.Frame = max(at.Frame-frameSize, 0)
			}
			out = append(out, at)
		}
		first = i
	}
	for i := range insns {
		fn, o := starts(&insns[i])
		if fn == nil && o == nil {
			continue
		}
		end(i)
		if fn != nil {
			at.Origin, at.Symbol = Origin{Function: fn.Name}, insns[i].Symbol()
			at.Subprogram++
		}
		if o != nil {
			at.Origin = *o
		}
	}
	end(len(insns))
	return out
}

// deepestAccess returns how far below the frame pointer code reads or writes, or takes an address.
func deepestAccess(code asm.Instructions) int {
	most := 0
	for i := range code {
		switch ins := &code[i]; {
		case isStore(ins) && ins.Dst == asm.R10, isLoad(ins) && ins.Src == asm.R10:
			most = max(most, int(-ins.Offset))
		case isFrameCopy(ins):
			address := 0
			for _, next := range code[i+1:] {
				if next.Dst != ins.Dst || next.OpCode.Class() != asm.ALU64Class || next.OpCode.ALUOp() != asm.Add ||
					next.OpCode.Source() != asm.ImmSource {
					break
				}
				address += int(next.Constant)
			}
			most = max(most, -address)
		}
	}
	return most
}
