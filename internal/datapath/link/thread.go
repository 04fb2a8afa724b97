// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

// Jump threading: where an inlined body returns a verdict that is a constant there, the code
// jumps to what follows that verdict instead of to the dispatch that would find it out, and past
// the choice of the port, too, if the port is a constant.

// threads finds the returns of a body (labelled, see label) that need no dispatch: by the index
// of the instruction that leaves, where to go.
func (g *generator) threads(at place, f *Function, body asm.Instructions) map[int]string {
	states, _ := follow(f.Body)
	to := map[int]string{}
	byLabel := map[string]int{}
	for i := range body {
		if s := body[i].Symbol(); s != "" {
			byLabel[s] = i
		}
	}
	for i := range body {
		leaves := isExit(&body[i]) && body[i].Symbol() == ""
		if body[i].OpCode.Class().IsJump() && body[i].OpCode.JumpOp() == asm.Ja {
			leaves = isExit(&body[byLabel[body[i].Reference()]])
		}
		if !leaves {
			continue
		}
		verdict, port := constantsAt(body, states, i)
		if verdict >= 0 {
			to[i] = g.destination(at, verdict, port)
		}
	}
	return to
}

func isExit(ins *asm.Instruction) bool {
	return ins.OpCode.Class().IsJump() && ins.OpCode.JumpOp() == asm.Exit
}

// constantsAt returns the verdict and the output port that are constants when the instruction
// at end is reached, -1 for one that is not known. It looks back through the straight line of
// code before.
func constantsAt(body asm.Instructions, states []pointers, end int) (verdict, port int64) {
	first := end
	for first > 0 && body[first].Symbol() == "" && !leavesLine(&body[first-1]) {
		first--
	}
	verdict, port = -1, -1
	known := map[asm.Register]int64{}
	for i := first; i < end; i++ {
		ins := &body[i]
		op := ins.OpCode
		switch {
		case op.Class().IsALU() && op.ALUOp() == asm.Mov && op.Source() == asm.ImmSource && ins.Offset == 0:
			known[ins.Dst] = ins.Constant
		case isStore(ins):
			if p := states[i]; p.has(ins.Dst) {
				port = storedPort(ins, p, known, port)
			}
		case isLoad(ins), op.Class().IsALU(), op.Class() == asm.LdClass:
			delete(known, ins.Dst)
		}
	}
	if v, ok := known[asm.R0]; ok && v >= 0 {
		verdict = v
	}
	return verdict, port
}

// leavesLine is true for what ends a straight line of code, or may change more than is followed.
func leavesLine(ins *asm.Instruction) bool { return ins.OpCode.Class().IsJump() }

// storedPort is the constant output port after a store to md.
func storedPort(ins *asm.Instruction, p pointers, known map[asm.Register]int64, port int64) int64 {
	offset, size := int(ins.Offset), ins.OpCode.Size().Sizeof()
	const at = mdOutPort - offMD
	switch {
	case p.derived>>ins.Dst&1 != 0:
		return -1
	case offset >= at+2 || offset+size <= at:
		return port // another member
	case offset != at || size != 2 || ins.OpCode.Mode() != asm.MemMode:
		return -1
	case ins.OpCode.Class() == asm.StClass:
		return ins.Constant & 0xffff
	}
	if v, ok := known[ins.Src]; ok {
		return v & 0xffff
	}
	return -1
}

// destination is the label of what follows a verdict at a place.
func (g *generator) destination(at place, verdict, port int64) string {
	id := at.cube.ID
	forwards := !at.cube.Transparent && at.dir == cube.Ingress
	switch {
	case verdict == verdictController:
		return fmt.Sprintf("up.%s", place{at.site, 0})
	case verdict == verdictDrop:
		return fmt.Sprintf("drop.%d", id)
	case verdict == verdictPass && at.cube.Transparent:
		return nextLabel(at)
	case verdict == verdictPass && at.dir == cube.Egress:
		return wireLabel(at)
	case verdict == verdictPass:
		return fmt.Sprintf("stack.%d", id)
	case verdict == verdictSend && forwards:
		if port >= 0 && !at.cube.has(cube.Egress) && at.cube.port(uint16(port)) != nil {
			return fmt.Sprintf("port.%d.%d.%d", id, port, at.sweep)
		}
		return txLabel(at)
	case verdict == verdictFlood && forwards:
		return floodLabel(at)
	}
	return fmt.Sprintf("badverdict.%d", id)
}

// referenced tells whether a label is still the target of a jump of the body that was not
// threaded.
func referenced(body asm.Instructions, threads map[int]string, label string) bool {
	for i := range body {
		if _, threaded := threads[i]; !threaded && body[i].Reference() == label && body[i].OpCode.Class().IsJump() {
			return true
		}
	}
	return false
}
