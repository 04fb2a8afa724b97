// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

// An offer shows a packet that is addressed to a standard cube itself to the transparent cubes of one of its ports, and
// brings it back unless one of them turns it. Both ways are tail calls, so md.flags can say "offered" or "turned" in
// resume programs only: the checks are in those, and packets that are merely forwarded execute none.

const (
	verdictOffer = 9
	targetOffer  = 7
	// PCN_MD_TURNED, PCN_MD_OFFERED and PCN_MD_FROM, the port where the cube received the offered packet. md.flags
	// belong to the framework, and are restored after a cube that may have written to them.
	mdTurned, mdOffered = 0x10, 0x20
	mdFrom              = 7
	mdTrace             = 0xf
)

func offerLabel(at place) string { return fmt.Sprintf("offer.%d.%d", at.cube.ID, at.sweep) }

// offeredLabel is the destination of a packet that the cube's control plane offers: the cube itself if that has no
// offers.
func offeredLabel(c *Cube) string {
	if c.Offers {
		return offerLabel(first(c, cube.Ingress))
	}
	return first(c, cube.Ingress).String()
}

// flag sets flags of md in addition to those of tracing.
func flag(b *block, bits int32) {
	b.load(asm.R1, asm.R10, mdFlags, asm.Half)
	b.add(asm.And.Imm(asm.R1, mdTrace))
	if bits != 0 {
		b.add(asm.Or.Imm(asm.R1, bits))
	}
	b.store(asm.R10, mdFlags, asm.R1, asm.Half)
}

// unflag clears them where a packet leaves a standard cube by a port that is code: to the next cube it is like any
// other.
func (g *generator) unflag(b *block) {
	if g.role == OnResume {
		flag(b, 0)
	}
}

// ifOffered jumps to a label if the packet was offered; R1 has the flags then.
func ifOffered(b *block, label string) {
	b.load(asm.R1, asm.R10, mdFlags, asm.Half)
	b.add(asm.JSet.Imm(asm.R1, mdOffered, label))
}

// offer emits the path of a packet that a standard cube offers, by md.out_port. From a port none of whose transparent
// cubes takes offers it returns at once.
func (g *generator) offer(at place) {
	c := at.cube
	if !c.Offers {
		return
	}
	b := g.block("%s", offerLabel(at))
	scrub(b, c)
	flag(b, mdOffered)
	b.load(asm.R2, asm.R10, mdInPort, asm.Half)
	b.add(asm.LSh.Imm(asm.R2, mdFrom), asm.Or.Reg(asm.R1, asm.R2))
	b.store(asm.R10, mdFlags, asm.R1, asm.Half)
	g.left(b, asm.R1, mdOutPort)
	var to []branch
	for _, p := range c.Ports {
		if p.Takes {
			to = append(to, branch{int32(p.Index), g.turn(turn{entrance(p.Tcubes[0], cube.Egress), turnCall})})
		}
	}
	b.choose(asm.R1, to, g.turn(turn{entrance(c, cube.Ingress), turnCall}))
}

// declined emits the return of an offered packet to its cube, on the port where it came in: after the last transparent
// cube that takes offers and, whatever changed meanwhile, before it would leave the port.
func (g *generator) declined(b *block, at place, n Next) {
	c := at.cube
	if g.role != OnResume || at.dir != cube.Egress || c.OfferedBy == nil || !c.LastTaker && n.Kind != ToPeer {
		return
	}
	back := &block{label: fmt.Sprintf("declined.%d.%d", c.ID, at.sweep)}
	back.add(asm.RSh.Imm(asm.R1, mdFrom)) // the flags
	back.store(asm.R10, mdInPort, asm.R1, asm.Half)
	scrub(back, c)
	back.jump(g.turn(turn{entrance(c.OfferedBy, cube.Ingress), turnCall}))
	g.later(back)
	ifOffered(b, back.label)
}

// show emits the copies of a received packet for others, and returns the next block. An offered packet has been shown
// when it came in.
func (g *generator) show(b *block, at place) *block {
	c := at.cube
	shown := c.Span || slices.ContainsFunc(g.sessions(captures), func(s Session) bool { return s.Capture.Cube == c.ID })
	again := g.role == OnResume && c.Offers && at.dir == cube.Ingress && at.index == 0 && shown
	seen := at.String() + ".seen"
	if again {
		ifOffered(b, seen)
	}
	g.spanIn(b, at)
	g.captureIn(b, at)
	if !again {
		return b
	}
	b.jump(seen)
	return g.block("%s", seen)
}
