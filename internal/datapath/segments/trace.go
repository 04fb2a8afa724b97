// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"fmt"
	"slices"

	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
)

// trace adds the sessions that affect the segment, and makes them part of its fingerprint: a graph with other sessions
// relinks the affected segments, and nothing else.
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
		fmt.Fprintf(&b.print, "trace %d cube %d here %t capture %v", s.Bit, s.Cube, b.local[graph.CubeID(s.Cube)], s.Capture != nil)
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
	b.c.Code.Trace = &link.Trace{Sessions: mine}
	if b.c.companion != nil {
		b.c.companion.Trace = b.c.Code.Trace
	}
}

// concerns reports whether packets of a session may be in the segment: those at a cube are captured there, and those
// that reach it may have entered anywhere in its connected part of the graph.
func (b *builder) concerns(s link.Session) bool {
	if s.Capture != nil {
		return slices.Contains(b.c.IDs, graph.CubeID(s.Capture.Cube))
	}
	if s.Cube == 0 {
		return true
	}
	stacks, links := b.Edges()
	for _, part := range b.Split(append(stacks, links...)) {
		if slices.Contains(part, graph.CubeID(s.Cube)) {
			return slices.Contains(part, b.c.IDs[0])
		}
	}
	return false
}
