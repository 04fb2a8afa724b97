// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/test/netns"
)

func TestACubeThatIsHeldGoesOnWithWhatItHas(t *testing.T) {
	in(t, few, func(t *testing.T, b *bench) {
		n, x, y := b.tallied()
		far := b.cube("probe", 3, map[string]any{"what": uint32(6)})
		b.link(n, 1, far, 0)
		delete(b.g.Netdevs, y.Outer)
		z := b.host("z", "", far, 1)
		b.commit()
		b.passes(x, z, frame("through both"))

		if err := b.upgrade(n, "tally_swapped", nil, nil); err == nil {
			t.Fatal("the upgrade was not refused")
		}
		b.must(func() error { return b.plane.HoldCube(b.spec(n, nil, nil)) })
		b.must(func() error {
			return b.plane.CreateCube(Spec{ID: far.ID, UUID: far.Name, Name: far.Name, Service: "probe", Type: b.typ})
		})
		// Its constants are those it had, whatever the graph says; its neighbour changes.
		n.Constants = map[string]any{"mark": uint32(99), "unknown": uint64(1)}
		far.Constants = map[string]any{"what": uint32(5), "out": uint16(1)}
		b.commit()
		got := b.passes(x, z, frame("beside a new neighbour"))
		if got[5] != 1 || got[11] != 2 {
			t.Errorf("the neighbour is the old one: its MACs are % x", got[:12])
		}
		if got, want := seen[counter](b, n)[0], (counter{4, 256}); got != want {
			t.Errorf("counted %v, want %v", got, want)
		}
		m, err := b.plane.Map(n.ID, "marks")
		var mark uint32
		if err := errors.Join(err, m.Lookup(uint32(0), &mark)); err != nil || mark != 7 {
			t.Errorf("its constant is %d (%v), want 7", mark, err)
		}
		if s := b.plane.Status(n.ID); s.Mode == "" {
			t.Error("the held cube has no programs")
		}
		// A daemon that can carry its entries over adopts it.
		b.must(func() error { return b.upgrade(n, "tally_swapped", swap, nil) })
		b.must(func() error {
			return b.plane.CreateCube(Spec{ID: far.ID, UUID: far.Name, Name: far.Name, Service: "probe", Type: b.typ})
		})
		n.Constants = map[string]any{"mark": uint32(8)}
		b.commit()
		b.passes(x, z, frame("by the new version"))
		if got, want := seen[swapped](b, n)[0], (swapped{320, 5}); got != want {
			t.Errorf("counted %v, want %v", got, want)
		}
	})
}

// A cube that got a program at run time is kept with it, and with the maps of both.
func TestACubeIsHeldWithTheProgramsItWasGiven(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		n, x, y := b.tallied()
		n.Programs = map[cube.ProgramSlot]cube.Program{
			{}:         {Function: "guest", Objects: objectsOf("guest")},
			{Index: 1}: {Function: link.Ingress},
		}
		b.commit()
		b.passes(x, y, frame("by the guest"))
		if got := b.number(n, "guests"); got != 7 {
			t.Errorf("the guest has counted %d, want 7", got)
		}
		if err := b.upgrade(n, "tally_swapped", nil, nil); err == nil {
			t.Fatal("the upgrade was not refused")
		}
		b.must(func() error { return b.plane.HoldCube(b.spec(n, nil, nil)) })
		n.Programs, n.Constants = nil, nil
		b.commit()
		b.passes(x, y, frame("by the same guest"))
		if got := b.number(n, "guests"); got != 14 {
			t.Errorf("the guest of the held cube has counted %d, want 14", got)
		}
		if got, want := seen[counter](b, n)[0], (counter{4, 256}); got != want {
			t.Errorf("the cube's own program has counted %v, want %v", got, want)
		}

		// A daemon that can run it restores what its service defines; the map of the added program is kept.
		b.must(func() error { return b.upgrade(n, "tally", nil, nil) })
		n.Constants = map[string]any{"mark": uint32(3)}
		b.commit()
		b.passes(x, y, frame("without the guest"))
		n.Programs = map[cube.ProgramSlot]cube.Program{
			{}:         {Function: "guest", Objects: objectsOf("guest")},
			{Index: 1}: {Function: link.Ingress},
		}
		b.commit()
		b.passes(x, y, frame("with it again"))
		if got := b.number(n, "guests"); got != 17 {
			t.Errorf("the guest has counted %d, want 17", got)
		}
		pins := strings.Join(b.pins("cubes/"+n.Name), " ")
		n.Programs = nil
		b.commit()
		if now := strings.Join(b.pins("cubes/"+n.Name), " "); strings.Count(pins, "+object-") != 2 || strings.Count(now, "+object-") != 1 {
			t.Errorf("with the guest %s are pinned, without it %s", pins, now)
		}
	})
}

func TestAnObjectIsSavedOnceForAllItsCubes(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[0])
	saved := func(n *Node) *ebpf.Map {
		m, err := ebpf.LoadPinnedMap(filepath.Join(b.dir, "cubes", n.Name, "+object-tc-0"), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		return m
	}
	one := b.cube("probe", 1, nil)
	b.commit()
	two := b.cube("probe", 1, nil)
	b.commit()
	if b.mapID(saved(one)) != b.mapID(saved(two)) {
		t.Error("two cubes of a service have it twice")
	}
	b.drop(one)
	b.drop(two)
	three := b.cube("probe", 1, nil)
	b.commit()
	if elf, err := saved(three).LookupBytes(uint32(0)); err != nil || !bytes.HasSuffix(elf, probeTC) || len(elf) != len(probeTC)+8 {
		t.Errorf("of a later cube %d bytes are saved, %v", len(elf), err)
	}
}

func TestAGivenProgramCannotTakeTheCubesMapsForOthers(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[0])
	n, x, y := b.tallied()
	pins := b.pins("cubes/" + n.Name)
	for file, want := range map[string]string{
		"tally_wide": "map seen has another layout in the cube",
		"grabber":    "are reserved for the framework",
		"clash":      "service sharer, which is not loaded",
	} {
		n.Programs = map[cube.ProgramSlot]cube.Program{{}: {Function: link.Ingress, Objects: objectsOf(file)}}
		if err := b.inLab(b.tryCommit); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
		if now := b.pins("cubes/" + n.Name); !slices.Equal(now, pins) {
			t.Errorf("%s: pins %v, before %v", file, now, pins)
		}
		b.passes(x, y, frame("goes on"))
	}
}

// swapped is an entry of tally_swapped.
type swapped struct{ Bytes, Packets uint32 }

func swap(m cube.Migration) error {
	from, err := table.Of[uint32, counter](m.Map, m.Old)
	if err != nil {
		return err
	}
	to, err := table.Of[uint32, swapped](m.Map, m.New)
	if err != nil {
		return err
	}
	for port, c := range from.All(&err) {
		if err := to.Set(port, swapped{c.Bytes, c.Packets}); err != nil {
			return err
		}
	}
	return err
}

func TestWhatIsNotThereCannotBeHeld(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[0])
	b.serve("tally")
	n := &Node{ID: 5, Name: "gone"}
	if err := b.plane.HoldCube(b.spec(n, nil, nil)); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("a cube that never was: %v", err)
	}
	c := b.cube("tally", 1, nil)
	if err := b.plane.HoldCube(b.spec(c, nil, nil)); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("a cube that was never linked: %v", err)
	}
	b.must(func() error { return b.plane.CreateCube(b.spec(c, nil, nil)) })
	b.commit()
	if err := b.plane.HoldCube(b.spec(c, nil, nil)); !errors.Is(err, cube.ErrExists) {
		t.Errorf("a cube that runs: %v", err)
	}
}
