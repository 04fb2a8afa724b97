// SPDX-License-Identifier: Apache-2.0

package link

import "github.com/cilium/ebpf/asm"

// A redirect at XDP passes no TC hook, where the egress programs of transparent cubes on netdevs see what the host sends. So
// the exit to a netdev with such cubes leads to the outermost one instead, by an edge that is data: its egress program runs,
// then those of the others, and the innermost one redirects to the netdev. A packet passes each cube once, here or at TC.

// exitEgress is PCN_EXIT_EGRESS, outputEgress PCN_OUTPUT_EGRESS.
const (
	exitEgress   = 1 << 30
	outputEgress = 0x100
)

// exitEgress emits the crossing from a port to such a cube, by the row of the port in r7 and its first word in r8.
func (x *exits) exitEgress() {
	if x.tc() {
		return
	}
	b := x.block("exit.egress")
	x.countRow(b, slotTx)
	b.add(asm.Mov.Reg(asm.R6, asm.R8), asm.RSh.Imm(asm.R6, 16), asm.And.Imm(asm.R6, MaxCubes-1))
	x.ownKey(b)
	b.lookup(x.m("pcn_exits"), "nopeer")
	b.load(asm.R8, asm.R0, 0, asm.Word)
	x.toEgress(b)

	own := x.block("own") // from the innermost of those cubes, in r6
	if x.c.Host {
		x.backToNetdev(own)
		return
	}
	x.ownKey(own)
	own.load(asm.R8, asm.R10, mdPassIfindex, asm.Word)
	x.toDevice(own, reasonPass, "nopeer")
}

// backToNetdev emits the redirect at XDP to the netdev in md, which a cube at the host's stack, in r6, has turned a packet
// back to. It may be any netdev, and pcn_devices has only those of edges.
func (x *exits) backToNetdev(b *block) {
	x.refuseFrags(b)
	b.load(asm.R1, asm.R10, mdPassIfindex, asm.Word)
	b.add(asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.JNE.Imm(asm.R0, xdpRedirect, "nopeer"))
	x.countFate(b, reasonPass)
	x.traceLeave(b)
	b.leave(xdpRedirect)
}

// ownKey puts the key of the exit of the cube in r6 to its netdev where lookups find it.
func (x *exits) ownKey(b *block) {
	b.add(asm.Mov.Reg(asm.R1, asm.R6), asm.Mul.Imm(asm.R1, MaxPorts), asm.Or.Imm(asm.R1, OwnExit))
	b.store(asm.R10, offKey, asm.R1, asm.Word)
}

// toDevice emits the redirect at XDP to the netdev in r8, by the key that is on the stack, and counts a fate of the cube in r6.
// Where the kernel has no such netdev, the packet goes to the label none.
func (x *exits) toDevice(b *block, fate int16, none string) {
	x.refuseFrags(b)
	b.load(asm.R2, asm.R10, offKey, asm.Word)
	b.add(mapPtr(asm.R1, x.m("pcn_devices")), asm.Mov.Imm(asm.R3, xdpDrop),
		asm.FnRedirectMap.Call(), asm.JNE.Imm(asm.R0, xdpRedirect, none))
	x.countFate(b, fate)
	x.traceLeave(b)
	b.leave(xdpRedirect)
}

// toEgress emits the crossing to the cube in r6 on the netdev in r8.
func (x *exits) toEgress(b *block) {
	b.store(asm.R10, mdPassIfindex, asm.R8, asm.Word) // to which it belongs on its way to user space, or turned back
	b.set(asm.R10, mdOutPort, 0, asm.Half)
	if x.role == OnResume {
		flag(b, 0)
	}
	b.jump(x.edge(targetOut))
}

// outputEgress emits the crossing from an output to such a cube, by its row in r7 and the netdev in r8, and returns its label.
func (x *exits) outputEgress() string {
	b := x.block("output.egress")
	x.countFate(b, reasonRedirected)
	b.load(asm.R6, asm.R7, 6, asm.Half)
	x.toEgress(b)
	return b.label
}
