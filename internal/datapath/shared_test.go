// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/state"
	"github.com/polycube/polycube/test/netns"
)

//go:embed testdata/*.o
var testObjects embed.FS

// objectsOf are the compiled programs of a file in testdata.
func objectsOf(file string) map[cube.Hook][]byte {
	out := map[cube.Hook][]byte{}
	for _, h := range abi.Hooks {
		elf, err := testObjects.ReadFile("testdata/" + file + "." + h.String() + ".o")
		if err != nil {
			panic(err) // it was embedded
		}
		out[h] = elf
	}
	return out
}

// serve registers services whose programs have the same name.
func (b *bench) serve(services ...string) {
	b.t.Helper()
	for _, s := range services {
		if err := b.plane.CheckObject(s, objectsOf(s)); err != nil {
			b.t.Fatal(err)
		}
	}
}

// pair is a cube between two hosts.
func (b *bench) pair(service string, constants map[string]any) (n *Node, x, y *netns.Node) {
	b.t.Helper()
	n = b.cube(service, 2, constants)
	x, y = b.host("x"+n.Name, "", n, 0), b.host("y"+n.Name, "", n, 1)
	return n, x, y
}

// number reads a counter of a cube, 0 if there is none.
func (b *bench) number(n *Node, name string) uint64 {
	b.t.Helper()
	m, err := b.plane.Map(n.ID, name)
	if err != nil {
		b.t.Fatal(err)
	}
	var v uint64
	if err := m.Lookup(uint32(0), &v); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		b.t.Fatal(err)
	}
	return v
}

// drop removes a cube from the graph and deletes it.
func (b *bench) drop(n *Node) {
	b.t.Helper()
	for _, p := range n.Ports {
		delete(b.g.Netdevs, p.Peer.Netdev)
	}
	delete(b.g.Cubes, n.ID)
	b.commit()
	b.must(func() error { return b.plane.DeleteCube(n.ID) })
}

// there reports which of the plane's shared maps are pinned.
func (b *bench) there() string {
	b.t.Helper()
	paths, err := filepath.Glob(filepath.Join(b.dir, "[sp]*", "*", "*"))
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range paths {
		paths[i] = strings.TrimPrefix(paths[i], b.dir+"/")
	}
	return strings.Join(paths, " ")
}

func TestMapsInCommonAreOneForAllWhoNameThem(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		b.serve("sharer", "importer")
		one, x, y := b.pair("sharer", map[string]any{"what": uint32(1)})
		two, v, w := b.pair("sharer", map[string]any{"what": uint32(2)})
		own, p, q := b.pair("sharer", map[string]any{"what": uint32(3)})
		imp, r, s := b.pair("importer", nil)
		b.commit()
		for _, hosts := range [][2]*netns.Node{{x, y}, {x, y}, {v, w}, {p, q}, {r, s}} {
			b.passes(hosts[0], hosts[1], frame("x"))
		}
		for _, n := range []*Node{one, two, own} {
			if shared, public := b.number(n, "visits"), b.number(n, "notices"); shared != 3 || public != 2 {
				t.Errorf("%s sees %d visits and %d notices, want 3 and 2", n.Name, shared, public)
			}
			if got, want := b.number(n, "own"), map[*Node]uint64{own: 1}[n]; got != want {
				t.Errorf("%s has %d in its own map, want %d", n.Name, got, want)
			}
		}
		if shared, public := b.number(imp, "visits"), b.number(imp, "notices"); shared != 3 || public != 2 {
			t.Errorf("the importer sees %d visits and %d notices, want 3 and 2", shared, public)
		}
	})
}

func TestMapsInCommonGoWithTheirLastUser(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[0])
	b.serve("sharer", "importer")
	one, x, y := b.pair("sharer", map[string]any{"what": uint32(2)})
	imp, _, _ := b.pair("importer", nil)
	b.commit()
	b.passes(x, y, frame("x"))
	const all = "public/sharer/notices shared/meeting/visits"
	if got := b.there(); got != all {
		t.Errorf("pinned are %s, want %s", got, all)
	}
	b.drop(one)
	if got := b.there(); got != all {
		t.Errorf("with the importer left, pinned are %s, want %s", got, all)
	}
	if got := b.number(imp, "notices"); got != 1 {
		t.Errorf("the importer sees %d notices, want 1", got)
	}
	b.drop(imp)
	if got := b.there(); got != "" {
		t.Errorf("without users, pinned are %s", got)
	}
	if n := b.plane.state.Common(); n != 0 {
		t.Errorf("%d maps in common are open", n)
	}
}

// inSpace creates a cube of the service sharer whose own map is in a space.
func (b *bench) inSpace(name, space string) (Spec, error) {
	spec := Spec{ID: CubeID(100 + len(name)), UUID: name, Name: name, Service: "sharer", Type: b.typ, Spaces: map[string]string{"own": space}}
	return spec, b.inLab(func() error { return b.plane.CreateCube(spec) })
}

// TestOwnMapsInASpaceAreOne, as long as a cube has it: also for one that is held after a restart.
func TestOwnMapsInASpaceAreOne(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[0])
	b.serve("sharer")
	number := func(s Spec) (v uint64) {
		t.Helper()
		m, err := b.plane.Map(s.ID, "own")
		if err == nil {
			err = m.Lookup(uint32(0), &v)
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.Fatal(err)
		}
		return v
	}
	a, err := b.inSpace("a", "up.1")
	bb, err2 := b.inSpace("bb", "up.1")
	ccc, err3 := b.inSpace("ccc", "up_1")
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	m, err := b.plane.Map(a.ID, "own")
	if err == nil {
		err = m.Put(uint32(0), uint64(7))
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := [3]uint64{number(a), number(bb), number(ccc)}; got != [3]uint64{7, 7, 0} {
		t.Errorf("the maps have %v", got)
	}
	chosen := func() string {
		t.Helper()
		paths, err := filepath.Glob(filepath.Join(b.dir, "chosen", "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range paths {
			paths[i] = strings.TrimPrefix(paths[i], b.dir+"/")
		}
		return strings.Join(paths, " ")
	}
	const up1, other = "chosen/sharer-up_d1/own", "chosen/sharer-up__1/own"
	if got := chosen(); got != other+" "+up1 {
		t.Errorf("pinned are %s", got)
	}
	b.must(func() error { return b.plane.DeleteCube(a.ID) })
	b.must(func() error { return b.plane.DeleteCube(ccc.ID) })
	if got := chosen(); got != up1 || number(bb) != 7 {
		t.Errorf("with one user left, pinned are %s with %d", got, number(bb))
	}
	b.must(func() error { return b.plane.DeleteCube(bb.ID) })
	if got := chosen(); got != "" {
		t.Errorf("without users, pinned are %s", got)
	}
	for space, name := range map[string]string{"a/b": "own", "": "own", "a": "visits", "b": "none"} {
		spec := Spec{ID: 9, UUID: "x", Name: "x", Service: "sharer", Type: b.typ, Spaces: map[string]string{name: space}}
		if err := b.inLab(func() error { return b.plane.CreateCube(spec) }); err == nil {
			t.Errorf("map %s is in the space %q", name, space)
		}
	}
}

// TestOwnMapsInASpaceOutliveTheDaemon: a cube that is held has the map that it shared.
func TestOwnMapsInASpaceOutliveTheDaemon(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[0])
	b.serve("sharer")
	n, x, y := b.pair("sharer", map[string]any{"what": uint32(3)})
	spec := Spec{ID: n.ID, UUID: n.Name, Name: n.Name, Service: "sharer", Type: b.typ}
	b.must(func() error { return b.plane.DeleteCube(n.ID) })
	spec.Spaces = map[string]string{"own": "up"}
	b.must(func() error { return b.plane.CreateCube(spec) })
	b.commit()
	b.passes(x, y, frame("x"))
	b.close()
	b.passes(x, y, frame("daemon away"))
	b.open()
	spec.Spaces = nil
	b.must(func() error { return b.plane.HoldCube(spec) })
	b.commit()
	b.passes(x, y, frame("held"))
	if got := b.number(n, "own"); got != 3 {
		t.Errorf("the held cube has counted %d, want 3", got)
	}
}

func TestMapsInCommonSurviveARestart(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[0])
	b.serve("sharer", "importer")
	one, x, y := b.pair("sharer", map[string]any{"what": uint32(2)})
	imp, _, _ := b.pair("importer", nil)
	b.commit()
	b.passes(x, y, frame("x"))
	b.close()
	b.passes(x, y, frame("daemon away"))
	b.open()
	b.serve("importer") // the owner's service is not loaded any more
	spec := Spec{ID: imp.ID, UUID: imp.Name, Name: imp.Name, Service: "importer", Type: b.typ}
	if err := b.inLab(func() error { return b.plane.CreateCube(spec) }); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("importing from a service that is not loaded: %v", err)
	}
	b.serve("sharer")
	b.must(func() error { return b.plane.CreateCube(spec) })
	// The owner's cube is in the store, but cannot be opened: its maps stay.
	b.plane.Keep(one.Name)
	g := b.g
	b.g = &Graph{Cubes: map[CubeID]*Node{imp.ID: imp}, Netdevs: map[string]*Netdev{}}
	for _, p := range imp.Ports {
		b.g.Netdevs[p.Peer.Netdev] = g.Netdevs[p.Peer.Netdev]
	}
	b.commit()
	if got := b.number(imp, "notices"); got != 2 {
		t.Errorf("after the restart the importer sees %d notices, want 2", got)
	}
	b.drop(imp)
	if got := b.there(); got != "public/sharer/notices shared/meeting/visits" {
		t.Errorf("the kept cube's maps in common are %q", got)
	}
	b.must(func() error { return b.plane.Forget(one.Name) })
	if got := b.there(); got != "" || len(b.pins("cubes")) != 0 {
		t.Errorf("after all are gone, pinned are %s and %v", got, b.pins("cubes"))
	}
}

func TestMapsInCommonAreDeclaredAlikeOrRefused(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[0])
	b.serve("sharer", "importer", "clash", "crowd")
	one, x, y := b.pair("sharer", map[string]any{"what": uint32(1)})
	b.commit()
	before := fmt.Sprint(b.there(), b.pins("cubes"), b.pins("cubes/"+one.Name))
	for service, want := range map[string]string{
		"crowd": "shared/meeting/visits is in use by " + one.Name,
		"clash": "service sharer has a different declaration",
	} {
		err := b.inLab(func() error {
			return b.plane.CreateCube(Spec{ID: 99, UUID: "other", Name: "other", Service: service, Type: b.typ})
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", service, err, want)
		}
		if after := fmt.Sprint(b.there(), b.pins("cubes"), b.pins("cubes/"+one.Name)); after != before {
			t.Errorf("%s: pinned are %s, before %s", service, after, before)
		}
	}
	err := b.plane.CreateCube(Spec{ID: 99, UUID: "other", Name: "other", Service: "sharer", Type: b.typ, MapSizes: map[string]uint32{"visits": 9}})
	if !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("another size for a map in common: %v", err)
	}
	b.passes(x, y, frame("x"))
	if got := b.number(one, "visits"); got != 1 {
		t.Errorf("%d visits, want 1", got)
	}
	b.drop(one)
	// Now the name is free.
	crowd, _, _ := b.pair("crowd", nil)
	b.commit()
	b.drop(crowd)
	if got := b.there(); got != "" {
		t.Errorf("in the end, pinned are %s", got)
	}
}

func TestAnObjectThatGraspsForWhatIsNotItsOwnIsRefused(t *testing.T) {
	c := state.NewCubes(state.New(state.Options{Lock: &sync.Mutex{}}))
	err := c.CheckObject("grabber", objectsOf("grabber"))
	if err == nil || !strings.Contains(err.Error(), `map "pcn_entries": names with the prefix pcn_ are reserved for the framework`) {
		t.Errorf("a map of the framework's name: %v", err)
	}
	if c.HasFunction("grabber", cube.TC, link.Ingress) {
		t.Error("the refused service is known")
	}
}

func TestObjectsOfTheDaemonAreParsedWhenTheyAreNeeded(t *testing.T) {
	c := state.NewCubes(state.New(state.Options{Lock: &sync.Mutex{}}))
	c.AddObjects("tally", objectsOf("tally"))
	c.AddObjects("grabber", objectsOf("grabber"))
	c.AddObjects("forgotten", objectsOf("tally"))
	c.ForgetService("forgotten")
	for service, want := range map[string]bool{"tally": true, "grabber": false, "forgotten": false, "unknown": false} {
		if got := c.HasFunction(service, cube.TC, link.Ingress); got != want {
			t.Errorf("the ingress program of %s is there: %t", service, got)
		}
	}
	err := c.CreateCube(Spec{Name: "g1", Service: "grabber", UUID: "u", ID: 1, Type: cube.TypeTC})
	if err == nil || !strings.Contains(err.Error(), "names with the prefix pcn_ are reserved for the framework") {
		t.Errorf("a cube of a service with an invalid object: %v", err)
	}
}

func TestUUIDsAreNoPaths(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[0])
	c := b.cube("probe", 1, nil)
	for _, uuid := range []string{"", ".", "..", "../x", "a/b", "*", strings.Repeat("u", 129), c.Name} {
		spec := Spec{ID: 9, UUID: uuid, Name: "x", Service: "probe", Type: b.typ}
		if err := b.plane.CreateCube(spec); err == nil {
			t.Errorf("a cube with the UUID %.20q was made", uuid)
		}
		if err := b.plane.Forget(uuid); err == nil {
			t.Errorf("a cube with the UUID %.20q was forgotten", uuid)
		}
	}
	if _, err := os.Stat(filepath.Join(b.dir, "cubes", c.Name)); err != nil {
		t.Error(err)
	}
}
