// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

// exits writes how packets leave the program.
type exits struct {
	linking
	*code
	veil
	tracer
	*turner
}

// ends emits the fates of packets in a cube. layout omits unused ones.
func (x *exits) ends(c *Cube) {
	id := c.ID
	x.dropAs("hop", c, reasonHopLimit)
	x.dropAs("badport", c, reasonBadPort)
	x.dropAs("badverdict", c, reasonBadVerdict)
	x.dropAs("nocall", c, reasonNoProgram)
	// The cube's own reasons start at reasonFirst; a reason that it cannot use is unspecified.
	drop := x.block("drop.%d", id)
	drop.number(asm.R6, c, 0)
	x.left(drop, asm.R7, mdReason)
	drop.add(asm.JGE.Imm(asm.R7, reasonFirst, "fate.drop"), asm.Mov.Imm(asm.R7, reasonUnspecified))
	drop.jump("fate.drop")
	x.namespace(c)
	for _, label := range []string{"stack", "hook"} {
		b := x.block("%s.%d", label, id)
		if c.Shadow && label == "stack" {
			b.load(asm.R1, asm.R10, mdInPort, asm.Half)
			b.store(asm.R10, mdOutPort, asm.R1, asm.Half)
			b.jump(namespaceLabel(c))
			continue
		}
		b.number(asm.R6, c, 0)
		b.add(asm.Mov.Imm(asm.R7, reasonPass))
		b.jump("fate." + label)
	}
	exit := x.block("exit.%d", id) // r1 is md.out_port
	exit.add(asm.JGE.Imm(asm.R1, MaxPorts, fmt.Sprintf("badport.%d", id)))
	exit.exitKey(asm.R1, asm.R2, c)
	exit.number(asm.R6, c, 0)
	exit.jump("exit")
	if c.Redirects {
		x.redirect(c)
	}
	for _, dir := range []cube.Direction{cube.Ingress, cube.Egress} {
		at := first(c, dir)
		up := x.block("up.%s", at)
		up.args()
		up.number(asm.R3, c, at.way())
		up.call("pcn_core_up")
		up.leave(x.drop())
	}
}

// dropAs emits a drop that is counted for a cube with a reason.
func (w *code) dropAs(label string, c *Cube, reason int32) {
	b := w.block("%s.%d", label, c.ID)
	b.number(asm.R6, c, 0)
	b.add(asm.Mov.Imm(asm.R7, reason))
	b.jump("fate.drop")
}

// tails emits the code that all cubes share: the exit to a netdev and the counting of fates.
func (x *exits) tails() {
	x.exit()
	x.redirectTails()
	x.enterNamespace()
	for _, tail := range []string{"fate.drop", "fate.stack", "fate.hook"} {
		b := x.block("%s", tail)
		if tail == "fate.drop" {
			x.traceEnd(b)
		}
		b.store(asm.R10, offKey, asm.R6, asm.Word)
		b.lookup(x.m("pcn_fates"), tail+".end")
		b.add(asm.JLT.Imm(asm.R7, reasonMax, tail+".ok"), asm.Mov.Imm(asm.R7, reasonUnspecified))
		b.mark(tail + ".ok")
		b.add(asm.LSh.Imm(asm.R7, 3), asm.Add.Reg(asm.R0, asm.R7))
		b.load(asm.R1, asm.R0, 0, asm.DWord)
		b.add(asm.Add.Imm(asm.R1, 1))
		b.store(asm.R0, 0, asm.R1, asm.DWord)
		b.mark(tail + ".end")
		switch tail {
		case "fate.drop":
			b.leave(x.drop())
		case "fate.stack":
			x.toHook(b, redirectIngress)
		default:
			x.toHook(b, 0)
		}
	}
	x.block("leave").add(asm.Return())
	lost := x.block("lost")
	lost.add(asm.Mov.Imm(asm.R6, 0), asm.Mov.Imm(asm.R7, reasonNoProgram))
	lost.jump("fate.drop")
}

// toHook passes the packet on: to the stack or the wire where it is or, if it comes from the slow path, to those of the
// netdev in md (flags redirectIngress, or 0: its egress), past the programs there, which have already processed it.
func (x *exits) toHook(b *block, flags int32) {
	if x.role != OnResume {
		b.leave(x.pass())
		return
	}
	if !x.tc() {
		b.args()
		b.call("pcn_core_pass")
		b.add(asm.Return())
		return
	}
	here, unmarked := b.local(), b.local()
	b.load(asm.R1, asm.R10, mdPassIfindex, asm.Word)
	b.add(asm.JEq.Imm(asm.R1, 0, here))
	if x.c.Companion && flags == redirectIngress { // the netdev may have its programs at XDP
		b.store(asm.R10, offKey, asm.R1, asm.Word)
		b.lookup(x.m("pcn_tc_ingress"), unmarked)
	}
	b.load(asm.R2, asm.R10, offCtx, asm.DWord)
	b.add(asm.Mov.Imm(asm.R3, x.skip()))
	b.store(asm.R2, skbTCIndex, asm.R3, asm.Word)
	b.mark(unmarked)
	b.load(asm.R1, asm.R10, mdPassIfindex, asm.Word) // again: the lookup does not keep it
	b.add(asm.Mov.Imm(asm.R2, flags), asm.FnRedirect.Call(), asm.Return())
	b.mark(here)
	b.leave(x.pass())
}

// skip is the mark of packets that are past the programs of this component.
func (l linking) skip() int32 {
	if l.c.Host {
		return skipHost
	}
	return skipMark
}

// exit emits the exit to a netdev; r1 is the key in the table of exits, r6 the cube.
func (x *exits) exit() {
	b := x.block("exit")
	b.store(asm.R10, offKey, asm.R1, asm.Word)
	x.refuseFrags(b)
	b.lookup(x.m("pcn_exits"), "nopeer")
	b.add(asm.Mov.Reg(asm.R7, asm.R0))
	b.load(asm.R8, asm.R7, 0, asm.Word) // ifindex
	b.add(asm.JEq.Imm(asm.R8, 0, "nopeer"), asm.JSLT.Imm32(asm.R8, 0, "exit.cube"))
	if !x.tc() {
		b.load(asm.R2, asm.R10, offKey, asm.Word)
		b.add(mapPtr(asm.R1, x.m("pcn_devices")), asm.Mov.Imm(asm.R3, xdpDrop),
			asm.FnRedirectMap.Call(), asm.JNE.Imm(asm.R0, xdpRedirect, "nopeer"))
	}
	b.load(asm.R1, asm.R7, 4, asm.Half) // page
	b.load(asm.R2, asm.R10, offPage, asm.DWord)
	b.add(asm.JNE.Imm(asm.R1, int32(x.c.Page), "exit.page"))
	b.mark("exit.count")
	b.load(asm.R1, asm.R7, 6, asm.Half) // slot
	b.add(asm.JGT.Imm(asm.R1, NoSlot, "exit.go"),
		asm.LSh.Imm(asm.R1, slotShift), asm.Add.Reg(asm.R2, asm.R1))
	b.count(asm.R2, slotTx)
	b.mark("exit.go")
	x.traceLeave(b)
	if x.tc() {
		b.load(asm.R1, asm.R10, offCtx, asm.DWord)
		b.load(asm.R2, asm.R10, mdTrafficClass, asm.Word)
		b.store(asm.R1, skbMark, asm.R2, asm.Word)
		b.add(asm.Mov.Reg(asm.R1, asm.R8), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return())
	} else {
		b.leave(xdpRedirect)
	}
	page := x.block("exit.page")
	page.store(asm.R10, offKey, asm.R1, asm.Word)
	page.lookup(x.m("pcn_counters"), "exit.go")
	page.add(asm.Mov.Reg(asm.R2, asm.R0))
	page.jump("exit.count")

	x.exitCube()
	x.exitEgress()
	x.dropAtExit("nopeer", reasonNoPeer)
	x.dropAtExit("toolong", reasonTooLong)
}

// exitCube emits the crossing to a port of a cube of another segment, by the row of the port in r7 and its first word in r8.
func (x *exits) exitCube() {
	b := x.block("exit.cube")
	if !x.tc() {
		b.add(asm.JSet.Imm(asm.R8, exitEgress, "exit.egress"))
	}
	x.toCube(b, slotTx)
}

// toCube emits that crossing with counters at an offset in the row's slot: those of the port that sends, or of the one that
// receives.
func (x *exits) toCube(b *block, counters int16) {
	x.countRow(b, counters)
	b.add(asm.Mov.Reg(asm.R1, asm.R8), asm.And.Imm(asm.R1, MaxPorts-1))
	b.store(asm.R10, mdInPort, asm.R1, asm.Half)
	b.add(asm.Mov.Reg(asm.R6, asm.R8), asm.RSh.Imm(asm.R6, 16), asm.And.Imm(asm.R6, MaxCubes-1))
	if x.role == OnResume {
		flag(b, 0)
	}
	b.jump(x.edge(targetRX))
}

// countRow counts a packet in the slot of the row in r7.
func (x *exits) countRow(b *block, counters int16) {
	skip := b.local()
	b.load(asm.R1, asm.R7, 4, asm.Half) // page
	b.store(asm.R10, offKey, asm.R1, asm.Word)
	b.lookup(x.m("pcn_counters"), skip)
	b.load(asm.R1, asm.R7, 6, asm.Half) // slot
	b.add(asm.JGT.Imm(asm.R1, NoSlot, skip),
		asm.LSh.Imm(asm.R1, slotShift), asm.Add.Reg(asm.R0, asm.R1))
	b.count(asm.R0, counters)
	b.mark(skip)
}

// dropAtExit emits a drop at the exit, which is counted for the cube in r6.
func (w *code) dropAtExit(label string, reason int32) {
	b := w.block("%s", label)
	b.add(asm.Mov.Imm(asm.R7, reason))
	b.jump("fate.drop")
}

// refuseFrags drops a frame in several buffers if the kernel would accept the redirect and then lose it.
func (x *exits) refuseFrags(b *block) {
	if x.tc() || !x.core.Frags || x.core.Kernel.RedirectFrags {
		return
	}
	b.load(asm.R3, asm.R10, offCtx, asm.DWord)
	b.load(asm.R1, asm.R3, xdpDataEnd, asm.Word)
	b.load(asm.R2, asm.R3, xdpData, asm.Word)
	b.add(asm.Sub.Reg(asm.R1, asm.R2))
	b.load(asm.R2, asm.R10, mdLen, asm.Word)
	b.add(asm.JNE.Reg(asm.R1, asm.R2, "toolong"))
}

// flood emits the replication to the ports of a cube, which is the framework's; one copy may be the packet itself.
func (g *generator) flood(at place) {
	c := at.cube
	b := g.block("%s", floodLabel(at))
	g.captureFlood(b, c)
	b.args()
	b.number(asm.R3, c, c.throughEgress())
	b.call("pcn_core_flood")
	b.add(asm.JEq.Imm32(asm.R0, -1, txLabel(at)))
	if !g.tc() {
		b.jump("leave")
		return
	}
	b.leave(g.drop())
}
