// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"
)

// A redirect ends the path of a packet in a transparent cube and sends it to one of the cube's outputs, whose destinations
// are rows of the table of exits: netdevs come and go, and cubes are connected, without a relink. Only programs with a cube
// that redirects have the code.

// Outputs is the number of outputs of a transparent cube, the value of pcn_outputs in verdict.h.
const Outputs = 16

// outputNetdev and outputNeigh are PCN_OUTPUT_NETDEV and PCN_OUTPUT_NEIGH.
const (
	outputNetdev = 0xfffe
	outputNeigh  = 0xffff
)

// OwnExit is PCN_EXIT_OWN: the place of a transparent cube's exit to the netdev that it is on, after its outputs (XDP).
const OwnExit = 16

// OutputsConstant is the constant that pcn_pkt_redirect reads.
const OutputsConstant = "pcn_outputs"

// netdevsConstant is the constant that pcn_pkt_redirect_netdev reads.
const netdevsConstant = "pcn_netdevs"

const (
	verdictRedirect  = 10
	reasonRedirected = 15
	reasonNoOutput   = 16
	// redirectMark is PCN_REDIRECTED: the upper byte of skb->tc_index of a packet that was redirected to a netdev. The
	// lower one is md.hops.
	redirectMark = 0x9d
	// egressHops are the hops of a redirect where packets leave a netdev (TC): the kernel sends within such a redirect,
	// and silently drops what is nested more than eight deep.
	egressHops = DefaultHops / 4
)

func redirectLabel(c *Cube) string { return fmt.Sprintf("redirect.%d", c.ID) }

// redirects reports whether the programs of a cube may redirect packets.
func (c *Component) redirects() bool {
	return slices.ContainsFunc(c.Cubes, func(lc *Cube) bool { return lc.Redirects })
}

// redirectsToHost reports whether, at TC, the programs of a cube may redirect packets to any netdev of the host.
func (c *Cube) redirectsToHost() bool {
	return c.Redirects && slices.ContainsFunc(c.objects(), func(o *Object) bool { return o.Reads(netdevsConstant) })
}

// redirect emits the start of a redirect, by the output in md.out_port.
func (x *exits) redirect(c *Cube) {
	b := x.block("%s", redirectLabel(c))
	b.number(asm.R6, c, 0)
	x.left(b, asm.R1, mdOutPort)
	if x.tc() && c.redirectsToHost() {
		b.add(asm.JGE.Imm32(asm.R1, outputNetdev, "output.netdev"))
	}
	b.add(asm.JGE.Imm(asm.R1, Outputs, "nooutput"))
	b.exitKey(asm.R1, asm.R2, c)
	b.jump("output")
}

// redirectTails emits what all redirects share: r1 is the key in the table of exits, r6 the cube.
func (x *exits) redirectTails() {
	if !x.c.redirects() {
		return
	}
	b := x.block("output")
	b.store(asm.R10, offKey, asm.R1, asm.Word)
	b.lookup(x.m("pcn_exits"), "nooutput")
	b.add(asm.Mov.Reg(asm.R7, asm.R0))
	b.load(asm.R8, asm.R7, 0, asm.Word) // ifindex
	b.add(asm.JEq.Imm(asm.R8, 0, "nooutput"), asm.JSLT.Imm32(asm.R8, 0, x.redirectCube()))
	if x.tc() {
		x.redirectTC(b)
		b.add(asm.Mov.Reg(asm.R1, asm.R8))
		b.load(asm.R2, asm.R7, 4, asm.Half)
		b.add(asm.FnRedirect.Call(), asm.Return())
		if slices.ContainsFunc(x.c.Cubes, (*Cube).redirectsToHost) {
			x.redirectNetdev()
		}
	} else {
		x.redirectXDP(b)
	}
	x.dropAtExit("nooutput", reasonNoOutput)
}

// redirectNetdev emits the redirect to the netdev of md.md[0], or to a neighbour there.
func (x *exits) redirectNetdev() {
	b := x.block("output.netdev")
	b.load(asm.R8, asm.R10, mdWords, asm.Word)
	b.add(asm.JEq.Imm(asm.R8, 0, "nooutput"))
	x.redirectTC(b)
	x.left(b, asm.R5, mdOutPort)
	b.add(asm.Mov.Reg(asm.R1, asm.R8), asm.Mov.Imm(asm.R2, 0), asm.JEq.Imm32(asm.R5, outputNeigh, "output.neigh"),
		asm.FnRedirect.Call(), asm.Return())
	b = x.block("output.neigh")
	b.add(asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, 0), asm.FnRedirectNeigh.Call(), asm.Return())
}

// redirectTC emits what is in front of the redirect to the netdev in r8.
func (x *exits) redirectTC(b *block) {
	hops := int32(1)
	if x.role == OnEgress {
		hops = egressHops
	}
	b.load(asm.R1, asm.R10, mdHops, asm.Half)
	b.add(asm.Add.Imm(asm.R1, hops), asm.JGE.Imm(asm.R1, int32(x.c.Hops), "edge.hop"))
	b.load(asm.R2, asm.R10, offCtx, asm.DWord)
	b.add(asm.Or.Imm(asm.R1, redirectMark<<8))
	b.store(asm.R2, skbTCIndex, asm.R1, asm.Word)
	b.load(asm.R1, asm.R10, mdTrafficClass, asm.Word)
	b.store(asm.R2, skbMark, asm.R1, asm.Word)
	x.countFate(b, reasonRedirected)
	x.traceLeave(b)
}

// redirectXDP emits the redirect by the key that is on the stack.
func (x *exits) redirectXDP(b *block) {
	b.load(asm.R1, asm.R7, 4, asm.Half)
	b.add(asm.JEq.Imm(asm.R1, outputEgress, x.outputEgress()))
	x.toDevice(b, reasonRedirected, "nooutput")
}

// redirectCube emits the redirect to a port of a cube, by the row in r7 and its first word in r8, and returns its label. On
// the way out of the netdev of a cube at XDP, no cube at XDP can be reached.
func (x *exits) redirectCube() string {
	if x.c.Companion {
		return "nooutput"
	}
	b := x.block("output.cube")
	x.countFate(b, reasonRedirected)
	x.toCube(b, 0)
	return b.label
}

// countFate counts a packet of the cube in r6 with a fate.
func (x *exits) countFate(b *block, reason int16) {
	skip := b.local()
	b.store(asm.R10, offKey, asm.R6, asm.Word)
	b.lookup(x.m("pcn_fates"), skip)
	b.load(asm.R1, asm.R0, reason*8, asm.DWord)
	b.add(asm.Add.Imm(asm.R1, 1))
	b.store(asm.R0, reason*8, asm.R1, asm.DWord)
	b.mark(skip)
}

// redirected sets md.hops of a packet that comes from a redirect, in r6, and removes its mark.
func (e *entry) redirected(b *block) {
	if !e.tc() || !e.c.redirects() {
		return
	}
	skip := b.local()
	b.load(asm.R1, asm.R6, skbTCIndex, asm.Word)
	b.add(asm.Mov.Reg(asm.R2, asm.R1), asm.RSh.Imm(asm.R2, 8), asm.JNE.Imm(asm.R2, redirectMark, skip),
		asm.And.Imm(asm.R1, DefaultHops-1))
	b.store(asm.R10, mdHops, asm.R1, asm.Half)
	b.add(asm.Mov.Imm(asm.R1, 0))
	b.store(asm.R6, skbTCIndex, asm.R1, asm.Word)
	b.mark(skip)
}
