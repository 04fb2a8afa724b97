// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	_ "embed"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
)

var (
	//go:embed testdata/weighty.tc.o
	weightyTC []byte
	//go:embed testdata/weighty.xdp.o
	weightyXDP []byte
)

// TestTheStatusSaysWhatACubeCosts: of a cube whose stack is known, alone, with another one in its program, and with
// another one that runs the same program.
func TestTheStatusSaysWhatACubeCosts(t *testing.T) {
	const own = 64 + 128
	everywhere(t, func(t *testing.T, b *bench) {
		b.must(func() error {
			return b.plane.CheckObject("weighty", map[cube.Hook][]byte{cube.TC: weightyTC, cube.XDP: weightyXDP})
		})
		one, two := b.cube("weighty", 2, nil), b.cube("weighty", 2, nil)
		b.link(one, 1, two, 0)
		b.host("a", "", one, 0)
		b.host("z", "", two, 1)
		apart, alike := b.cube("weighty", 2, nil), b.cube("weighty", 2, nil)
		b.host("c", "", apart, 0)
		b.host("d", "", alike, 0)
		b.commit()
		for _, n := range []*Node{one, two, apart, alike} {
			s := b.plane.Status(n.ID)
			if s.OwnStack != own {
				t.Errorf("%s: a stack of %d bytes of its own, want %d: %+v", n.Name, s.OwnStack, own, s)
			}
			if s.Stack < own+80 || s.Stack > own+160 || s.Verified == 0 {
				t.Errorf("%s: a stack of %d bytes, want that of the driver and %d: %+v", n.Name, s.Stack, own, s)
			}
			if s.OwnInstructions < 8 || s.OwnInstructions >= s.Instructions {
				t.Errorf("%s: %d of %d instructions are its own", n.Name, s.OwnInstructions, s.Instructions)
			}
			var most ProgramStatus
			for _, p := range s.Programs {
				most.Instructions = max(most.Instructions, p.Instructions)
				most.Verified, most.Stack = max(most.Verified, p.Verified), max(most.Stack, p.Stack)
			}
			if len(s.Programs) != 2 || s.Programs[0].Role != link.OnIngress.String() || s.Programs[1].Role != link.OnResume.String() {
				t.Errorf("%s: programs %+v, want in and resume", n.Name, s.Programs)
			}
			if want := (ProgramStatus{Instructions: s.Instructions, Verified: s.Verified, Stack: s.Stack}); most != want {
				t.Errorf("%s: of %+v, the most are %+v", n.Name, s.Programs, s)
			}
		}
		first, second := b.plane.Status(one.ID), b.plane.Status(apart.ID)
		if second.Cubes != 1 || second.Alike != 2 || second.Instructions >= first.Instructions {
			t.Errorf("one of two: %+v, and one that is alone: %+v", first, second)
		}
	})
}
