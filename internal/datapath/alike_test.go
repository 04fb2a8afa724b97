// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/segments"
	"github.com/polycube/polycube/test/netns"
)

// twin is a cube that is like others, between two hosts.
type twin struct {
	*Node
	x, y *netns.Node
}

func (b *bench) twins(n int) []twin {
	b.t.Helper()
	b.serve("twin")
	var out []twin
	for range n {
		c, x, y := b.pair("twin", nil)
		out = append(out, twin{c, x, y})
	}
	b.commit()
	return out
}

// does sets what a twin does with packets.
func (b *bench) does(c twin, what uint32) {
	b.t.Helper()
	rows, err := b.plane.Map(c.ID, "twin_rows")
	if err == nil {
		err = rows.Put(uint32(c.ID), what)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// generations are the sets of programs in use.
func (b *bench) generations() int {
	b.plane.mu.Lock()
	defer b.plane.mu.Unlock()
	return len(b.plane.users)
}

func TestAlikeCubesRunTheSamePrograms(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		twins := b.twins(3)
		if n := b.generations(); n != 1 {
			t.Errorf("3 cubes that are alike have %d sets of programs", n)
		}
		one, two, three := twins[0], twins[1], twins[2]
		for i, c := range twins {
			for range i + 1 {
				b.passes(c.x, c.y, frame("there"))
			}
			b.packets(c.Node, 0, uint64(i+1), 0)
			b.packets(c.Node, 1, 0, uint64(i+1))
		}
		for what, fate := range map[uint32]string{1: "told-to", 2: "slowpath", 4: "flood", 6: "bad-verdict", 7: "pass", 8: "no-peer"} {
			b.does(two, what)
			before := b.fate(two.Node, fate)
			b.send(two.x, frame("x"))
			b.eventually(two.Node, fate, before+1)
			if n := b.fate(one.Node, fate) + b.fate(three.Node, fate); n != 0 {
				t.Errorf("%d packets %s are counted for other cubes", n, fate)
			}
		}
		b.passes(one.x, one.y, frame("does not do what another does"))
	})
}

func TestAlikeCubesAreTellable(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		twins := b.twins(2)
		b.records()
		for what, kind := range map[uint32]uint16{3: recordPacket, 5: recordLog} {
			for _, c := range twins {
				b.does(c, what)
				b.passes(c.x, c.y, frame("x"))
				rs := b.records()
				if len(rs) != 1 || rs[0].kind != kind || rs[0].cube != uint16(c.ID) {
					t.Errorf("records of %s: %+v", c.Name, rs)
				} else if kind == recordLog && binary.NativeEndian.Uint64(rs[0].data[8:]) != uint64(c.ID) {
					t.Errorf("%s logs %x", c.Name, rs[0].data[:16])
				}
			}
		}
		b.traces(link.Session{})
		if n := b.generations(); n != 1 {
			t.Errorf("2 cubes that are traced have %d sets of programs", n)
		}
		for _, c := range twins {
			b.does(c, 1)
			b.send(c.x, frame("x"))
			if got := b.story(1); !strings.Contains(got, c.Name) {
				t.Errorf("the trace of a packet in %s: %s", c.Name, got)
			}
		}
		b.traces(link.Session{Cube: uint16(twins[1].ID)})
		b.send(twins[0].x, frame("x"))
		b.send(twins[1].x, frame("x"))
		if got := b.story(1); !strings.Contains(got, twins[1].Name) || strings.Contains(got, twins[0].Name) {
			t.Errorf("the trace of one of two cubes: %s", got)
		}
	})
}

// TestOneOfManyChanges: its packets go on, and so do those of the others, which are not linked again.
func TestOneOfManyChanges(t *testing.T) {
	in(t, settings, func(t *testing.T, b *bench) {
		twins := b.twins(3)
		one, two := twins[0], twins[1]
		common := b.gen(one.Node)
		var heard []*netns.Raw
		for _, c := range []twin{one, two} {
			heard = append(heard, netns.OpenRaw(t, c.y, netns.Inner))
		}
		stops := []func() uint32{stream(b, one.x, time.Millisecond), stream(b, two.x, time.Millisecond)}
		for i := range 6 {
			two.LogLevel = LogLevel(i % 3)
			b.commit()
			if b.gen(one.Node) != common || b.gen(twins[2].Node) != common {
				t.Fatal("cubes that did not change got other programs")
			}
			if alone := b.gen(two.Node) != common; alone != (two.LogLevel != LogInfo) {
				t.Errorf("with log level %d, the cube has programs of its own: %t", two.LogLevel, alone)
			}
		}
		for i, stop := range stops {
			arrive(b, heard[i], stop())
		}
		two.Constants = map[string]any{"strict": uint32(1)}
		b.commit()
		b.send(two.x, frame("x"))
		b.eventually(two.Node, "told-to", 1)
		b.passes(one.x, one.y, frame("x"))
		b.wantMembers(common, one.ID, twins[2].ID)
		b.drop(twins[2].Node)
		b.wantMembers(common, one.ID)
		b.passes(one.x, one.y, frame("x"))
		b.close()
		b.open()
		b.serve("twin")
		for _, c := range []twin{one, two} {
			spec := b.spec(c.Node, nil, nil)
			spec.Service = "twin"
			b.must(func() error { return b.plane.CreateCube(spec) })
		}
		b.passes(one.x, one.y, frame("before the first change"))
		b.commit()
		b.passes(one.x, one.y, frame("behind it"))
	})
}

// wantMembers waits until programs are for some cubes only.
func (b *bench) wantMembers(gen *segments.Generation, want ...CubeID) {
	b.t.Helper()
	netns.Eventually(b.t, soon, func() error {
		b.plane.mu.Lock()
		defer b.plane.mu.Unlock()
		var is []CubeID
		for id := range CubeID(link.MaxCubes) {
			if gen.Has(id) {
				is = append(is, id)
			}
		}
		if fmt.Sprint(is) != fmt.Sprint(want) {
			return fmt.Errorf("the programs are for %v, want %v", is, want)
		}
		return nil
	})
}

// TestProgramsOfCubesAloneAreKept: a cube that is linked to another for a while gets the programs back that it had alone, and
// they go with the last cube of the service.
func TestProgramsOfCubesAloneAreKept(t *testing.T) {
	kept := []setting{{typ: cube.TypeTC, mode: ModeAuto, spares: true}, {typ: cube.TypeXDPDRV, mode: ModeCall, spares: true}}
	in(t, kept, func(t *testing.T, b *bench) {
		one := b.twins(1)[0]
		alone := b.gen(one.Node)
		other := b.cube("twin", 1, nil)
		further := &Port{Index: 2, Name: "p2", Slot: b.slots}
		for round := range 3 {
			b.g.Cubes[other.ID], one.Ports[2] = other, further
			b.link(one.Node, 2, other, 0)
			b.commit()
			if b.gen(one.Node) == alone {
				t.Fatal("a linked cube has the programs of one that is alone")
			}
			b.passes(one.x, one.y, frame("linked"))
			delete(b.g.Cubes, other.ID)
			delete(one.Ports, 2)
			b.commit()
			if b.gen(one.Node) != alone {
				t.Errorf("round %d: the cube has new programs", round)
			}
			b.passes(one.x, one.y, frame("alone again"))
		}
		b.wantMembers(alone, one.ID)
		b.must(func() error { return b.plane.DeleteCube(other.ID) })
		b.drop(one.Node)
		b.plane.mu.Lock()
		defer b.plane.mu.Unlock()
		if n := len(b.plane.kept.all); n != 0 {
			t.Errorf("%d sets of programs are kept for a service without cubes", n)
		}
	})
}

// TestThePreparedChangeThatTakesKeptProgramsIsAborted: they are kept for the next one.
func TestThePreparedChangeThatTakesKeptProgramsIsAborted(t *testing.T) {
	in(t, []setting{{typ: cube.TypeTC, mode: ModeCall, spares: true}}, func(t *testing.T, b *bench) {
		one := b.twins(1)[0]
		alone := b.gen(one.Node)
		other := b.cube("twin", 1, nil)
		one.Ports[2] = &Port{Index: 2, Name: "p2", Slot: b.slots}
		b.link(one.Node, 2, other, 0)
		b.commit()
		delete(b.g.Cubes, other.ID)
		delete(one.Ports, 2)
		change, err := b.plane.Prepare(t.Context(), cloneOf(b.g))
		if err != nil {
			t.Fatal(err)
		}
		change.Abort()
		b.passes(one.x, one.y, frame("linked"))
		b.commit()
		if b.gen(one.Node) != alone {
			t.Error("the cube has new programs")
		}
		b.passes(one.x, one.y, frame("alone again"))
	})
}
