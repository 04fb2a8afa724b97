// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

func siteLabel(s site) string {
	return fmt.Sprintf("%s.%d", [...]string{"in", "out"}[s.dir], s.cube.ID)
}

// site emits a cube's program and what is done with its verdict.
func (g *generator) site(s site) {
	c, name := s.cube, siteLabel(s)
	b := g.block("%s", name)
	if c.Transparent || s.dir == cube.Ingress {
		g.visit(b, c)
	}
	f := c.function(s.dir)
	b.args()
	done := name + ".done"
	if g.mode == Inline {
		if err := g.inline(b, s, f, done); err != nil && g.err == nil {
			g.err = err
		}
	} else {
		b.call(s.symbol(f.Name))
		b.jump(done)
	}
	g.verdict(s, g.block("%s", done))
}

// visit counts a cube visited, and takes the words of the cube before out of md.
func (g *generator) visit(b *block, c *Cube) {
	b.load(asm.R1, asm.R10, mdHops, asm.Half)
	b.add(asm.JGE.Imm(asm.R1, int32(g.c.Hops), fmt.Sprintf("hop.%d", c.ID)), asm.Add.Imm(asm.R1, 1))
	b.store(asm.R10, mdHops, asm.R1, asm.Half)
	b.set(asm.R10, mdReason, 0, asm.Half)
	b.set(asm.R10, mdWords, 0, asm.DWord)
	b.set(asm.R10, mdWords+8, 0, asm.DWord)
}

// verdict emits the dispatch on what a program returned, the common case first.
func (g *generator) verdict(s site, b *block) {
	id := s.cube.ID
	other := fmt.Sprintf("%s.other", siteLabel(s))
	o := &block{label: other}
	switch {
	case s.cube.Transparent:
		b.add(asm.JNE.Imm32(asm.R0, verdictPass, other))
		b.jump(fmt.Sprintf("%snext.%d", [...]string{"in", "out"}[s.dir], id))
	case s.dir == cube.Egress:
		b.add(asm.JNE.Imm32(asm.R0, verdictPass, other))
		b.jump(fmt.Sprintf("wire.%d", id))
	default:
		b.add(asm.JNE.Imm32(asm.R0, verdictSend, other))
		b.jump(txLabel(s.cube))
		o.add(asm.JEq.Imm32(asm.R0, verdictFlood, fmt.Sprintf("flood.%d", id)),
			asm.JEq.Imm32(asm.R0, verdictPass, fmt.Sprintf("stack.%d", id)))
	}
	o.add(asm.JEq.Imm32(asm.R0, verdictController, fmt.Sprintf("up.%s", siteLabel(s))),
		asm.JEq.Imm32(asm.R0, verdictDrop, fmt.Sprintf("drop.%d", id)))
	o.jump(fmt.Sprintf("badverdict.%d", id))
	g.afterSite(s)

	up := &block{label: "up." + siteLabel(s)}
	g.cold = append(g.cold, o, up)
	up.args()
	up.add(asm.Mov.Imm(asm.R3, s.who()))
	up.call("pcn_core_up")
	up.leave(g.drop())
}

// afterSite emits the ways on from a site, right behind it so that the hot path falls through.
func (g *generator) afterSite(s site) {
	c := s.cube
	switch {
	case c.Transparent && s.dir == cube.Ingress:
		g.next(g.block("innext.%d", c.ID), s, c.NextIn)
	case c.Transparent:
		g.next(g.block("outnext.%d", c.ID), s, c.NextOut)
	case s.dir == cube.Ingress && c.has(cube.Egress):
		g.jumpTo(g.block("%s", txLabel(c)), s, site{c, cube.Egress})
	default:
		g.wire(c)
		g.ports(c, s)
	}
}

// txLabel is where a packet goes that a standard cube sends to md.out_port.
func txLabel(c *Cube) string {
	if c.has(cube.Egress) {
		return fmt.Sprintf("tx.%d", c.ID)
	}
	return fmt.Sprintf("wire.%d", c.ID)
}

// ports emits the ways out of a standard cube that are code; s is its last site.
func (g *generator) ports(c *Cube, s site) {
	for _, p := range c.Ports {
		b := g.block("port.%d.%d", c.ID, p.Index)
		if len(p.Tcubes) > 0 {
			g.jumpTo(b, s, site{p.Tcubes[0], cube.Egress})
			continue
		}
		g.peer(b, s, c, p)
	}
}

// wire emits the choice of the output port: code for the ports that lead to programs, the
// table of exits for those that lead to netdevs.
func (g *generator) wire(c *Cube) {
	b := g.block("wire.%d", c.ID)
	b.load(asm.R1, asm.R10, mdOutPort, asm.Half)
	var to []branch
	for _, p := range c.Ports {
		to = append(to, branch{int32(p.Index), fmt.Sprintf("port.%d.%d", c.ID, p.Index)})
	}
	b.choose(asm.R1, to, fmt.Sprintf("exit.%d", c.ID))
	e := g.block("exit.%d", c.ID)
	e.add(asm.JGE.Imm(asm.R1, MaxPorts, fmt.Sprintf("badport.%d", c.ID)),
		asm.Or.Imm(asm.R1, int32(c.ID)*MaxPorts),
		asm.Mov.Imm(asm.R6, int32(c.ID)))
	e.jump("exit")
}

// peer emits the crossing from a port to its peer.
func (g *generator) peer(b *block, s site, c *Cube, p *Port) {
	if p.Peer == nil {
		b.add(asm.Mov.Imm(asm.R1, int32(c.ID)*MaxPorts+int32(p.Index)),
			asm.Mov.Imm(asm.R6, int32(c.ID)))
		b.jump("exit")
		return
	}
	g.countEdge(b, p, 16)
	g.countEdge(b, p.PeerPort, 0)
	b.set(asm.R10, mdInPort, int32(p.PeerPort.Index), asm.Half)
	g.jumpTo(b, s, p.PeerPort.arrival(p.Peer)[0])
}

// countEdge counts the packet on a port, received (0) or sent (16).
func (g *generator) countEdge(b *block, p *Port, off int16) {
	at := int16(p.Slot)*slotSize + off
	if p.Page == g.c.Page {
		b.load(asm.R2, asm.R10, offPage, asm.DWord)
		b.count(asm.R2, at)
		return
	}
	skip := b.local()
	b.lookupConst(g.m("pcn_counters"), int32(p.Page), skip)
	b.count(asm.R0, at)
	b.mark(skip)
}

// next emits the way on behind a transparent cube.
func (g *generator) next(b *block, s site, n Next) {
	switch n.Kind {
	case ToCube:
		g.jumpTo(b, s, site{n.Cube, s.dir})
	case ToPort:
		b.set(asm.R10, mdInPort, int32(n.Port), asm.Half)
		g.jumpTo(b, s, site{n.Cube, cube.Ingress})
	case ToEntry:
		b.set(asm.R10, mdInPort, int32(n.Port), asm.Half)
		g.jumpTo(b, s, n.sites(s.dir)[0])
	case ToPeer:
		g.peer(b, s, n.Cube, n.Cube.port(n.Port))
	case ToHook:
		to := "stack"
		if s.dir == cube.Egress {
			to = "hook"
		}
		b.jump(fmt.Sprintf("%s.%d", to, s.cube.ID))
	}
}

// jumpTo goes to another site: forward by a jump, back by a tail call to the resume program
// of this generation, which keeps the verifier's work linear.
func (g *generator) jumpTo(b *block, from, to site) {
	if g.index[to] > g.index[from] {
		b.jump(siteLabel(to))
		return
	}
	target := int32(targetIn)
	if to.dir == cube.Egress {
		target = targetOut
	}
	hop := fmt.Sprintf("hop.%d", to.cube.ID)
	b.lookupConst(g.m("pcn_resumes"), 0, hop)
	for off := int16(0); off < mdSize; off += 8 {
		b.load(asm.R1, asm.R10, offMD+off, asm.DWord)
		b.store(asm.R0, off, asm.R1, asm.DWord)
	}
	b.set(asm.R0, mdSize, int32(to.cube.ID), asm.Half)
	b.set(asm.R0, mdSize+2, target, asm.Half)
	b.load(asm.R1, asm.R10, offCtx, asm.DWord)
	b.add(mapPtr(asm.R2, g.core.Generation), asm.Mov.Imm(asm.R3, 0), asm.FnTailCall.Call())
	b.jump(hop) // the kernel's limit of tail calls
}
