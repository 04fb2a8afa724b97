// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/test/netns"
)

// counter is an entry of the map `seen` of testdata/tally.h, wide one of tally_wide.
type counter struct{ Packets, Bytes uint32 }
type wide struct{ Packets, Bytes uint64 }

// tallied is a cube of the first version with a packet seen on each port.
func (b *bench) tallied() (n *Node, x, y *netns.Node) {
	b.t.Helper()
	b.serve("tally")
	n, x, y = b.pair("tally", map[string]any{"mark": uint32(7)})
	b.commit()
	b.passes(x, y, frame("one"))
	b.passes(x, y, frame("two"))
	b.passes(y, x, frame("back"))
	return n, x, y
}

// upgrade is a new daemon whose service tally has other programs. It opens the cube.
func (b *bench) upgrade(n *Node, version string, migrate func(cube.Migration) error, sizes map[string]uint32) error {
	b.t.Helper()
	b.close()
	b.open()
	if err := b.plane.CheckObject("tally", objectsOf(version)); err != nil {
		b.t.Fatal(err)
	}
	return b.inLab(func() error { return b.plane.CreateCube(b.spec(n, migrate, sizes)) })
}

func (b *bench) spec(n *Node, migrate func(cube.Migration) error, sizes map[string]uint32) Spec {
	return Spec{ID: n.ID, UUID: n.Name, Name: n.Name, Service: "tally", Type: b.typ, Migrate: migrate, MapSizes: sizes}
}

// seen reads the counters by port.
func seen[V any](b *bench, n *Node) map[uint32]V {
	b.t.Helper()
	m, err := b.plane.Map(n.ID, "seen")
	if err != nil {
		b.t.Fatal(err)
	}
	table, err := table.Of[uint32, V]("seen", m)
	if err != nil {
		b.t.Fatal(err)
	}
	got := maps.Collect(table.All(&err))
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

// widen is the Migrate of tally_wide.
func widen(m cube.Migration) error {
	from, err := table.Of[uint32, counter](m.Map, m.Old)
	if err != nil {
		return err
	}
	to, err := table.Of[uint32, wide](m.Map, m.New)
	if err != nil {
		return err
	}
	for port, c := range from.All(&err) {
		if err := to.Set(port, wide{uint64(c.Packets), uint64(c.Bytes)}); err != nil {
			return err
		}
	}
	return err
}

func TestAnUpgradeKeepsState(t *testing.T) {
	in(t, few, func(t *testing.T, b *bench) {
		n, x, y := b.tallied()
		b.must(func() error { return b.upgrade(n, "tally_code", nil, nil) })
		b.commit()
		b.passes(x, y, frame("by the new code"))
		if got, want := seen[counter](b, n), (map[uint32]counter{0: {12, 192}, 1: {1, 64}}); !maps.Equal(got, want) {
			t.Errorf("counted %v, want %v", got, want)
		}

		b.must(func() error { return b.upgrade(n, "tally_wide", widen, nil) })
		b.commit()
		b.passes(x, y, frame("by the wide one"))
		if got, want := seen[wide](b, n), (map[uint32]wide{0: {13, 256}, 1: {1, 64}}); !maps.Equal(got, want) {
			t.Errorf("after the migration %v, want %v", got, want)
		}

		// The pin is the new map's: another restart has nothing to do.
		b.must(func() error {
			return b.upgrade(n, "tally_wide", func(cube.Migration) error { return errors.New("not needed") }, nil)
		})
		b.commit()
		b.passes(y, x, frame("and back"))
		if got, want := seen[wide](b, n), (map[uint32]wide{0: {13, 256}, 1: {2, 128}}); !maps.Equal(got, want) {
			t.Errorf("after another restart %v, want %v", got, want)
		}
	})
}

func TestAMapOfAnotherSizeKeepsItsEntries(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[1])
	n, x, y := b.tallied()
	want := map[uint32]counter{0: {2, 128}, 1: {1, 64}}
	for _, tt := range []struct {
		version string
		sizes   map[string]uint32
		entries uint32
	}{{"tally_large", nil, 128}, {"tally", nil, 64}, {"tally", map[string]uint32{"seen": 3}, 3}, {"tally", map[string]uint32{"marks": 5}, 64}} {
		b.must(func() error { return b.upgrade(n, tt.version, nil, tt.sizes) })
		b.commit()
		m, err := b.plane.Map(n.ID, "seen")
		if err != nil || m.MaxEntries() != tt.entries {
			t.Fatalf("%s: %v, %v, want %d entries", tt.version, m, err, tt.entries)
		}
		if got := seen[counter](b, n); !maps.Equal(got, want) {
			t.Errorf("%s %v: counted %v, want %v", tt.version, tt.sizes, got, want)
		}
		b.passes(x, y, frame("one more"))
		want[0] = counter{want[0].Packets + 1, want[0].Bytes + 64}
	}
	err := b.upgrade(n, "tally_small", nil, nil)
	if !errors.Is(err, cube.ErrFull) || !strings.Contains(err.Error(), "it has more than 1 entries") {
		t.Errorf("two entries in a map for one: %v", err)
	}
}

// What programs write between the copy and the swap is not lost.
func TestEntriesWrittenWhileAMapIsCopiedFollow(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[0])
	b.serve("tally")
	n, x, y := b.pair("tally", nil)
	b.commit()
	b.passes(x, y, frame("before"))
	b.must(func() error { return b.upgrade(n, "tally_large", nil, nil) })
	b.passes(y, x, frame("meanwhile, counted in the old map"))
	if got := seen[counter](b, n); len(got) != 1 {
		t.Fatalf("the copy has %v already", got)
	}
	b.commit()
	if got, want := seen[counter](b, n), (map[uint32]counter{0: {1, 64}, 1: {1, 64}}); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// What programs write between the migration and the swap is not lost either: neither an entry nor what they counted.
func TestEntriesWrittenWhileAMapIsMigratedFollow(t *testing.T) {
	in(t, few, func(t *testing.T, b *bench) {
		b.serve("tally")
		n, x, y := b.pair("tally", nil)
		b.commit()
		b.passes(x, y, frame("before"))
		b.must(func() error { return b.upgrade(n, "tally_wide", widen, nil) })
		b.passes(x, y, frame("meanwhile"))
		b.passes(y, x, frame("meanwhile, of a port that was not there"))
		if got, want := seen[wide](b, n), (map[uint32]wide{0: {1, 64}}); !maps.Equal(got, want) {
			t.Fatalf("what was migrated is %v, want %v", got, want)
		}
		b.commit()
		if got, want := seen[wide](b, n), (map[uint32]wide{0: {2, 128}, 1: {1, 64}}); !maps.Equal(got, want) {
			t.Errorf("counted %v, want %v", got, want)
		}
		b.passes(x, y, frame("after"))
		if got, want := seen[wide](b, n), (map[uint32]wide{0: {3, 192}, 1: {1, 64}}); !maps.Equal(got, want) {
			t.Errorf("counted %v, want %v", got, want)
		}
	})
}

// What the daemon deletes with the change of size stays deleted, although the old map has it still.
func TestEntriesDeletedWithAChangeOfSizeStayDeleted(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[0])
	b.serve("tally")
	n, x, y := b.pair("tally", nil)
	b.commit()
	b.passes(x, y, frame("port 0"))
	b.must(func() error { _, err := b.plane.ResizeMaps(n.ID, map[string]uint32{"seen": 100}); return err })
	n.Maps++
	m, err := b.plane.Map(n.ID, "seen")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Delete(uint32(0)); err != nil {
		t.Fatal(err)
	}
	b.passes(y, x, frame("port 1, counted in the old map"))
	b.commit()
	netns.Eventually(t, soon, func() error { // the one that follows tells that it is over
		if got := seen[counter](b, n); got[1] != (counter{1, 64}) {
			return fmt.Errorf("counted %v", got)
		}
		return nil
	})
	if got := seen[counter](b, n); len(got) != 1 {
		t.Errorf("an entry that was deleted is back: %v", got)
	}
}

func TestMapsGrowAndShrinkUnderTraffic(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		n, x, y := b.tallied()
		resize := func(sizes map[string]uint32) func() error {
			var undo func() error
			b.must(func() (err error) { undo, err = b.plane.ResizeMaps(n.ID, sizes); return err })
			return undo
		}
		entries := func() uint32 {
			m, err := b.plane.Map(n.ID, "seen")
			if err != nil {
				t.Fatal(err)
			}
			return m.MaxEntries()
		}
		rx := netns.OpenRaw(t, y, netns.Inner)
		stop := stream(b, x, time.Millisecond)
		for _, size := range []uint32{100, 2, 1000} {
			undo := resize(map[string]uint32{"seen": size, "marks": 0})
			n.Maps++
			b.commit()
			if err := undo(); err != nil || entries() != size {
				t.Errorf("there is room for %d, want %d (%v)", entries(), size, err)
			}
			if got := seen[counter](b, n); got[1] != (counter{1, 64}) || got[0].Packets < 2 {
				t.Errorf("in a map for %d: %v", size, got)
			}
		}
		arrive(b, rx, stop())
		if undo := resize(map[string]uint32{"seen": 1000}); undo != nil {
			t.Error("the size that it has is a change")
		}
		// What is not committed is taken back.
		undo := resize(map[string]uint32{"seen": 77})
		if entries() != 77 {
			t.Error("the cube's code does not get the new map")
		}
		b.must(undo)
		b.commit()
		b.passes(y, x, frame("in the old map"))
		if got := seen[counter](b, n)[1]; entries() != 1000 || got != (counter{2, 128}) {
			t.Errorf("after the undo: room for %d, %v", entries(), got)
		}
		b.must(func() error { return b.upgrade(n, "tally", nil, map[string]uint32{"seen": 1000}) })
		b.commit()
		if got := seen[counter](b, n)[1]; got != (counter{2, 128}) {
			t.Errorf("after a restart: %v", got)
		}
	})
}

func TestSizesThatCannotBeAreRefused(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[0])
	b.serve("sharer")
	n, x, y := b.tallied()
	other := b.cube("sharer", 1, nil)
	for _, tt := range []struct {
		id    CubeID
		sizes map[string]uint32
		want  error
	}{
		{n.ID, map[string]uint32{"marks": 5, "seen": 1}, cube.ErrFull},
		{n.ID, map[string]uint32{"marks": 5, "seen": 1 << 30}, cube.ErrFull},
		{n.ID, map[string]uint32{"marks": 5, "nothing": 5}, cube.ErrNotFound},
		{other.ID, map[string]uint32{"own": 5, "visits": 5}, cube.ErrInvalid},
		{99, map[string]uint32{"seen": 5}, cube.ErrNotFound},
	} {
		if _, err := b.plane.ResizeMaps(tt.id, tt.sizes); !errors.Is(err, tt.want) {
			t.Errorf("%v: %v, want %v", tt.sizes, err, tt.want)
		}
	}
	for _, n := range []*Node{n, other} {
		if maps := b.plane.state.Cube(n.ID).Pending(); maps != 0 {
			t.Errorf("%d maps of %s wait for programs", maps, n.Name)
		}
	}
	b.commit()
	b.passes(x, y, frame("goes on"))
	if got := seen[counter](b, n)[0]; got != (counter{3, 192}) {
		t.Errorf("counted %v", got)
	}
}

// A map that is declared disposable starts empty where its entries do not fit the new declaration. The service is not asked.
func TestADisposableMapStartsEmpty(t *testing.T) {
	asked := func(cube.Migration) error { return errors.New("it was asked") }
	in(t, few, func(t *testing.T, b *bench) {
		n, x, y := b.tallied()
		for _, tt := range []struct {
			version string
			migrate func(cube.Migration) error
			want    map[uint32]wide // after the upgrade, and after a packet more
			origin  origins.Origin
		}{
			{"tally_more", nil, map[uint32]wide{0: {3, 192}, 1: {1, 64}}, origins.Resized},
			{"tally_fewer", nil, map[uint32]wide{0: {1, 64}}, origins.Created},
			{"tally_fewer", nil, map[uint32]wide{0: {2, 128}}, origins.Adopted},
			{"tally_dropped", asked, map[uint32]wide{0: {1, 64}}, origins.Created},
			{"tally_dropped", asked, map[uint32]wide{0: {2, 128}}, origins.Adopted},
		} {
			b.must(func() error { return b.upgrade(n, tt.version, tt.migrate, nil) })
			if got, err := b.plane.Origin(n.ID, "seen"); err != nil || got != tt.origin {
				t.Errorf("%s: the map was %v, want %v (%v)", tt.version, got, tt.origin, err)
			}
			b.commit()
			b.passes(x, y, frame("one more"))
			got := map[uint32]wide{}
			if tt.version == "tally_dropped" {
				got = seen[wide](b, n)
			} else {
				for port, c := range seen[counter](b, n) {
					got[port] = wide{uint64(c.Packets), uint64(c.Bytes)}
				}
			}
			if !maps.Equal(got, tt.want) {
				t.Errorf("%s: counted %v, want %v", tt.version, got, tt.want)
			}
		}
	})
}

func TestALayoutThatCannotBeCarriedOverChangesNothing(t *testing.T) {
	boom := func(cube.Migration) error { panic("boom") }
	refuse := func(m cube.Migration) error {
		if m.Cube == "" || m.Map != "seen" || m.Was == nil || m.Old.ValueSize() != 8 || m.New.ValueSize() != 16 {
			return fmt.Errorf("asked for %+v", m)
		}
		return errors.New("not these")
	}
	in(t, few, func(t *testing.T, b *bench) {
		n, x, y := b.tallied()
		pins := b.pins("cubes/" + n.Name)
		for _, tt := range []struct {
			version string
			migrate func(cube.Migration) error
			want    string
		}{
			{"tally_wide", nil, "map seen has another layout (ValueSize: 8 changed to 16), and the service cannot convert its entries"},
			{"tally_swapped", nil, "value: {packets u32 at 0; bytes u32 at 4} changed to {bytes u32 at 0; packets u32 at 4}"},
			{"tally_wide", boom, "panic in the service's Migrate: boom"},
			{"tally_wide", refuse, "cannot be converted: not these"},
			{"tally_small", nil, "it has more than 1 entries"},
		} {
			err := b.upgrade(n, tt.version, tt.migrate, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %q", tt.version, err, tt.want)
			}
			if now := b.pins("cubes/" + n.Name); !slices.Equal(now, pins) {
				t.Errorf("%s: pins %v, before %v", tt.version, now, pins)
			}
			b.passes(x, y, frame("goes on"))
		}
		b.must(func() error { return b.upgrade(n, "tally", nil, nil) })
		b.commit()
		if got, want := seen[counter](b, n), (map[uint32]counter{0: {7, 448}, 1: {1, 64}}); !maps.Equal(got, want) {
			t.Errorf("counted %v, want %v", got, want)
		}
	})
}

// A map that is replaced twice before a commit has what programs wrote to the first one.
func TestEntriesFollowThroughTwoSuccessors(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[0])
	b.serve("tally")
	n, x, y := b.pair("tally", nil)
	b.commit()
	b.passes(x, y, frame("port 0"))
	for _, size := range []uint32{100, 200} {
		b.must(func() error { _, err := b.plane.ResizeMaps(n.ID, map[string]uint32{"seen": size}); return err })
	}
	n.Maps++
	b.passes(x, y, frame("port 0, counted in the first map"))
	b.passes(y, x, frame("port 1, counted in the first map"))
	b.commit()
	if got, want := seen[counter](b, n), (map[uint32]counter{0: {2, 128}, 1: {1, 64}}); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func TestMapsSayHowTheyCameToBe(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[0])
	n, _, _ := b.tallied()
	is := func(when string, want origins.Origin) {
		t.Helper()
		if got, err := b.plane.Origin(n.ID, "seen"); err != nil || got != want {
			t.Errorf("%s the map is %s, want %s (%v)", when, got, want, err)
		}
	}
	is("of a new cube", origins.Created)
	b.must(func() error { return b.upgrade(n, "tally_code", nil, nil) })
	is("after a restart with other code", origins.Adopted)
	b.commit()
	is("in use", origins.Adopted)
	undo, err := b.plane.ResizeMaps(n.ID, map[string]uint32{"seen": 100})
	if err != nil {
		t.Fatal(err)
	}
	is("with another size", origins.Resized)
	b.must(undo)
	is("without it", origins.Adopted)
	b.must(func() error { return b.upgrade(n, "tally_large", nil, nil) })
	is("of another declared size", origins.Resized)
	b.commit()
	b.must(func() error { return b.upgrade(n, "tally_wide", widen, nil) })
	is("of another layout", origins.Migrated)
	b.commit()
	if _, err := b.plane.Origin(n.ID, "nothing"); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("a map that is not there: %v", err)
	}
}

// A commit that fails leaves maps and pins to the programs that run.
func TestAnUpgradeThatIsNotCommittedCanBeTriedAgain(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[0])
	n, x, y := b.tallied()
	b.must(func() error { return b.upgrade(n, "tally_wide", widen, nil) })
	ch, err := b.plane.Prepare(context.Background(), cloneOf(b.g))
	if err != nil {
		t.Fatal(err)
	}
	ch.Abort()
	b.passes(x, y, frame("still the old version"))
	b.must(func() error { return b.upgrade(n, "tally_wide", widen, nil) })
	b.commit()
	if got, want := seen[wide](b, n)[0], (wide{3, 192}); got != want {
		t.Errorf("counted %v, want %v", got, want)
	}
}
