// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/segments"
	"github.com/polycube/polycube/test/netns"
)

// spareSettings are those in which constants are frozen in the background.
var spareSettings = []setting{
	{typ: settings[0].typ, mode: ModeAuto, spares: true}, {typ: settings[3].typ, mode: ModeAuto, spares: true}, {typ: settings[0].typ, mode: ModeCall, spares: true},
	{typ: settings[0].typ, mode: ModeAuto, cut: 1, spares: true},
}

// spare waits until a cube's segment has spare programs, and is linked in its final mode.
func (b *bench) spare(n *Node) *segments.Generation {
	b.t.Helper()
	var out *segments.Generation
	netns.Eventually(b.t, soon, func() error {
		b.plane.mu.Lock()
		defer b.plane.mu.Unlock()
		c := b.plane.byCube[n.ID]
		if c == nil || b.plane.spareOf(c) == nil || c.gen.Live() {
			return fmt.Errorf("%+v has no spare programs", c)
		}
		out = b.plane.spareOf(c)
		return nil
	})
	return out
}

// built is how many sets of programs were linked.
func (b *bench) built() uint64 {
	var n uint64
	for _, h := range b.plane.Activity().Relinks {
		n += h.Count
	}
	return n
}

// gen are the programs that a cube's packets run.
func (b *bench) gen(n *Node) *segments.Generation {
	b.plane.mu.Lock()
	defer b.plane.mu.Unlock()
	return b.plane.byCube[n.ID].gen
}

// drops sends a frame that a cube must drop.
func (b *bench) drops(n *Node, from *netns.Node) {
	b.t.Helper()
	before := b.fate(n, "told-to")
	if err := netns.OpenRaw(b.t, from, netns.Inner).Send(frame("to drop")); err != nil {
		b.t.Fatal(err)
	}
	netns.Eventually(b.t, soon, func() error {
		if got := b.fate(n, "told-to"); got != before+1 {
			return fmt.Errorf("%s has dropped %d frames, want 1", n.Name, got-before)
		}
		return nil
	})
}

// TestAConstantChangesWithoutALink: the spare programs take it, packets see it at once, and the background freezes it.
func TestAConstantChangesWithoutALink(t *testing.T) {
	in(t, spareSettings, func(t *testing.T, b *bench) {
		one, two, a, z := b.chain()
		b.passes(a, z, frame("as it was"))
		spare := b.spare(one)
		b.spare(two) // so that nothing is linked in the background
		before := b.built()
		one.Constants = map[string]any{"what": uint32(1)} // drop
		b.commit()
		if n := b.built(); n != before {
			t.Errorf("%d sets of programs were linked by the change", n-before)
		}
		if b.gen(one) != spare {
			t.Error("the spare programs are not in use")
		}
		b.drops(one, a)
		if got := b.spare(one); got != spare {
			t.Error("the spare programs are others once the constants are frozen")
		}
		b.drops(one, a)
		one.Constants = map[string]any{"what": uint32(6)}
		b.commit()
		b.passes(a, z, frame("passes again"))
	})
}

// TestLiveConstantsAreWrittenInPlace: a second change follows before the first is frozen.
func TestLiveConstantsAreWrittenInPlace(t *testing.T) {
	in(t, spareSettings, func(t *testing.T, b *bench) {
		one, two, a, z := b.chain()
		spare := b.spare(one)
		b.spare(two)
		b.plane.inline.stop() // nothing is frozen meanwhile
		before := b.built()
		for _, what := range []uint32{1, 6, 1, 6} {
			one.Constants = map[string]any{"what": what}
			b.commit()
			if b.gen(one) != spare {
				t.Fatal("other programs are in use")
			}
			if what == 1 {
				b.drops(one, a)
			} else {
				b.passes(a, z, frame("passes"))
			}
		}
		if n := b.built(); n != before {
			t.Errorf("%d sets of programs were linked", n-before)
		}
		// Two constants that cannot be written with one store change together, in the spare programs.
		one.Constants = map[string]any{"what": uint32(0), "out": uint16(1)}
		two.Constants = map[string]any{"what": uint32(0), "out": uint16(1)}
		b.commit()
		b.passes(a, z, frame("both"))
	})
}

// TestAnAbandonedChangeOfConstants has no effect: neither if it is prepared and aborted, nor if its commit fails
// half-way.
func TestAnAbandonedChangeOfConstants(t *testing.T) {
	in(t, spareSettings, func(t *testing.T, b *bench) {
		one, _, a, z := b.chain()
		b.spare(one)
		for range 3 {
			b.must(func() error { return b.prepareThenAbandon(one, 7) })
			b.passes(a, z, frame("as before"))
		}
		spare := b.spare(one)
		b.plane.inline.stop()
		drop := map[string]any{"what": uint32(1)}
		for i, inPlace := range []bool{false, true} {
			if inPlace {
				b.spare(one) // once no packet can run the programs any more
				one.Constants = map[string]any{"what": uint32(0)}
				b.commit()
				if b.gen(one) != spare {
					t.Fatal("the spare programs are not in use")
				}
			}
			was := one.Constants
			one.Constants = drop
			b.must(func() error {
				ch, err := b.plane.Prepare(context.Background(), cloneOf(b.g))
				if err != nil {
					return err
				}
				// The slot of a cube that does not exist cannot be written.
				c := ch.(*change)
				beyond := &segment{Description: &segments.Description{IDs: []CubeID{link.MaxCubes + 1}},
					gen: &segments.Generation{}, entrance: c.parts[0].entrance}
				c.parts, c.built = append(c.parts, beyond), append(c.built, beyond)
				if err := c.Commit(); err == nil {
					return errors.New("the change was committed")
				}
				return nil
			})
			one.Constants = was
			b.passes(a, z, frame(fmt.Sprint("undone ", i)))
		}
	})
}

// TestChangesOfConstantsUnderLoadLoseNothing, whether the spare programs take them, or those in use, or new ones.
func TestChangesOfConstantsUnderLoadLoseNothing(t *testing.T) {
	in(t, spareSettings, func(t *testing.T, b *bench) {
		one, two, a, z := b.chain()
		b.spare(one)
		rx := netns.OpenRaw(t, z, netns.Inner)
		stop := stream(b, a, 500*time.Microsecond)
		defer stop()
		spares, end := 0, time.Now().Add(reloads)
		for n := 0; n < 6 || time.Now().Before(end); n++ {
			c := []*Node{one, two}[n%2]
			c.Constants = map[string]any{"what": uint32(6), "out": uint16(n + 2)}
			b.commit()
			if b.gen(c).Live() {
				spares++
			}
			if n%3 == 0 {
				b.spare(one)
			}
		}
		arrive(b, rx, stop())
		if spares == 0 {
			t.Error("no change went to spare programs")
		}
	})
}

// TestSpareProgramsAreBounded and are removed with their segment.
func TestSpareProgramsAreBounded(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, setting{typ: settings[0].typ, mode: ModeAuto, cut: 1, spares: true})
	one, two, _, _ := b.chain()
	b.spare(one)
	b.spare(two)
	b.plane.mu.Lock()
	b.plane.inline.spares = b.plane.spareOf(b.plane.byCube[one.ID]).Size // of one segment only
	b.plane.mu.Unlock()
	for _, c := range []*Node{one, two} {
		c.LogLevel++ // a constant of both: both spare sets are used
		c.Ports[5] = &Port{Index: 5, Name: "new", Slot: b.slots, Peer: Peer{}}
		b.slots++
	}
	other := b.cube("probe", 2, nil)
	b.link(one, 5, other, 0)
	b.commit() // other segments, of another shape
	netns.Eventually(t, soon, func() error {
		b.plane.mu.Lock()
		defer b.plane.mu.Unlock()
		size, frozen := 0, 0
		for _, c := range b.plane.parts {
			if spare := b.plane.spareOf(c); spare != nil {
				size += spare.Size
			}
			if !c.gen.Live() {
				frozen++
			}
		}
		if size > b.plane.inline.spares || frozen != len(b.plane.parts) {
			return fmt.Errorf("spare programs of %d instructions, %d are allowed; %d of %d segments are frozen", size, b.plane.inline.spares, frozen, len(b.plane.parts))
		}
		return nil
	})
	b.must(func() error {
		netns.Eventually(t, soon, func() error {
			entries, err := os.ReadDir(b.plane.dir("generations"))
			if err != nil {
				return err
			}
			b.plane.mu.Lock()
			defer b.plane.mu.Unlock()
			want := 0
			for _, c := range b.plane.parts {
				want++
				if b.plane.spareOf(c) != nil {
					want++
				}
			}
			if len(entries) != want {
				return fmt.Errorf("%d sets of programs are pinned, want %d", len(entries), want)
			}
			return nil
		})
		return nil
	})
}

// TestAConstantLeavesLittleGarbage: the cost of a change that spare programs take depends on the change, not on the
// topology.
func TestAConstantLeavesLittleGarbage(t *testing.T) {
	netns.NeedRoot(t)
	b := newBench(t, setting{typ: settings[0].typ, mode: ModeAuto, cut: 8, spares: true})
	one, _, _, _ := b.chain()
	last := one
	for range 60 {
		n := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		if last != one {
			b.link(last, 1, n, 0)
		}
		last = n
	}
	b.commit()
	b.spare(one)
	b.plane.inline.stop()
	const rounds = 10
	var before, after runtime.MemStats
	graphs := make([]*Graph, rounds)
	for i := range graphs {
		g := *b.g
		g.Cubes = map[CubeID]*Node{}
		for id, n := range b.g.Cubes {
			g.Cubes[id] = n
		}
		n := *one
		n.Constants = map[string]any{"what": uint32(i % 2)}
		g.Cubes[one.ID] = &n
		graphs[i] = &g
	}
	b.must(func() error {
		for i, g := range graphs {
			if i == 1 {
				runtime.ReadMemStats(&before)
			}
			ch, err := b.plane.Prepare(context.Background(), g)
			if err == nil {
				err = ch.Commit()
			}
			if err != nil {
				return err
			}
		}
		runtime.ReadMemStats(&after)
		return nil
	})
	if each := (after.TotalAlloc - before.TotalAlloc) / (rounds - 1); each > 100_000 {
		t.Errorf("a constant of one of 62 cubes leaves %d bytes of garbage, want at most 100,000", each)
	} else {
		t.Logf("%d bytes a change", each)
	}
}

// TestARestartInlinesAtOnce: the programs of the previous daemon forward meanwhile.
func TestARestartInlinesAtOnce(t *testing.T) {
	in(t, spareSettings[:2], func(t *testing.T, b *bench) {
		one, two, a, z := b.chain()
		b.spare(one)
		b.restart()
		for _, n := range []*Node{one, two} {
			if s := b.plane.Status(n.ID); s.Mode != "inline" {
				t.Errorf("%s: %+v, want inline", n.Name, s)
			}
		}
		if n := b.plane.Activity().Relinks["inline"].Count; n != 1 {
			t.Errorf("%d sets of programs were inlined for one segment", n)
		}
		b.passes(a, z, frame("x"))
		b.close()
		b.open()
		b.plane.inline.budget = 10 // nothing fits
		for _, n := range []*Node{one, two} {
			b.must(func() error {
				return b.plane.CreateCube(Spec{ID: n.ID, UUID: n.Name, Name: n.Name, Service: "probe", Type: b.typ})
			})
		}
		b.commit()
		if s := b.plane.Status(one.ID); s.Mode != "call" {
			t.Errorf("what is too large to be inlined runs so: %+v", s)
		}
		b.passes(a, z, frame("y"))
	})
}

// TestExternalServicesHaveNoSparePrograms: their programs could write live constants, their own and those of others.
func TestExternalServicesHaveNoSparePrograms(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, setting{typ: settings[0].typ, mode: ModeAuto, cut: 1, spares: true})
	one, two, a, z := b.chain()
	b.spare(one)
	b.nextID++
	n := &Node{ID: b.nextID, Name: "external", Type: b.typ, LogLevel: LogInfo, Ports: map[uint16]*Port{}}
	b.must(func() error {
		return b.plane.CreateCube(Spec{ID: n.ID, UUID: n.Name, Name: n.Name, Service: "probe", Type: b.typ, External: true})
	})
	b.g.Cubes[n.ID] = n
	b.commit()
	b.spare(two)
	netns.Eventually(t, soon, func() error {
		b.plane.mu.Lock()
		defer b.plane.mu.Unlock()
		if b.plane.byCube[n.ID].note == "" {
			return errors.New("the inliner has not looked at the cube yet")
		}
		return nil
	})
	if c := b.plane.inline.nextSpare(); c != nil {
		t.Errorf("spare programs of %v are to be built", c.IDs)
	}
	b.plane.mu.Lock()
	if b.plane.spareOf(b.plane.byCube[n.ID]) != nil {
		t.Error("an external cube has spare programs")
	}
	b.plane.mu.Unlock()
	b.passes(a, z, frame("x"))
}

// TestAPanicWhileBuildingReachesTheCaller, which recovers from it: in a goroutine of its own it would end the daemon.
func TestAPanicWhileBuildingReachesTheCaller(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, setting{typ: settings[0].typ, mode: ModeAuto})
	_, _, a, z := b.chain()
	b.must(func() error {
		defer func() {
			if recover() == nil {
				t.Error("a segment without code was built")
			}
		}()
		ch := &change{p: b.plane}
		_, err := ch.buildAll(context.Background(), []*segment{{Description: &segments.Description{}}})
		return err
	})
	b.passes(a, z, frame("x"))
}
