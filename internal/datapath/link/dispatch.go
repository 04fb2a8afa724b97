// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

// first is the place of a site in the first sweep, where packets enter.
func first(c *Cube, dir cube.Direction) place { return place{entrance(c, dir), 0} }

// site emits a cube's program and the processing of its verdict.
func (g *generator) site(at place) {
	b := g.show(g.block("%s", at), at)
	g.hideWords(b, at.cube)
	f := at.program().Function
	g.tellCube(b, at.cube, f)
	guarded := f.effects&writesFramework != 0
	if guarded {
		g.keepSafe(b, at.cube, true)
	}
	g.get(b, asm.R1, slotCtx, false)
	g.get(b, asm.R2, slotMD, false)
	done := at.String() + ".done"
	if g.mode == Inline {
		if err := g.inline(b, at, f, done); err != nil && g.err == nil {
			g.err = err
		}
	} else {
		b.call(at.symbol(f.Name))
		b.jump(done)
	}
	after := g.block("%s", done)
	if guarded {
		g.keepSafe(after, at.cube, false)
	}
	if f.resizes {
		g.measureAgain(after)
	}
	g.traceProgram(after, at)
	g.verdict(at, after)
}

// tellCube records the number of the cube that runs, for code that asks: in md, and where several cubes are alike for calls
// to the framework, which have no other way to know it.
func (g *generator) tellCube(b *block, c *Cube, f *Function) {
	switch {
	case !c.Alike && f.effects&readsCube != 0:
		b.set(asm.R10, mdCube, int32(c.ID), asm.Half)
	case c.Alike && f.callsFramework():
		skip := b.local()
		b.lookupConst(g.m("pcn_running"), 0, skip)
		b.load(asm.R1, asm.R10, mdCube, asm.Half)
		b.store(asm.R0, 0, asm.R1, asm.Word)
		b.mark(skip)
	}
}

// keepSafe saves the framework's members of md where the cube cannot write, or restores them.
func (g *generator) keepSafe(b *block, c *Cube, out bool) {
	type member struct { // the offset in md, and the place where it is saved
		md, safe int16
		size     asm.Size
	}
	members := []member{{mdHops, 0, asm.Half}, {mdLen, 4, asm.Word}, {mdPassIfindex, 8, asm.DWord}}
	if g.traced() {
		members = append(members, member{mdTraceID, 2, asm.Half})
	}
	if c.Alike {
		members = append(members, member{mdCube, offKey - offSafe, asm.Half}) // the driver looks nothing up meanwhile
	}
	for _, m := range members {
		src, dst := m.md, offSafe+m.safe
		if !out {
			src, dst = dst, src
		}
		b.load(asm.R3, asm.R10, src, m.size)
		b.store(asm.R10, dst, asm.R3, m.size)
	}
}

// measureAgain updates md.packet_len after a cube that may have changed it; r0 stays.
func (g *generator) measureAgain(b *block) {
	b.load(asm.R1, asm.R10, offCtx, asm.DWord)
	switch {
	case g.tc():
		b.load(asm.R1, asm.R1, skbLen, asm.Word)
	case g.core.Frags:
		b.add(asm.Mov.Reg(asm.R6, asm.R0), asm.FnXdpGetBuffLen.Call(), asm.Mov.Reg(asm.R1, asm.R0), asm.Mov.Reg(asm.R0, asm.R6))
	default:
		b.load(asm.R2, asm.R1, xdpData, asm.Word)
		b.load(asm.R1, asm.R1, xdpDataEnd, asm.Word)
		b.add(asm.Sub.Reg(asm.R1, asm.R2))
	}
	b.store(asm.R10, mdLen, asm.R1, asm.Word)
}

// verdict emits the dispatch on a program's return value, the common case first.
func (g *generator) verdict(at place, b *block) {
	id := at.cube.ID
	o := &block{label: at.String() + ".other"}
	g.later(o)
	switch {
	case at.cube.Transparent:
		b.add(asm.JNE.Imm32(asm.R0, verdictPass, o.label))
		b.jump(nextLabel(at))
		if at.turnsBack() {
			o.add(asm.JEq.Imm32(asm.R0, verdictTurn, backLabel(at)))
		}
		if at.cube.Redirects {
			o.add(asm.JEq.Imm32(asm.R0, verdictRedirect, redirectLabel(at.cube)))
		}
	case at.dir == cube.Egress:
		b.add(asm.JNE.Imm32(asm.R0, verdictPass, o.label))
		b.jump(wireLabel(at))
	default:
		b.add(asm.JNE.Imm32(asm.R0, verdictSend, o.label))
		b.jump(txLabel(at))
		o.add(asm.JEq.Imm32(asm.R0, verdictFlood, floodLabel(at)),
			asm.JEq.Imm32(asm.R0, verdictPass, fmt.Sprintf("stack.%d", id)))
		if at.cube.floodsSets() {
			o.add(asm.JEq.Imm32(asm.R0, verdictFloodSet, floodSetLabel(at)))
		}
		if at.cube.Offers {
			o.add(asm.JEq.Imm32(asm.R0, verdictOffer, offerLabel(at)))
		}
	}
	o.add(asm.JEq.Imm32(asm.R0, verdictController, upLabel(at)),
		asm.JEq.Imm32(asm.R0, verdictDrop, fmt.Sprintf("drop.%d", id)),
		asm.JEq.Imm32(asm.R0, verdictCall, callLabel(at)))
	g.toNamespace(o, at)
	o.jump(fmt.Sprintf("badverdict.%d", id))
	g.calls(at)
	if at.turnsBack() {
		g.turnBack(at)
	}
	if g.last(at) {
		g.onward(at)
	}
}

// calls emits the jump to another program of the cube, by the index in md.reason.
func (g *generator) calls(at place) {
	var to []branch
	for _, p := range at.cube.programs(at.dir) {
		to = append(to, branch{int32(p.Index), fmt.Sprintf("%s:%d", callLabel(at), p.Index)})
	}
	b := &block{label: callLabel(at)}
	g.left(b, asm.R1, mdReason)
	b.choose(asm.R1, to, fmt.Sprintf("nocall.%d", at.cube.ID))
	g.later(b)
	for i, p := range at.cube.programs(at.dir) {
		c := &block{label: to[i].label}
		g.jumpTo(c, at, site{at.cube, at.dir, p.Index}, turnCall)
		g.later(c)
	}
}

// last reports whether the place is the last of its cube and direction in its sweep. The code after the cube's programs
// follows it, once, so that all of them reach it by forward jumps.
func (g *generator) last(at place) bool {
	for _, p := range at.cube.programs(at.dir) {
		other := g.index[site{at.cube, at.dir, p.Index}]
		if at.sweep == 0 && other > g.index[at.site] || at.sweep == 1 && other < g.index[at.site] {
			return false
		}
	}
	return true
}

// onward emits the next steps of a place, directly after it so that the hot path falls through.
func (g *generator) onward(at place) {
	c := at.cube
	switch {
	case c.Transparent && at.dir == cube.Ingress:
		g.next(g.block("%s", nextLabel(at)), at, c.NextIn)
	case c.Transparent:
		g.next(g.block("%s", nextLabel(at)), at, c.NextOut)
	case at.dir == cube.Ingress && c.has(cube.Egress):
		g.jumpTo(g.block("%s", txLabel(at)), at, entrance(c, cube.Egress), turnCall)
	default:
		g.wire(at)
		g.ports(at)
	}
	if !c.Transparent && at.dir == cube.Ingress {
		g.flood(at)
		g.floodSet(at)
		g.offer(at)
	}
}

// Labels of the code after a place.
func wireLabel(at place) string  { return fmt.Sprintf("wire.%d.%d", at.cube.ID, at.sweep) }
func floodLabel(at place) string { return fmt.Sprintf("flood.%d.%d", at.cube.ID, at.sweep) }
func nextLabel(at place) string  { return fmt.Sprintf("next.%d.%d.%d", at.dir, at.cube.ID, at.sweep) }
func callLabel(at place) string  { return at.String() + ".call" }
func upLabel(at place) string    { return "up." + first(at.cube, at.dir).String() }

// txLabel is the destination of a packet that a standard cube sends to md.out_port.
func txLabel(at place) string {
	if at.cube.has(cube.Egress) {
		return fmt.Sprintf("tx.%d.%d", at.cube.ID, at.sweep)
	}
	return wireLabel(at)
}

// ports emits the ports of a standard cube that are code; at is its last place.
func (g *generator) ports(at place) {
	for _, p := range at.cube.Ports {
		b := g.block("port.%d.%d.%d", at.cube.ID, p.Index, at.sweep)
		g.unflag(b)
		if len(p.Tcubes) > 0 {
			scrub(b, at.cube)
			g.jumpTo(b, at, entrance(p.Tcubes[0], cube.Egress), turnCross)
			continue
		}
		g.peer(b, at, at.cube, p)
	}
}

// wire emits the choice of the output port: code for the ports that lead to programs, the table of exits for those that
// lead to netdevs.
func (g *generator) wire(at place) {
	c := at.cube
	b := g.block("%s", wireLabel(at))
	g.spanOut(b, c)
	g.captureOut(b, c)
	g.left(b, asm.R1, mdOutPort)
	var to []branch
	for _, p := range c.Ports {
		to = append(to, branch{int32(p.Index), fmt.Sprintf("port.%d.%d.%d", c.ID, p.Index, at.sweep)})
	}
	if !c.Stacks {
		b.choose(asm.R1, to, fmt.Sprintf("exit.%d", c.ID))
		return
	}
	stack := g.block("stack.%d.%d", c.ID, at.sweep)
	b.choose(asm.R1, to, stack.label)
	none := g.block("%s.none", stack.label)
	g.left(none, asm.R1, mdOutPort)
	none.jump(fmt.Sprintf("exit.%d", c.ID))
	g.stacked(stack, c, none.label)
	g.unflag(stack)
	stack.jump(g.edge(targetOut))
}

// peer emits the crossing from a port to its peer.
func (g *generator) peer(b *block, at place, c *Cube, p *Port) {
	if p.Peer == nil {
		b.add(asm.Mov.Imm(asm.R1, int32(p.Index)))
		b.exitKey(asm.R1, asm.R2, c)
		b.number(asm.R6, c, 0)
		b.jump("exit")
		return
	}
	g.countEdge(b, p)
	scrub(b, at.cube)
	g.enter(b, p.PeerPort.Index)
	g.arrive(b, at, p.Peer, p.PeerPort)
}

// veil hides from the verifier values that it must not mix up between paths through a program. A verifier that
// distinguishes the paths' stack contents may see them.
type veil struct{ seesThrough bool }

// enter records the port at which a packet enters a cube. A verifier that may mix up the ports of several paths into
// the cube does not see it.
func (v veil) enter(b *block, port uint16) {
	if v.seesThrough {
		b.set(asm.R10, mdInPort, int32(port), asm.Half)
		return
	}
	b.add(asm.Mov.Imm(asm.R0, int32(port)))
	v.hide(b, asm.R0, asm.R1)
	b.store(asm.R10, mdInPort, asm.R0, asm.Half)
}

// left loads a value that a cube left in md, R2 being free. A verifier that may take the value of one path for that of
// all does not see it.
func (v veil) left(b *block, to asm.Register, at int16) {
	b.load(to, asm.R10, at, asm.Half)
	if !v.seesThrough {
		v.hide(b, to, asm.R2)
	}
}

// hide hides a number from the verifier, which does not know that XOR with the same number twice changes nothing.
func (v veil) hide(b *block, reg, free asm.Register) {
	b.load(free, asm.R10, mdLen, asm.DWord) // any number unknown to the verifier
	b.add(asm.Xor.Reg(reg, free), asm.Xor.Reg(reg, free))
}

// arrive continues at the first site of a packet that enters the cube at the port, whose index is in md.in_port. For a
// cube of another segment, that segment knows the site.
func (g *generator) arrive(b *block, at place, c *Cube, p *Port) {
	if c.Foreign {
		b.jump(g.turn(turn{entrance(c, cube.Ingress), turnArrive}))
		return
	}
	g.jumpTo(b, at, p.arrival(c)[0], turnCross)
}

// scrub zeroes the words of a cube that may have written some of them at the crossing to the next cube.
func scrub(b *block, c *Cube) {
	if c.writesWords() {
		b.set(asm.R10, mdWords, 0, asm.DWord)
		b.set(asm.R10, mdWords+8, 0, asm.DWord)
	}
}

// hideWords hides the words that the cube's programs leave for each other, from the same verifier.
func (v veil) hideWords(b *block, c *Cube) {
	if v.seesThrough || !c.writesWords() {
		return
	}
	for _, at := range []int16{mdWords, mdWords + 8} {
		b.load(asm.R0, asm.R10, at, asm.DWord)
		v.hide(b, asm.R0, asm.R1)
		b.store(asm.R10, at, asm.R0, asm.DWord)
	}
}

// writesWords reports whether a program of the cube may write words of md.
func (c *Cube) writesWords() bool {
	return slices.ContainsFunc(slices.Concat(c.programs(cube.Ingress), c.programs(cube.Egress)),
		func(p CubeProgram) bool { return p.Function.effects&writesWords != 0 })
}

// countEdge counts a packet that crosses from a port to another cube, as sent by the port. The peer's count follows
// from it, so it is not counted twice (see account).
func (g *generator) countEdge(b *block, p *Port) {
	at := int16(p.Slot)*slotSize + slotTx
	if p.Page == g.c.Page {
		page, kept := g.registers[slotPage]
		if !kept {
			page = asm.R2
			g.get(b, page, slotPage, true)
		}
		b.count(page, at)
		return
	}
	skip := b.local()
	b.lookupConst(g.m("pcn_counters"), int32(p.Page), skip)
	b.count(asm.R0, at)
	b.mark(skip)
}

// next emits the next step after a transparent cube.
func (g *generator) next(b *block, at place, n Next) {
	g.declined(b, at, n)
	if n.Kind != ToPeer {
		scrub(b, at.cube)
	}
	switch n.Kind {
	case ToCube:
		g.jumpTo(b, at, entrance(n.Cube, at.dir), turnCross)
	case ToPort:
		g.enter(b, n.Port)
		g.jumpTo(b, at, entrance(n.Cube, cube.Ingress), turnCross)
	case ToEntry:
		g.enter(b, n.Port)
		if n.Cube.Foreign {
			g.arrive(b, at, n.Cube, nil)
			return
		}
		g.jumpTo(b, at, n.sites(at.dir)[0], turnCross)
	case ToPeer:
		g.peer(b, at, n.Cube, n.Cube.port(n.Port))
	case ToWire:
		b.number(asm.R6, at.cube, 0)
		b.jump("own")
	case ToParent:
		g.toParent(b, at)
	case ToHook:
		to := "stack"
		if at.dir == cube.Egress {
			to = "hook"
		}
		b.jump(fmt.Sprintf("%s.%d", to, at.cube.ID))
	}
}

// jumpTo goes to another site: along the order in the first sweep, against it in the second. Along it again it goes by
// a tail call to the resume program of this generation, which keeps the verifier's work linear; into another segment
// always.
func (g *generator) jumpTo(b *block, from place, to site, why turnKind) {
	up := g.index[to] > g.index[from.site]
	switch {
	case to.cube.Foreign:
	case from.sweep == 0 && up:
		b.jump(place{to, 0}.String())
		return
	case from.sweep == 0, g.index[to] < g.index[from.site]:
		b.jump(place{to, 1}.String())
		return
	}
	b.jump(g.turn(turn{to, why}))
}
