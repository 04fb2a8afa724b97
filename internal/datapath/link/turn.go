// SPDX-License-Identifier: Apache-2.0

package link

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

// A turn is a tail call with md in the CPU's pcn_resumes: along the order again in this component, where plain jumps
// would be a loop to the verifier, or across into another segment. Each counts as a hop, so that loops end. The kernel
// allows 33 tail calls per run of a program; a packet that crosses to another cube after maxTurns of them goes through
// our own interface instead, where it starts a new run. (Within a cube the four words of md could not be passed that
// way; a cube's own programs have the rest of the 33.)

const (
	maxTurns    = 20
	kernelTurns = 31 // including those that led into the program: the kernel allows no more
)

// turnKind is the place where a packet turns.
type turnKind uint8

const (
	turnCross  turnKind = iota // to another cube
	turnCall                   // within a cube, whose words in md it keeps
	turnArrive                 // to a port of a cube in another segment, in md.in_port
)

type turn struct {
	to   site
	kind turnKind
}

// turner writes the turns that are used.
type turner struct {
	linking
	*code
	turns map[turn]string // with their labels
	edges map[int32]bool  // by target
}

// turn returns the label of the code for a turn.
func (tr *turner) turn(t turn) string {
	if tr.turns[t] == "" {
		tr.turns[t] = fmt.Sprintf("turn.%d.%s", t.kind, place{t.to, 0})
	}
	return tr.turns[t]
}

// verdictTurn sends a packet that leaves through a transparent cube back in through the same cube, and one that comes in
// back out.
const verdictTurn = 8

// RepliesConstant is the constant that pcn_pkt_reply reads.
const RepliesConstant = "pcn_replies"

// turnsBack reports whether the place's program may return that.
func (s site) turnsBack() bool {
	if s.dir == cube.Ingress {
		return s.cube.Replies && s.cube.has(cube.Egress)
	}
	return s.cube.Transparent && s.cube.has(cube.Ingress)
}

func backLabel(at place) string { return at.String() + ".back" }

// turnBack emits the way back in, or out. It is a tail call: where packets leave a netdev, this program has no ingress
// side, and where they enter one, no egress side. From the resume program they get to the stack, or the wire, of the netdev
// in md.
func (g *generator) turnBack(at place) {
	b := &block{label: backLabel(at)}
	if at.dir == cube.Egress {
		flag(b, mdTurned)
	}
	if g.role == OnEgress || at.dir == cube.Ingress {
		g.stayHere(b)
	}
	b.jump(g.turn(turn{entrance(at.cube, 1-at.dir), turnCall}))
	g.later(b)
}

// stayHere records the netdev where this run began in md, unless another one is there: that of a packet which came by user
// space or through our own interface.
func (g *generator) stayHere(b *block) {
	at, skip := int16(skbIfindex), b.local()
	if !g.tc() {
		at = xdpIngressIfindex
	}
	if g.role == OnResume {
		b.load(asm.R1, asm.R10, mdPassIfindex, asm.Word)
		b.add(asm.JNE.Imm(asm.R1, 0, skip))
	}
	b.load(asm.R1, asm.R10, offCtx, asm.DWord)
	b.load(asm.R1, asm.R1, at, asm.Word)
	b.store(asm.R10, mdPassIfindex, asm.R1, asm.Word)
	if g.role == OnResume {
		b.mark(skip)
	}
}

// target is the turn's value of enum pcn_target, with the program's index in the upper bits.
func (t turn) target() int32 {
	switch {
	case t.kind == turnArrive:
		return targetRX
	case t.to.dir == cube.Egress:
		return targetOut | int32(t.to.index)<<targetShift
	}
	return targetIn | int32(t.to.index)<<targetShift
}

// emitTurns emits the turns that are used, in a stable order.
func (tr *turner) emitTurns() {
	turns := slices.SortedFunc(maps.Keys(tr.turns), func(a, b turn) int {
		return cmp.Compare(tr.turns[a], tr.turns[b])
	})
	foreign := map[uint16]bool{}
	for _, t := range turns {
		tr.emitTurn(t)
		if id := t.to.cube.ID; t.to.cube.Foreign && !foreign[id] {
			foreign[id] = true
			tr.dropAs("hop", t.to.cube, reasonHopLimit)
			tr.dropAs("noprogram", t.to.cube, reasonNoProgram)
		}
	}
}

func (tr *turner) emitTurn(t turn) {
	id := t.to.cube.ID
	b, hop := tr.block("%s", tr.turns[t]), fmt.Sprintf("hop.%d", id)
	b.load(asm.R1, asm.R10, mdHops, asm.Half)
	b.add(asm.JGE.Imm(asm.R1, int32(tr.c.Hops), hop))
	if t.kind != turnCall && tr.core.TapIndex != 0 {
		again := b.label + ".again"
		b.load(asm.R1, asm.R10, mdTurns, asm.Half)
		b.add(asm.JGE.Imm(asm.R1, maxTurns, again))
		tr.enterAgain(tr.block("%s", again), t)
	}
	tr.handOver(b, hop, handOver{arrives: t.kind == turnArrive, words: t.kind == turnCall, turns: 1})
	if t.to.cube.Alike {
		b.number(asm.R2, t.to.cube, t.target()<<16)
		b.store(asm.R0, mdSize, asm.R2, asm.Word)
	} else {
		b.set(asm.R0, mdSize, int32(id)|t.target()<<16, asm.Word)
	}
	if t.to.cube.Foreign {
		b.add(mapPtr(asm.R2, tr.m("pcn_cubes")), asm.Mov.Imm(asm.R3, int32(id)))
	} else {
		b.add(mapPtr(asm.R2, tr.core.Generation), asm.Mov.Imm(asm.R3, 0))
	}
	b.add(asm.FnTailCall.Call())
	if t.to.cube.Foreign {
		b.load(asm.R1, asm.R10, mdTurns, asm.Half) // without this one
		b.add(asm.JLT.Imm(asm.R1, kernelTurns-1, fmt.Sprintf("noprogram.%d", id)))
	}
	b.jump(hop)
}

// handOver selects what of md a resume program gets.
type handOver struct {
	// arrives omits what only matters within a cube: the port to leave by.
	arrives bool
	// words keeps the four words of the cube, which are zero in another.
	words bool
	// turns is added to md.turns; md.hops is incremented.
	turns int32
}

// handOver copies md to the CPU's pcn_resumes, to which r0 points afterwards; the context is in r1 for a tail call.
// Members that may just have been written are combined in registers: a CPU does not forward several stores to one wider
// load, and waits until they have reached the cache.
func (tr *turner) handOver(b *block, fail string, h handOver) {
	b.lookupConst(tr.m("pcn_resumes"), 0, fail)
	member := func(at int16, size asm.Size, shift int32) {
		b.load(asm.R2, asm.R10, at, size)
		if shift > 0 {
			b.add(asm.LSh.Imm(asm.R2, shift))
		}
		b.add(asm.Or.Reg(asm.R1, asm.R2))
	}
	b.load(asm.R1, asm.R10, mdReason, asm.Word) // and md.hops above
	b.add(asm.Add.Imm(asm.R1, 1<<16), asm.LSh.Imm(asm.R1, 32))
	member(mdInPort, asm.Half, 0)
	if !h.arrives {
		member(mdOutPort, asm.Half, 16)
	}
	b.store(asm.R0, 0, asm.R1, asm.DWord)
	for _, at := range []int16{mdLen, mdFlowHash} {
		b.load(asm.R1, asm.R10, at, asm.DWord)
		b.store(asm.R0, at-offMD, asm.R1, asm.DWord)
	}
	for _, at := range []int16{mdWords, mdWords + 8} {
		if !h.words {
			b.set(asm.R0, at-offMD, 0, asm.DWord)
			continue
		}
		b.load(asm.R1, asm.R10, at, asm.DWord)
		b.store(asm.R0, at-offMD, asm.R1, asm.DWord)
	}
	b.load(asm.R1, asm.R10, mdTurns, asm.Half)
	if h.turns > 0 {
		b.add(asm.Add.Imm(asm.R1, h.turns))
	}
	b.add(asm.LSh.Imm(asm.R1, 32))
	member(mdPassIfindex, asm.Word, 0)
	member(mdFlags, asm.Half, 48)
	b.store(asm.R0, mdPassIfindex-offMD, asm.R1, asm.DWord)
	b.load(asm.R1, asm.R10, mdTraceID, asm.DWord)
	b.store(asm.R0, mdTraceID-offMD, asm.R1, asm.DWord)
	b.load(asm.R1, asm.R10, offCtx, asm.DWord)
}

// genericXDP marks a call for a cube of type XDP_SKB (GENERIC).
const genericXDP = 1 << 18

// enterAgain sends the packet through our own interface to the place where it would have continued.
func (tr *turner) enterAgain(b *block, t turn) {
	who := int32(0)
	if t.to.cube.Generic {
		who = genericXDP
	}
	if t.to.dir == cube.Egress { // the interface does not carry the port to which an offered packet returns
		ifOffered(b, fmt.Sprintf("hop.%d", t.to.cube.ID))
	}
	b.number(asm.R3, t.to.cube, who)
	tr.again(b, t.target())
}

// again sends the packet through our own interface; r3 is the cube.
func (tr *turner) again(b *block, target int32) {
	b.load(asm.R1, asm.R10, mdHops, asm.Half)
	b.add(asm.Add.Imm(asm.R1, 1))
	b.store(asm.R10, mdHops, asm.R1, asm.Half)
	b.args()
	b.add(asm.Mov.Imm(asm.R4, target), asm.Mov.Imm(asm.R5, int32(tr.core.TapIndex)))
	b.call("pcn_core_again")
	b.add(asm.Return())
}

// edge returns the label of the code for crossing into another segment by an edge that is data: r6 is the cube there.
func (tr *turner) edge(target int32) string {
	tr.edges[target] = true
	return fmt.Sprintf("edge.%d", target)
}

// emitEdges emits the edges that are used.
func (tr *turner) emitEdges() {
	for _, target := range slices.Sorted(maps.Keys(tr.edges)) {
		tr.emitEdge(target)
	}
	tr.dropAtExit("edge.hop", reasonHopLimit)
	tr.dropAtExit("edge.noprogram", reasonNoProgram)
}

func (tr *turner) emitEdge(target int32) {
	b := tr.block("edge.%d", target)
	b.load(asm.R1, asm.R10, mdHops, asm.Half)
	b.add(asm.JGE.Imm(asm.R1, int32(tr.c.Hops), "edge.hop"))
	if tr.core.TapIndex != 0 {
		b.load(asm.R1, asm.R10, mdTurns, asm.Half)
		b.add(asm.JGE.Imm(asm.R1, maxTurns, b.label+".again"))
		again := tr.block("%s.again", b.label)
		again.add(asm.Mov.Reg(asm.R3, asm.R6))
		if tr.c.Cubes[0].Generic {
			again.add(asm.Or.Imm(asm.R3, genericXDP))
		}
		tr.again(again, target)
	}
	tr.handOver(b, "edge.hop", handOver{arrives: target == targetRX, turns: 1})
	b.store(asm.R0, mdSize, asm.R6, asm.Half)
	b.set(asm.R0, mdSize+2, target, asm.Half)
	b.add(mapPtr(asm.R2, tr.m("pcn_cubes")), asm.Mov.Reg(asm.R3, asm.R6), asm.FnTailCall.Call())
	b.load(asm.R1, asm.R10, mdTurns, asm.Half) // without this one
	b.add(asm.JLT.Imm(asm.R1, kernelTurns-1, "edge.noprogram"))
	b.jump("edge.hop")
}

// stacked leaves in r6 the transparent cube on the port of cube c in r1, or goes elsewhere if there is none that is data.
// The registers that keep pointers survive.
func (tr *turner) stacked(b *block, c *Cube, none string) {
	b.add(asm.Mov.Reg(asm.R6, asm.R1), asm.JGE.Imm(asm.R6, MaxPorts, none))
	b.lookupConst(tr.m("pcn_stacks"), int32(c.ID), none)
	b.add(asm.LSh.Imm(asm.R6, 1), asm.Add.Reg(asm.R0, asm.R6))
	b.load(asm.R6, asm.R0, 0, asm.Half)
	b.add(asm.JEq.Imm(asm.R6, 0, none))
}

// toParent emits the way on from a transparent cube whose port is data: into the port's cube, or out of the port.
func (g *generator) toParent(b *block, at place) {
	b.number(asm.R1, at.cube, 0)
	b.store(asm.R10, offKey, asm.R1, asm.Word)
	b.lookup(g.m("pcn_parents"), "lost")
	b.load(asm.R6, asm.R0, 0, asm.Half) // cube
	b.load(asm.R1, asm.R0, 2, asm.Half) // port
	if at.dir == cube.Ingress {
		b.store(asm.R10, mdInPort, asm.R1, asm.Half)
		b.jump(g.edge(targetIn))
		return
	}
	b.add(asm.Mov.Reg(asm.R2, asm.R6), asm.Mul.Imm(asm.R2, MaxPorts), asm.Or.Reg(asm.R1, asm.R2))
	b.jump("exit")
}

// elsewhere emits the destination of a packet from a table that leads to a cube of another component: while netdevs
// move between components, their rows and their programs change one by one. r1 is the cube.
func (tr *turner) elsewhere(target int32) {
	b := tr.block("elsewhere")
	b.add(asm.Mov.Reg(asm.R6, asm.R1))
	b.load(asm.R1, asm.R10, mdHops, asm.Half)
	b.add(asm.JGE.Imm(asm.R1, int32(tr.c.Hops), "lost"))
	tr.handOver(b, "lost", handOver{})
	b.store(asm.R0, mdSize, asm.R6, asm.Half)
	b.set(asm.R0, mdSize+2, target, asm.Half)
	b.add(mapPtr(asm.R2, tr.m("pcn_cubes")), asm.Mov.Reg(asm.R3, asm.R6), asm.FnTailCall.Call())
	b.jump("lost")
}
