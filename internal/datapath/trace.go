// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"slices"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/link"
)

// trace gives the segment the sessions that concern it, and makes them part of its fingerprint:
// a graph with other sessions links anew what they concern, and nothing else.
func (b *builder) trace() {
	if b.Graph.Trace == nil {
		return
	}
	var mine []link.Session
	for _, s := range b.Graph.Trace.Sessions {
		if !b.concerns(s) {
			continue
		}
		mine = append(mine, s)
		fmt.Fprintf(&b.print, "trace %d cube %d capture %v", s.Bit, s.Cube, s.Capture != nil)
		if s.Capture != nil {
			fmt.Fprintf(&b.print, " %v", *s.Capture)
		}
		if s.Filter != nil {
			fmt.Fprintf(&b.print, " %q", s.Filter.Expression)
		}
		b.print.WriteByte('\n')
	}
	if len(mine) == 0 {
		return
	}
	b.c.code.Trace = &link.Trace{Sessions: mine}
	if b.c.companion != nil {
		b.c.companion.Trace = b.c.code.Trace
	}
}

// concerns tells whether packets of a session may be in the segment: those at a cube are captured
// there, and those that reach it may have entered anywhere in its connected part of the graph.
func (b *builder) concerns(s link.Session) bool {
	if s.Capture != nil {
		return slices.Contains(b.c.ids, CubeID(s.Capture.Cube))
	}
	if s.Cube == 0 {
		return true
	}
	stacks, links := b.Edges()
	for _, part := range b.Split(append(stacks, links...)) {
		if slices.Contains(part, CubeID(s.Cube)) {
			return slices.Contains(part, b.c.ids[0])
		}
	}
	return false
}

// TraceUntil lets programs that are traced record packets for so long from now. It is a lease: a
// daemon that dies does not renew it.
func (p *Plane) TraceUntil(d time.Duration) error {
	now, err := cube.Time()
	if err != nil {
		return err
	}
	if err := p.fw.Maps[abi.MapTracing].Put(uint32(0), now+uint64(d)); err != nil {
		return fmt.Errorf("renewing the lease of tracing: %w", err)
	}
	return nil
}

// TraceLost is how many records of traced packets found no room in the ring.
func (p *Plane) TraceLost() (uint64, error) {
	var perCPU []uint64
	if err := p.fw.Maps[abi.MapTraceLost].Lookup(uint32(0), &perCPU); err != nil {
		return 0, fmt.Errorf("reading what tracing lost: %w", err)
	}
	var sum uint64
	for _, n := range perCPU {
		sum += n
	}
	return sum, nil
}
