// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	_ "embed"
	"errors"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
)

var (
	//go:embed testdata/digger.tc.o
	diggerTC []byte
	//go:embed testdata/digger.xdp.o
	diggerXDP []byte
)

// TestACubeCannotReachTheDriversFrame: a frame pointer that is restored from the stack would be the driver's once the
// cube is inlined.
func TestACubeCannotReachTheDriversFrame(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		b.must(func() error {
			return b.plane.CheckObject("digger", map[cube.Hook][]byte{cube.TC: diggerTC, cube.XDP: diggerXDP})
		})
		bad, witness := b.cube("digger", 2, nil), b.cube("hostile", 2, nil)
		b.link(bad, 1, witness, 0)
		a, z := b.host("a", "", bad, 0), b.host("z", "", witness, 1)
		err := b.inLab(b.tryCommit)
		if b.opts.Mode == ModeInline {
			if !errors.Is(err, link.ErrNotInlinable) {
				t.Errorf("inlined: %v, want ErrNotInlinable", err)
			}
			if err != nil {
				return
			}
		} else if err != nil {
			t.Fatal(err)
		}
		b.passes(a, z, frame("x"))
		for _, n := range []*Node{bad, witness} {
			for i := range uint16(2) {
				if got := b.counters(n, i); got.TxPackets > 1 || got.RxPackets > 1 {
					t.Errorf("the cube wrote into the counters of %s port %d: %+v", n.Name, i, got)
				}
			}
		}
		m, err := b.plane.Map(bad.ID, "mine")
		if err != nil {
			t.Fatal(err)
		}
		var counts [64]uint64
		if err := m.Lookup(uint32(0), &counts); err != nil || counts[2] != 4711 {
			t.Errorf("the cube's own map has %d where it wrote 4711 (%v)", counts[2], err)
		}
	})
}
