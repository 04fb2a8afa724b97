// SPDX-License-Identifier: Apache-2.0

package link

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

// entry writes how packets enter the program and its cubes.
type entry struct {
	linking
	*code
	tracer
	registers
	*turner
}

// prologue emits the start of the program: it initializes md, and chooses the first site.
func (e *entry) prologue() {
	b := e.block("entry")
	b.store(asm.R10, offCtx, asm.R1, asm.DWord)
	b.add(asm.Mov.Reg(asm.R6, asm.R1))
	b.lookupConst(e.m("pcn_counters"), int32(e.c.Page), "lost")
	b.store(asm.R10, offPage, asm.R0, asm.DWord)
	if e.role == OnResume {
		e.resume(b)
		return
	}
	for off := int16(0); off < mdSize; off += 8 {
		b.set(asm.R10, offMD+off, 0, asm.DWord)
	}
	e.length(b)
	e.redirected(b)
	e.traceBegin(b)
	if e.c.Host {
		e.enterHost(b)
		return
	}
	if e.role == OnEgress {
		e.enterEgress(b)
		return
	}
	e.enterIngress(b)
}

// length sets md.packet_len and, at TC, md.traffic_class from the packet in r6.
func (e *entry) length(b *block) {
	switch {
	case e.tc():
		b.load(asm.R1, asm.R6, skbLen, asm.Word)
		b.load(asm.R2, asm.R6, skbMark, asm.Word)
		b.store(asm.R10, mdTrafficClass, asm.R2, asm.Word)
	case e.core.Frags:
		b.add(asm.Mov.Reg(asm.R1, asm.R6), asm.FnXdpGetBuffLen.Call(), asm.Mov.Reg(asm.R1, asm.R0))
	default:
		b.load(asm.R1, asm.R6, xdpDataEnd, asm.Word)
		b.load(asm.R2, asm.R6, xdpData, asm.Word)
		b.add(asm.Sub.Reg(asm.R1, asm.R2))
	}
	b.store(asm.R10, mdLen, asm.R1, asm.Word)
}

// ifindex loads the netdev of the packet in r6 into the key and r1.
func (e *entry) ifindex(b *block) {
	off := int16(skbIfindex)
	if !e.tc() {
		off = xdpIngressIfindex
	}
	b.load(asm.R1, asm.R6, off, asm.Word)
	b.store(asm.R10, offKey, asm.R1, asm.Word)
}

// enterIngress looks up the port of the netdev, counts and goes there.
func (e *entry) enterIngress(b *block) {
	e.ifindex(b)
	b.add(asm.JGE.Imm(asm.R1, Entries, "entry.far"))
	b.lookup(e.m("pcn_entries"), "lost")
	b.mark("entry.found")
	b.add(asm.Mov.Reg(asm.R7, asm.R0))
	b.load(asm.R1, asm.R7, 4, asm.Half) // page
	b.load(asm.R2, asm.R10, offPage, asm.DWord)
	b.add(asm.JNE.Imm(asm.R1, int32(e.c.Page), "entry.page"))
	b.mark("entry.count")
	b.load(asm.R1, asm.R7, 6, asm.Half) // slot
	b.add(asm.JGT.Imm(asm.R1, NoSlot, "lost"),
		asm.LSh.Imm(asm.R1, slotShift), asm.Add.Reg(asm.R2, asm.R1))
	b.count(asm.R2, 0)
	b.load(asm.R1, asm.R7, 2, asm.Half) // port
	b.store(asm.R10, mdInPort, asm.R1, asm.Half)
	b.load(asm.R1, asm.R7, 0, asm.Half) // cube
	e.fill(b)
	e.intoCube(b, func(c *Cube) string {
		if !c.Entry {
			return ""
		}
		return fmt.Sprintf("rx.%d", c.ID)
	}, "elsewhere")
	e.elsewhere(targetRX)

	far := e.block("entry.far")
	far.lookup(e.m("pcn_far_entries"), "lost")
	far.jump("entry.found")

	page := e.block("entry.page")
	page.store(asm.R10, offKey, asm.R1, asm.Word)
	page.lookup(e.m("pcn_counters"), "lost")
	page.add(asm.Mov.Reg(asm.R2, asm.R0))
	page.jump("entry.count")
}

// enterEgress looks up the outermost transparent cube on the netdev.
func (e *entry) enterEgress(b *block) {
	e.ifindex(b)
	b.lookup(e.m("pcn_out_entries"), "lost")
	b.load(asm.R1, asm.R0, 0, asm.Half)
	e.fill(b)
	e.intoCube(b, func(c *Cube) string {
		if !c.Entry || !c.Transparent {
			return ""
		}
		return first(c, cube.Egress).String()
	}, "elsewhere")
	e.elsewhere(targetOut)
}

// enterHost goes to the cube that gets the packets of all netdevs first.
func (e *entry) enterHost(b *block) {
	c, dir := e.c.FromWire, cube.Ingress
	if e.role == OnEgress {
		c, dir = e.c.FromStack, cube.Egress
	}
	if c == nil {
		b.jump("lost")
		return
	}
	e.fill(b)
	b.jump(first(c, dir).String())
}

// resume restores md and continues at the target.
func (e *entry) resume(b *block) {
	b.lookupConst(e.m("pcn_resumes"), 0, "lost")
	for off := int16(0); off < mdReserved-offMD; off += 8 {
		b.load(asm.R1, asm.R0, off, asm.DWord)
		b.store(asm.R10, offMD+off, asm.R1, asm.DWord)
	}
	b.set(asm.R10, mdReserved, 0, asm.DWord)
	e.traceResume(b)
	b.load(asm.R2, asm.R0, mdSize+2, asm.Half) // target
	b.load(asm.R1, asm.R0, mdSize, asm.Half)   // cube
	e.fill(b)
	e.intoCube(b, func(c *Cube) string { return fmt.Sprintf("to.%d", c.ID) }, "lost")
	for _, c := range e.c.Cubes {
		e.targets(c)
	}
}

// intoCube goes to the label of the cube in r1, or elsewhere if that has none here; r2 survives. The number of a cube that
// is one of several alike is in md from here on.
func (e *entry) intoCube(b *block, label func(*Cube) string, elsewhere string) {
	var to []branch
	for _, c := range e.c.Cubes {
		if l := label(c); l != "" {
			to = append(to, branch{int32(c.ID), l})
		}
	}
	if len(to) == 1 && e.c.Cubes[0].Alike {
		if e.role != OnResume { // only the members' rows lead there
			e.member(b, elsewhere)
		}
		b.store(asm.R10, mdCube, asm.R1, asm.Half)
		b.jump(to[0].label)
		return
	}
	b.choose(asm.R1, to, elsewhere)
}

// member goes elsewhere unless the cube in r1 is one of those that the program is for.
func (e *entry) member(b *block, elsewhere string) {
	members := asm.LoadMapValue(asm.R3, 0, 0)
	if err := members.AssociateMap(e.core.Members); err != nil {
		e.err = err
		return
	}
	b.add(asm.JGE.Imm(asm.R1, MaxCubes, elsewhere),
		members,
		asm.Mov.Reg(asm.R4, asm.R1), asm.RSh.Imm(asm.R4, 3), asm.Add.Reg(asm.R3, asm.R4))
	b.load(asm.R3, asm.R3, 0, asm.Byte)
	b.add(asm.Mov.Reg(asm.R4, asm.R1), asm.And.Imm(asm.R4, 7), asm.RSh.Reg(asm.R3, asm.R4), asm.JSet.Imm(asm.R3, 1, "member"))
	b.jump(elsewhere)
	b.mark("member")
}

// targets emits the places where a packet may resume in a cube; r2 is the target.
func (e *entry) targets(c *Cube) {
	var to []branch
	programs := func(target int32, dir cube.Direction) {
		for _, p := range c.programs(dir) {
			at := place{site{c, dir, p.Index}, 0}
			to = append(to, branch{target | int32(p.Index)<<targetShift, at.String()})
		}
	}
	programs(targetIn, cube.Ingress)
	programs(targetOut, cube.Egress)
	if c.Transparent {
		to = append(to,
			branch{targetInNext, nextLabel(first(c, cube.Ingress))},
			branch{targetOutNext, nextLabel(first(c, cube.Egress))},
			branch{targetRX, fmt.Sprintf("rx.%d", c.ID)})
	} else {
		to = append(to,
			branch{targetRX, fmt.Sprintf("rx.%d", c.ID)},
			branch{targetTX, txLabel(first(c, cube.Ingress))},
			branch{targetNamespace, namespaceLabel(c)},
			branch{targetOffer, offeredLabel(c)})
	}
	slices.SortFunc(to, func(a, b branch) int { return cmp.Compare(a.value, b.value) })
	e.block("to.%d", c.ID).choose(asm.R2, to, "lost")
}

// rx emits the destination of a packet that entered a cube at md.in_port.
func (e *entry) rx(c *Cube) {
	b := e.block("rx.%d", c.ID)
	e.sentByNamespace(b, c)
	in := first(c, cube.Ingress).String()
	if c.Stacks {
		stack := e.block("rx.%d.stack", c.ID)
		stack.load(asm.R1, asm.R10, mdInPort, asm.Half)
		e.stacked(stack, c, in)
		stack.jump(e.edge(targetIn))
		in = stack.label
	}
	if c.Transparent || len(c.Ports) == 0 {
		b.jump(in)
		return
	}
	var to []branch
	for _, p := range c.Ports {
		if n := len(p.Tcubes); n > 0 {
			to = append(to, branch{int32(p.Index), e.entrance(p.Tcubes[n-1])})
		}
	}
	b.load(asm.R1, asm.R10, mdInPort, asm.Half)
	b.choose(asm.R1, to, in)
}

// entrance is the label of a transparent cube's first ingress program.
func (e *entry) entrance(t *Cube) string {
	if t.Foreign {
		return e.turn(turn{entrance(t, cube.Ingress), turnCross})
	}
	return first(t, cube.Ingress).String()
}
