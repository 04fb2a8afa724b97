// SPDX-License-Identifier: Apache-2.0

// A transparent cube and the port it is attached to may be in different segments, on the two sides of a link.

package datapath

import (
	"fmt"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

func TestATransparentCubeIsInAnySegment(t *testing.T) {
	for at := range uint16(2) { // the port of the middle cube that it is attached to
		t.Run(fmt.Sprintf("on port %d of the second", at), func(t *testing.T) {
			everywhere(t, func(t *testing.T, b *bench) {
				b.close()
				b.opts.SegmentCubes = 2
				b.open()
				// Created in this order, the last cube of the line and the transparent cube are one
				// segment.
				one, three := b.cube("probe", 2, map[string]any{"out": uint16(1)}), b.cube("probe", 2, map[string]any{"out": uint16(1)})
				two, gate := b.cube("probe", 2, map[string]any{"out": uint16(1)}), b.cube("gate", 0, nil)
				b.link(one, 1, two, 0)
				b.link(two, 1, three, 0)
				from, to := b.host("a", "", one, 0), b.host("z", "", three, 1)
				b.commit()
				two.Ports[at].Tcubes = []CubeID{gate.ID}
				b.commit()
				if got := b.passes(from, to, frame("x")); got[14+16] != 'x' || got[14] != 'a' {
					t.Errorf("the frame came as % x, want the letter of the transparent cube at its start", got[:32])
				}
			})
		})
	}
}

func TestTransparentCubesOnPortsOfOneForeignCube(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		b.close()
		b.opts.SegmentCubes = 2
		b.open()
		c := b.cube("probe", 3, map[string]any{"out": uint16(2)})
		hosts := []*netns.Node{b.host("a", "", c, 0), b.host("m", "", c, 1), b.host("z", "", c, 2)}
		for i, letter := range "klm" {
			gate := b.cube("gate", 0, map[string]any{"letter": uint32(letter)})
			c.Ports[uint16(i)].Tcubes = []CubeID{gate.ID}
			b.commit()
		}
		for i, want := range []string{"km", "lm"} {
			if got := b.passes(hosts[i], hosts[2], frame("x")); string(got[14:16]) != want {
				t.Errorf("from port %d the letters are %q, want %q", i, got[14:16], want)
			}
		}
	})
}
