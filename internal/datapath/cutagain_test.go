// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/segments"
	"github.com/polycube/polycube/test/netns"
)

// TestSegmentsKeepTheirProgramsWhenTheGraphIsCutAgain: one of several segments was too large for the kernel, and the graph is
// cut into smaller ones. The others have been built already.
func TestSegmentsKeepTheirProgramsWhenTheGraphIsCutAgain(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, setting{typ: cube.TypeTC, mode: ModeCall})
	const alone = 4
	for range alone {
		b.cube("probe", 3, nil)
	}
	b.must(func() error {
		p := b.plane
		p.mu.Lock()
		defer p.mu.Unlock()
		w := graph.NewWiring(cloneOf(b.g))
		ch := &change{p: p, g: w.Graph, wiring: w, stale: w.StaleSince(p.wiring), rows: p.tables.InUse()}
		defer ch.drop()
		built := map[CubeID]*segments.Generation{}
		for range 2 {
			if _, err := ch.build(t.Context(), w); err != nil {
				return err
			}
			if len(ch.parts) != alone {
				t.Fatalf("%d segments, want %d", len(ch.parts), alone)
			}
			for _, c := range ch.parts {
				if first := built[c.IDs[0]]; first != nil && c.gen != first {
					t.Errorf("the segment of %s has other programs than before", c.Code.Cubes[0].Name)
				}
				built[c.IDs[0]] = c.gen
			}
		}
		return nil
	})
}
