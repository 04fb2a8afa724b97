// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

// The framework executes a flood to a set of ports except for the last copy, which is the packet itself and is sent
// normally. Only programs with a cube that uses sets have the code and the maps for it.

const (
	verdictFloodSet = 7
	// toSet is the stub that pcn_pkt_flood_set calls, which identifies cubes that use sets.
	toSet = "pcn_core_to_set"
	// throughPrograms marks a call for a cube each copy of whose floods must run programs (THROUGH_EGRESS).
	throughPrograms = 1 << 17
)

func floodSetLabel(at place) string { return fmt.Sprintf("floodset.%d.%d", at.cube.ID, at.sweep) }

// floodsSets reports whether a cube's ingress programs may flood to sets.
func (c *Cube) floodsSets() bool {
	for _, p := range c.programs(cube.Ingress) {
		if _, calls := p.Function.Callees[toSet]; calls {
			return true
		}
	}
	return false
}

// Captures reports whether anything that a cube sends is captured. All copies of its floods to sets then go through
// programs, to the place of the capture.
func (t *Trace) Captures(id uint16) bool {
	return t != nil && slices.ContainsFunc(t.Sessions, func(s Session) bool { return captures(s) && s.Capture.Cube == id })
}

// throughEgress is the flag in a framework call for a cube each copy of whose floods must go through programs: the
// cube's egress program, or the copy for its namespace.
func (c *Cube) throughEgress() int32 {
	if c.has(cube.Egress) || c.Span {
		return throughPrograms
	}
	return 0
}

// floodSet emits the replication to the ports of a set.
func (g *generator) floodSet(at place) {
	c := at.cube
	if !c.floodsSets() {
		return
	}
	b := g.block("%s", floodSetLabel(at))
	b.args()
	bits := c.throughEgress()
	if g.c.Trace.Captures(c.ID) {
		bits |= throughPrograms
	}
	b.number(asm.R3, c, bits)
	b.call("pcn_core_flood_set")
	b.add(asm.JEq.Imm32(asm.R0, -1, txLabel(at)))
	if g.tc() {
		b.jump("leave")
		return
	}
	b.add(asm.JNE.Imm32(asm.R0, -2, "leave"))
	b.args()
	b.number(asm.R3, c, 0)
	b.call("pcn_core_set_up")
	b.add(asm.Return())
}
