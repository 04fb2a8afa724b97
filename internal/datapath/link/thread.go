// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

// Jump threading: where an inlined body returns a constant verdict, the code jumps directly to the code for that
// verdict instead of the dispatch, and past the choice of the port, too, if the port is a constant.

// threads are the returns of a body that need no dispatch, by the index of an instruction, and their destinations.
type threads struct {
	// at is for a return, or a jump to one: it is replaced.
	at map[int]string
	// before is for a return that others jump to: code that falls through to it goes elsewhere.
	before map[int]string
}

// threads finds them in a labelled body (see label).
func (g *generator) threads(at place, f *Function, body asm.Instructions) threads {
	states, _ := follow(f.Body)
	to := threads{at: map[int]string{}, before: map[int]string{}}
	byLabel := map[string]int{}
	for i := range body {
		if s := body[i].Symbol(); s != "" {
			byLabel[s] = i
		}
	}
	for i := range body {
		into := to.at
		switch {
		case isExit(&body[i]) && body[i].Symbol() != "":
			into = to.before
		case isExit(&body[i]):
		case isGoto(&body[i]) && isExit(&body[byLabel[body[i].Reference()]]):
		default:
			continue
		}
		if verdict, port := constantsAt(body, states, i); verdict >= 0 {
			into[i] = g.destination(at, verdict, port)
		}
	}
	return to
}

func isExit(ins *asm.Instruction) bool {
	return ins.OpCode.Class().IsJump() && ins.OpCode.JumpOp() == asm.Exit
}

func isGoto(ins *asm.Instruction) bool {
	return ins.OpCode.Class().IsJump() && ins.OpCode.JumpOp() == asm.Ja
}

// constantsAt returns the verdict and the output port that are constants when the code falls through to the instruction
// at end, -1 if unknown. It searches backwards in the straight-line code before.
func constantsAt(body asm.Instructions, states []pointers, end int) (verdict, port int64) {
	first := end
	for first > 0 && !leavesLine(&body[first-1]) && (first == end || body[first].Symbol() == "") {
		first--
	}
	if first < end && body[end].Symbol() != "" && !isExit(&body[end]) {
		return -1, -1 // others jump to this goto, too
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

// leavesLine is true for instructions that end straight-line code, or may change more than is tracked.
func leavesLine(ins *asm.Instruction) bool { return ins.OpCode.Class().IsJump() }

// storedPort returns the constant output port after a store to md.
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

// destination returns the label of the code for a verdict at a place.
func (g *generator) destination(at place, verdict, port int64) string {
	id := at.cube.ID
	forwards := !at.cube.Transparent && at.dir == cube.Ingress
	switch {
	case verdict == verdictController:
		return upLabel(at)
	case verdict == verdictCall:
		return callLabel(at)
	case verdict == verdictNamespace && !at.cube.Transparent:
		return namespaceLabel(at.cube)
	case verdict == verdictDrop:
		return fmt.Sprintf("drop.%d", id)
	case verdict == verdictTurn && at.turnsBack():
		return backLabel(at)
	case verdict == verdictRedirect && at.cube.Redirects:
		return redirectLabel(at.cube)
	case verdict == verdictPass && at.cube.Transparent:
		return nextLabel(at)
	case verdict == verdictPass && at.dir == cube.Egress:
		return wireLabel(at)
	case verdict == verdictPass:
		return fmt.Sprintf("stack.%d", id)
	case verdict == verdictSend && forwards:
		if port >= 0 && !at.cube.Span && !at.cube.has(cube.Egress) && at.cube.port(uint16(port)) != nil {
			return fmt.Sprintf("port.%d.%d.%d", id, port, at.sweep)
		}
		return txLabel(at)
	case verdict == verdictFlood && forwards:
		return floodLabel(at)
	case verdict == verdictOffer && forwards && at.cube.Offers:
		return offerLabel(at)
	}
	return fmt.Sprintf("badverdict.%d", id)
}

// reaches reports whether the return at i, which others jump to, is still reachable: by a jump that was not threaded,
// or by falling through.
func (t threads) reaches(body asm.Instructions, i int) bool {
	for j := range body {
		if _, threaded := t.at[j]; !threaded && body[j].Reference() == body[i].Symbol() && body[j].OpCode.Class().IsJump() {
			return true
		}
	}
	_, elsewhere := t.before[i]
	_, gone := t.at[i-1]
	return !elsewhere && !gone && !isExit(&body[i-1]) && !isGoto(&body[i-1])
}
