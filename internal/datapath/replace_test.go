// SPDX-License-Identifier: Apache-2.0

package datapath

// A cube is opened with other programs while it runs, and gets the earlier ones back if that is aborted.

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/polycube/polycube/cube"
)

// pinsOf lists the pins of a cube.
func (b *bench) pinsOf(n *Node) []string {
	b.t.Helper()
	entries, err := os.ReadDir(filepath.Join(b.plane.dir("cubes"), n.Name))
	if err != nil {
		b.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestACubeIsOpenedAnewWhileItRuns(t *testing.T) {
	in(t, few, func(t *testing.T, b *bench) {
		n, x, y := b.tallied()
		want := map[uint32]counter{0: {2, 128}, 1: {1, 64}}
		before := b.pinsOf(n)
		replace := func(version string, migrate func(cube.Migration) error) (r Replacement, err error) {
			if err := b.plane.CheckObject("tally", objectsOf(version)); err != nil {
				t.Fatal(err)
			}
			err = b.inLab(func() (err error) { r, err = b.plane.ReplaceCube(b.spec(n, migrate, nil)); return err })
			return r, err
		}
		unchanged := func(when string) {
			t.Helper()
			b.passes(x, y, frame("still there"))
			want[0] = counter{want[0].Packets + 1, want[0].Bytes + 64}
			if got := seen[counter](b, n); !maps.Equal(got, want) {
				t.Errorf("%s: counted %v, want %v", when, got, want)
			}
			if after := b.pinsOf(n); !slices.Equal(after, before) {
				t.Errorf("%s: pinned are %v, were %v", when, after, before)
			}
		}

		// The same programs: nothing needs to be linked.
		r, err := replace("tally", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Settle()
		unchanged("after it was opened with other objects of the same kind")

		if _, err = replace("tally_wide", func(cube.Migration) error { return errors.New("cannot") }); err == nil {
			t.Error("a map that cannot be carried over is taken")
		}
		unchanged("after a refusal")

		if r, err = replace("tally_wide", widen); err != nil {
			t.Fatal(err)
		}
		if !r.Relink {
			t.Error("programs of another layout need no linking")
		}
		r.Back()
		b.commit()
		unchanged("after it was given up")

		if r, err = replace("tally_wide", widen); err != nil {
			t.Fatal(err)
		}
		n.Maps++
		b.commit()
		r.Settle()
		b.passes(x, y, frame("by the wide one"))
		total := wide{uint64(want[0].Packets) + 1, uint64(want[0].Bytes) + 64}
		if got := seen[wide](b, n); got[0] != total {
			t.Errorf("after the migration %v, want %v", got[0], total)
		}
		// The next daemon finds the new layout.
		b.must(func() error { return b.upgrade(n, "tally_wide", nil, nil) })
		b.commit()
		if got := seen[wide](b, n); got[0] != total {
			t.Errorf("after a restart %v, want %v", got[0], total)
		}
	})
}
