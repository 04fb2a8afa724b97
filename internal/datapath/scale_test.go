// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/test/netns"
)

// pairs makes 2n netdevs in veth pairs, and returns their names.
func (b *bench) pairs(n int) []string {
	b.t.Helper()
	var names []string
	b.must(func() error {
		for i := range n {
			attrs := netlink.NewLinkAttrs()
			attrs.Name = fmt.Sprint("d", i)
			pair := &netlink.Veth{LinkAttrs: attrs, PeerName: fmt.Sprint("e", i)}
			if err := netlink.LinkAdd(pair); err != nil {
				return fmt.Errorf("making %s: %w", attrs.Name, err)
			}
			names = append(names, attrs.Name, pair.PeerName)
		}
		return nil
	})
	return names
}

// TestTimedAPortMoreOnACubeOfManyPortsCostsLittle uses filters, because the kernel waits for a grace period at each tcx
// link, which is most of the cost of 200 ports.
func TestTimedAPortMoreOnACubeOfManyPortsCostsLittle(t *testing.T) {
	in(t, settings[2:3], func(t *testing.T, b *bench) {
		const ports = 200
		c := b.cube("probe", ports+2, map[string]any{"what": uint32(2)})
		names := b.pairs(ports / 2)
		for i, name := range names {
			b.netdev(name)
			c.Ports[uint16(i)].Peer = Peer{Netdev: name}
		}
		start := time.Now()
		b.commit()
		t.Logf("%d ports at once: %s", ports, time.Since(start).Round(time.Millisecond))
		gen := b.generation()
		a := b.host("a", "", c, ports)
		start = time.Now()
		b.commit()
		took := time.Since(start)
		t.Logf("one port more: %s", took.Round(time.Microsecond))
		if b.generation() != gen {
			t.Error("port 201 relinked the component")
		}
		if took > time.Second {
			t.Errorf("one port more took %s", took)
		}
		z := b.host("z", "", c, ports+1)
		b.commit()
		if b.generation() != gen {
			t.Error("port 202 relinked the component")
		}
		ls := b.listeners(z)
		b.send(a, frame("to all"))
		b.receives(ls[0], "z", frame("to all"))
		if got := b.counters(c, 0); got.TxPackets > 1 {
			t.Errorf("the first port counts %+v", got)
		}
		// All but the last two are removed again.
		for i, name := range names {
			c.Ports[uint16(i)].Peer = Peer{}
			delete(b.g.Netdevs, name)
		}
		b.commit()
		if b.generation() != gen {
			t.Error("ports that lost their netdev relinked the component")
		}
		if n := b.plane.netdevs.Count(); n != 2 {
			t.Errorf("%d netdevs carry programs, want two", n)
		}
		b.send(z, frame("back"))
		b.eventually(c, "flood", 2)
	})
}

// holdings are the kernel objects of a plane other than the maps and programs of cubes.
type holdings struct{ descriptors, pins int }

// holdings counts the descriptors of the framework's maps and the pins.
func (b *bench) holdings() holdings {
	b.t.Helper()
	own := map[string]bool{}
	for _, m := range b.plane.fw.Maps {
		own[fmt.Sprint("map_id:\t", b.mapID(m))] = true
	}
	infos, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil {
		b.t.Fatal(err)
	}
	var h holdings
	for _, path := range infos {
		info, _ := os.ReadFile(path) // of another test, closed meanwhile
		for line := range strings.Lines(string(info)) {
			if own[strings.TrimSpace(line)] {
				h.descriptors++
			}
		}
	}
	err = filepath.WalkDir(b.dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			h.pins++
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	return h
}

func (b *bench) mapID(m *ebpf.Map) ebpf.MapID {
	b.t.Helper()
	info, err := m.Info()
	if err != nil {
		b.t.Fatal(err)
	}
	id, _ := info.ID()
	return id
}

// watched are the maps and programs of a plane at one time, by ID.
type watched struct {
	maps  map[ebpf.MapID]bool
	progs map[ebpf.ProgramID]bool
}

func newWatched() *watched {
	return &watched{map[ebpf.MapID]bool{}, map[ebpf.ProgramID]bool{}}
}

// watch records what the cubes have now.
func (b *bench) watch(w *watched) {
	b.t.Helper()
	b.plane.mu.Lock()
	defer b.plane.mu.Unlock()
	for id := range b.g.Cubes {
		for _, m := range b.plane.state.Cube(id).LinkMaps() {
			w.maps[b.mapID(m.(*ebpf.Map))] = true
		}
	}
	for _, c := range b.plane.parts {
		arrays, progs := c.gen.Objects()
		for _, m := range arrays {
			w.maps[b.mapID(m)] = true
		}
		for _, p := range progs {
			info, err := p.Info()
			if err != nil {
				b.t.Fatal(err)
			}
			id, _ := info.ID()
			w.progs[id] = true
		}
	}
}

// without removes what others have.
func (w *watched) without(others *watched) {
	for id := range others.maps {
		delete(w.maps, id)
	}
	for id := range others.progs {
		delete(w.progs, id)
	}
}

// left counts those that still exist. It lists identifiers and opens nothing: opening a program array that is about to
// be emptied can make the kernel keep it forever.
func (w *watched) left() (maps, progs int) {
	for id, err := ebpf.MapGetNextID(0); err == nil; id, err = ebpf.MapGetNextID(id) {
		if w.maps[id] {
			maps++
		}
	}
	for id, err := ebpf.ProgramGetNextID(0); err == nil; id, err = ebpf.ProgramGetNextID(id) {
		if w.progs[id] {
			progs++
		}
	}
	return maps, progs
}

// TestTimedAHundredCubesComeAndGo: a cube costs at most 20 ms, from its creation to its deletion.
func TestTimedAHundredCubesComeAndGo(t *testing.T) {
	const rounds, each = 10, 10
	in(t, settings[1:2], func(t *testing.T, b *bench) {
		b.chain()
		gone, start := newWatched(), time.Now()
		for range rounds {
			b.comeAndGo(gone, each)
		}
		took := time.Since(start)
		t.Logf("%d cubes in %s", rounds*each, took.Round(time.Millisecond))
		if took > rounds*each*20*time.Millisecond {
			t.Errorf("%d cubes took %s", rounds*each, took)
		}
	})
}

func TestAThousandCubesComeAndGoAndLeaveNothing(t *testing.T) {
	const rounds, each = 100, 10
	in(t, settings[1:2], func(t *testing.T, b *bench) {
		_, _, a, z := b.chain()
		before, gone := b.holdings(), newWatched()
		for range rounds {
			b.comeAndGo(gone, each)
		}
		b.passes(a, z, frame("x"))
		now := newWatched()
		b.watch(now)
		gone.without(now)
		if len(gone.maps) < rounds*each || len(gone.progs) < rounds {
			t.Fatalf("only %d maps and %d programs were seen to come", len(gone.maps), len(gone.progs))
		}
		netns.Eventually(t, soon, func() error {
			if maps, progs := gone.left(); maps+progs > 0 {
				return fmt.Errorf("%d maps and %d programs of cubes that are gone are left", maps, progs)
			}
			if h := b.holdings(); h != before {
				return fmt.Errorf("%+v at the end, %+v at the start", h, before)
			}
			return nil
		})
	})
}

// comeAndGo makes a chain of n cubes at the first cube's port 2, and deletes it again. IDs and slots are reused each
// time.
func (b *bench) comeAndGo(w *watched, n int) {
	b.t.Helper()
	one := b.g.Cubes[1]
	b.slots, b.nextID = 100, 100
	last, port := one, uint16(2)
	var made []*Node
	for range n {
		c := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		b.link(last, port, c, 0)
		last, port, made = c, 1, append(made, c)
	}
	b.commit()
	b.watch(w)
	one.Ports[2].Peer = Peer{}
	for _, c := range made {
		delete(b.g.Cubes, c.ID)
	}
	b.commit()
	b.watch(w)
	for _, c := range made {
		b.must(func() error { return b.plane.DeleteCube(c.ID) })
	}
}
