// SPDX-License-Identifier: Apache-2.0

package pcapfilter

// The code of a program that reads the packet directly: a load is five instructions, where a call of a helper costs
// more than the rest of most filters. What cannot be read so (a tag in the skb, bytes in fragments or in further
// buffers, a packet that ends early) is left to the function that reads by calls, from the start: filters have no
// side effects.

import (
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

const (
	regData = asm.R4
	regEnd  = asm.R5
	// reach is the highest offset that is read directly. The verifier knows no packet above 64 KB.
	reach = 0x7fff - 4
)

// Members of struct __sk_buff and struct xdp_md.
const (
	skbLen         = 0
	skbVLANPresent = 20
	skbData        = 76
	skbDataEnd     = 80
	xdpData        = 0
	xdpDataEnd     = 4
)

// verdictPass is PCN_PASS.
const verdictPass = 0

// functionAny is the function of <pcn/filter.h> that reads by calls.
const functionAny = "pcn_filter_any"

// direct is what is different in a program that reads directly.
type direct struct {
	hook cube.Hook
	name string
	// The ends to which the code jumps.
	yes, pass, any bool
}

// program returns the code of a program int(ctx, md) that calls a function int(ctx, first, second) for packets that pass
// the filter, all of them if it is nil, and returns PCN_PASS.
func (f *Filter) program(hook cube.Hook, name string, then Action) asm.Instructions {
	d := &direct{hook: hook, name: name}
	t := &translator{name: name, direct: d, targets: map[int]bool{}}
	t.add(asm.Mov.Reg(regCtx, asm.R1).WithSymbol(name))
	switch {
	case f == nil:
		d.yes = true
	case f.reaches():
		d.begin(t)
		t.program(f.prog)
	default:
		d.any, d.pass = true, true
	}
	d.end(t, then)
	return t.out
}

// reaches reports whether all bytes at constant offsets can be read directly.
func (f *Filter) reaches() bool {
	return !slices.ContainsFunc(f.prog, func(i instruction) bool {
		return i.loadsPacket() && i.code&modeMask != modeIND && i.k > reach
	})
}

func (d *direct) to(end string) string { return d.name + "." + end }

// begin leaves packets with a tag in the skb to the other function, which knows where the tag is on the wire.
func (d *direct) begin(t *translator) {
	if d.hook == cube.TC {
		d.any = true
		t.add(asm.LoadMem(asm.R1, regCtx, skbVLANPresent, asm.Word), asm.JNE.Imm(asm.R1, 0, d.to("any")))
	}
	t.add(asm.Mov.Imm32(regA, 0), asm.Mov.Imm32(regX, 0))
	d.bounds(t)
}

// bounds reads where the packet is.
func (d *direct) bounds(t *translator) {
	data, end := int16(skbData), int16(skbDataEnd)
	if d.hook == cube.XDP {
		data, end = xdpData, xdpDataEnd
	}
	t.add(asm.LoadMem(regData, regCtx, data, asm.Word), asm.LoadMem(regEnd, regCtx, end, asm.Word))
}

// load reads a field.
func (d *direct) load(t *translator, ins instruction, to asm.Register) {
	width := int32(ins.bytes())
	d.any = true
	from, at := regData, int16(0)
	if ins.code&modeMask == modeIND {
		t.add(asm.Mov.Reg32(asm.R1, regX), asm.Add.Imm32(asm.R1, int32(ins.k)), asm.JGT.Imm(asm.R1, reach, d.to("any")),
			asm.Mov.Reg(asm.R2, regData), asm.Add.Reg(asm.R2, asm.R1), asm.Mov.Reg(asm.R3, asm.R2), asm.Add.Imm(asm.R3, width))
		from = asm.R2
	} else {
		at = int16(ins.k)
		t.add(asm.Mov.Reg(asm.R3, regData), asm.Add.Imm(asm.R3, int32(ins.k)+width))
	}
	size := map[int32]asm.Size{1: asm.Byte, 2: asm.Half, 4: asm.Word}[width]
	t.add(asm.JGT.Reg(asm.R3, regEnd, d.to("any")), asm.LoadMem(to, from, at, size))
	if size != asm.Byte {
		t.add(asm.HostTo(asm.BE, to, size))
	}
}

// length reads the length of the packet. At TC no tag is in the skb here.
func (d *direct) length(t *translator, to asm.Register) {
	if d.hook == cube.TC {
		t.add(asm.LoadMem(to, regCtx, skbLen, asm.Word))
		return
	}
	t.add(asm.Mov.Reg(asm.R1, regCtx), asm.FnXdpGetBuffLen.Call(), asm.Mov.Reg32(to, asm.R0))
	d.bounds(t)
}

// leave ends the filter.
func (d *direct) leave(t *translator, ins instruction) {
	switch {
	case ins.code&retA != 0:
		d.yes, d.pass = true, true
		t.add(jump32(asm.JNE, regA, 0, d.to("yes")), asm.Ja.Label(d.to("pass")))
	case ins.k == 0:
		d.pass = true
		t.add(asm.Ja.Label(d.to("pass")))
	default:
		d.yes = true
		t.add(asm.Ja.Label(d.to("yes")))
	}
}

// end adds the ends that the code jumps to: the kernel refuses unreachable code.
func (d *direct) end(t *translator, then Action) {
	if t.fails {
		t.next = d.to("no")
		t.add(asm.Ja.Label(d.to("pass")))
	}
	if d.any {
		d.yes = true
		t.next = d.to("any")
		t.add(asm.Mov.Reg(asm.R1, regCtx), asm.Call.Label(functionAny), jump32(asm.JEq, asm.R0, 0, d.to("pass")))
	}
	if d.yes {
		t.next = d.to("yes")
		t.add(asm.Mov.Reg(asm.R1, regCtx), asm.Mov.Imm32(asm.R2, int32(then.First)), asm.Mov.Imm32(asm.R3, int32(then.Second)),
			asm.Call.Label(then.Function))
	}
	t.next = d.to("pass")
	t.add(asm.Mov.Imm(asm.R0, verdictPass), asm.Return())
}
