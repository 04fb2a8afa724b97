// SPDX-License-Identifier: Apache-2.0

package link

import "github.com/cilium/ebpf/asm"

// Compilers lay out a loop so that its last instruction falls through to its start. The verifiers before Linux 6.7 call
// that a back-edge and refuse it, although they accept a jump to the start. So a jump to the next instruction, which
// the kernel removes again, is inserted.

// loopHeads returns where such jumps belong in a labelled body, nil if the kernel needs none.
func (cp copier) loopHeads(body asm.Instructions) map[int]bool {
	if cp.kernel.LoopsByFallThrough {
		return nil
	}
	return fallsIntoLoop(body)
}

// fallsIntoLoop returns the indexes of the instructions of a labelled body (see label) that begin a loop into which the
// instruction before falls through from inside the loop.
func fallsIntoLoop(body asm.Instructions) map[int]bool {
	target := map[string]int{}
	for i := range body {
		if s := body[i].Symbol(); s != "" {
			target[s] = i
		}
	}
	heads := map[int]bool{}
	for i := range body {
		if at, ok := target[body[i].Reference()]; ok && isJump(&body[i]) && at > 0 && !isJump(&body[at-1]) {
			heads[at] = true
		}
	}
	for head := range heads {
		if !leadsTo(body, target, head, head-1) {
			delete(heads, head)
		}
	}
	return heads
}

// leadsTo reports whether the code can get from one instruction to another.
func leadsTo(body asm.Instructions, target map[string]int, from, to int) bool {
	seen := make([]bool, len(body))
	work := []int{from}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		if i >= len(body) || seen[i] {
			continue
		}
		if i == to {
			return true
		}
		seen[i] = true
		ins := &body[i]
		if isExit(ins) {
			continue
		}
		if isJump(ins) {
			work = append(work, target[ins.Reference()])
			if ins.OpCode.JumpOp() == asm.Ja {
				continue
			}
		}
		work = append(work, i+1)
	}
	return false
}

// isJump is true for instructions that may continue elsewhere within the function, or end it; calls return.
func isJump(ins *asm.Instruction) bool {
	return ins.OpCode.Class().IsJump() && ins.OpCode.JumpOp() != asm.Call
}
