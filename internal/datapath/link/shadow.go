// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

// A shadow cube has a network namespace in which its ports are interfaces. Packets that its programs send to the
// namespace leave through the table of those interfaces; packets from programs in the namespace enter like those of any
// netdev, through a row that says that the port sends them.

const (
	verdictNamespace = 6
	reasonNamespace  = 12
	targetNamespace  = 6
	sentFlag         = 0x8000 // PCN_SENT
)

// SentPort returns the port field of an entry for packets that the cube's namespace sends through it.
func SentPort(index uint16) uint16 { return index | sentFlag }

func namespaceLabel(c *Cube) string { return fmt.Sprintf("namespace.%d", c.ID) }

// toNamespace emits the test for the verdict; transparent cubes do not have it.
func (g *generator) toNamespace(b *block, at place) {
	if !at.cube.Transparent {
		b.add(asm.JEq.Imm32(asm.R0, verdictNamespace, namespaceLabel(at.cube)))
	}
}

// namespace emits the path of a cube's packets into its namespace, by md.out_port.
func (x *exits) namespace(c *Cube) {
	b := x.block("%s", namespaceLabel(c))
	b.number(asm.R6, c, 0)
	if !c.Shadow || !x.tc() {
		b.jump("nopeer")
		return
	}
	x.left(b, asm.R1, mdOutPort)
	b.add(asm.JGE.Imm(asm.R1, MaxPorts, fmt.Sprintf("badport.%d", c.ID)),
		asm.Or.Imm(asm.R1, int32(c.ID)*MaxPorts))
	b.jump("shadow")
}

// enterNamespace emits the code that shadow cubes share: r1 is the key in the table of the namespaces' interfaces, r6
// the cube.
func (x *exits) enterNamespace() {
	shadows := false
	for _, c := range x.c.Cubes {
		shadows = shadows || c.Shadow
	}
	if !shadows || !x.tc() {
		return
	}
	b := x.block("shadow")
	b.store(asm.R10, offKey, asm.R1, asm.Word)
	b.lookup(x.m("pcn_shadows"), "nopeer")
	b.load(asm.R8, asm.R0, 0, asm.Word) // ifindex
	x.traceLeave(b)
	x.countFate(b, reasonNamespace)
	b.add(asm.Mov.Reg(asm.R1, asm.R8), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return())
}

// sentByNamespace emits the destination of a packet that a shadow cube's namespace sends: out of the port.
func (e *entry) sentByNamespace(b *block, c *Cube) {
	if !c.Shadow {
		return
	}
	sent := e.block("sent.%d", c.ID)
	sent.add(asm.And.Imm(asm.R1, MaxPorts-1))
	sent.store(asm.R10, mdInPort, asm.R1, asm.Half)
	sent.store(asm.R10, mdOutPort, asm.R1, asm.Half)
	sent.jump(txLabel(first(c, cube.Ingress)))
	b.load(asm.R1, asm.R10, mdInPort, asm.Half)
	b.add(asm.JSet.Imm(asm.R1, sentFlag, sent.label))
}

// spanIn emits the copy of a received packet, before the cube's program sees it.
func (l linking) spanIn(b *block, at place) {
	if at.cube.Span && at == (place{entrance(at.cube, cube.Ingress), at.sweep}) {
		l.span(b, int32(at.cube.ID))
	}
}

// spanOut emits the copy of a sent packet, after the cube's program.
func (l linking) spanOut(b *block, c *Cube) {
	if c.Span {
		l.span(b, int32(c.ID)|1<<16)
	}
}

func (l linking) span(b *block, who int32) {
	if !l.tc() {
		return
	}
	b.args()
	b.add(asm.Mov.Imm(asm.R3, who))
	b.call("pcn_core_span")
}
