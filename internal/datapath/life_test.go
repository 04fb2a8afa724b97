// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

// chain makes two linked cubes with a host at each end.
func (b *bench) chain() (one, two *Node, a, z *netns.Node) {
	b.t.Helper()
	one = b.cube("probe", 3, map[string]any{"what": uint32(6)})
	two = b.cube("probe", 3, map[string]any{"what": uint32(6)})
	b.link(one, 1, two, 0)
	a, z = b.host("a", "", one, 0), b.host("z", "", two, 1)
	b.commit()
	return one, two, a, z
}

// stops fails if a frame gets through; the reason must be counted.
func (b *bench) stops(from *netns.Node, n *Node, reason string) {
	b.t.Helper()
	before := b.fate(n, reason)
	b.send(from, frame("stop"))
	b.eventually(n, reason, before+1)
}

func TestTrafficFlowsOnWithoutTheDaemonAndItAdoptsWhatItFinds(t *testing.T) {
	in(t, whole, func(t *testing.T, b *bench) {
		one, two, a, z := b.chain()
		b.passes(a, z, frame("before"))
		b.close()
		b.passes(a, z, frame("daemon away"))
		links := b.pins("links")
		roots := b.pins("roots")
		b.open()
		b.passes(a, z, frame("daemon starting"))
		for _, n := range []*Node{one, two} {
			b.must(func() error {
				return b.plane.CreateCube(Spec{ID: n.ID, UUID: n.Name, Name: n.Name, Service: "probe", Type: b.typ})
			})
		}
		b.commit()
		b.passes(a, z, frame("adopted"))
		b.passes(z, a, frame("adopted"))
		if got := b.counters(one, 0); got.RxPackets != 4 || got.TxPackets != 1 {
			t.Errorf("counters after the restart: %+v, want 4 received, 1 sent", got)
		}
		if now := b.pins("links"); !sameStrings(now, links) {
			t.Errorf("links %v, before the restart %v", now, links)
		}
		if now := b.pins("roots"); !sameStrings(now, roots) {
			t.Errorf("roots %v, before the restart %v", now, roots)
		}
		netns.Eventually(t, soon, func() error {
			if g := b.pins("generations"); len(g) != 1 {
				return fmt.Errorf("generations %v, want one", g)
			}
			return nil
		})
	})
}

func (b *bench) pins(sub string) []string {
	b.t.Helper()
	entries, err := os.ReadDir(filepath.Join(b.dir, sub))
	if err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func sameStrings(a, b []string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

func TestComponentsSplitAndMerge(t *testing.T) {
	in(t, whole, func(t *testing.T, b *bench) {
		one, two, a, z := b.chain()
		one.Ports[1].Peer, two.Ports[0].Peer = Peer{}, Peer{}
		b.commit()
		b.stops(a, one, "no-peer")
		b.stops(z, two, "no-peer")
		// each half forwards by itself
		a2 := b.host("a2", "", one, 1)
		z2 := b.host("z2", "", two, 0)
		b.commit()
		b.passes(a, a2, frame("left"))
		b.passes(z, z2, frame("right"))
		// and together again
		b.link(one, 1, two, 0)
		delete(b.g.Netdevs, "a2")
		delete(b.g.Netdevs, "z2")
		b.commit()
		b.passes(a, z, frame("whole"))
		b.passes(z, a, frame("whole"))
		if len(b.plane.parts) != 1 {
			t.Errorf("%d components, want 1", len(b.plane.parts))
		}
	})
}

func TestANetdevMovesToAnotherCube(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		one, _, a, z := b.chain()
		other := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		y := b.host("y", "", other, 1)
		b.commit()
		one.Ports[0].Peer = Peer{}
		other.Ports[0].Peer = Peer{Netdev: "a"}
		b.commit()
		b.passes(a, y, frame("moved"))
		b.passes(y, a, frame("moved"))
		b.stops(z, one, "no-peer")
	})
}

func TestAReloadKeepsMapsAndAnUnchangedComponentItsProgram(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		one, _, a, z := b.chain()
		gen := b.plane.parts[0].gen
		b.passes(a, z, frame("x"))
		b.host("b", "", one, 2)
		b.commit()
		if b.plane.parts[0].gen != gen {
			t.Error("a netdev more on a port relinked the component")
		}
		one.Constants = map[string]any{"what": uint32(6), "out": uint16(2)}
		b.commit()
		if b.plane.parts[0].gen == gen {
			t.Error("a new constant did not relink the component")
		}
		b.passes(a, z, frame("x"))
		b.must(func() error {
			m, err := b.plane.Map(one.ID, "seen")
			if err != nil {
				return err
			}
			var n uint64
			if err := m.Lookup(uint32(0), &n); err != nil {
				return err
			}
			if n != 2 {
				return fmt.Errorf("the cube's map counts %d packets, want 2", n)
			}
			return nil
		})
	})
}

func TestWhatCannotBeAttachedChangesNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		one, _, a, z := b.chain()
		before := fmt.Sprint(b.pins("links"), b.pins("roots"), b.plane.tables.InUse().Entries)
		one.Ports[2].Peer = Peer{Netdev: "ghost"}
		b.g.Netdevs["ghost"] = &Netdev{Name: "ghost", Index: 9999}
		one.Constants = map[string]any{"what": uint32(1)}
		if err := b.inLab(b.tryCommit); err == nil {
			t.Fatal("a netdev that does not exist was accepted")
		}
		if now := fmt.Sprint(b.pins("links"), b.pins("roots"), b.plane.tables.InUse().Entries); now != before {
			t.Errorf("after the failure %s, before %s", now, before)
		}
		if got := b.passes(a, z, frame("still")); !bytes.Equal(got, frame("still")) {
			t.Errorf("got % x", got)
		}
		b.passes(z, a, frame("still"))
	})
}

func (b *bench) inLab(fn func() error) error { return b.lab.Do(fn) }

func TestAnAbortedChangeLeavesNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		one, _, a, z := b.chain()
		before := b.pins("generations")
		one.Constants = map[string]any{"what": uint32(1)}
		b.must(func() error {
			ch, err := b.plane.Prepare(context.Background(), cloneOf(b.g))
			if err == nil {
				ch.Abort()
			}
			return err
		})
		if now := b.pins("generations"); !sameStrings(now, before) {
			t.Errorf("generations %v, before %v", now, before)
		}
		b.passes(a, z, frame("as before"))
	})
}

func TestWrongConstantsAndCubesAreRefused(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[0])
	c := b.cube("probe", 2, map[string]any{"no_such": uint32(1)})
	if err := b.inLab(b.tryCommit); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("unknown constant: %v, want ErrNotFound", err)
	}
	c.Constants = map[string]any{"out": uint64(1)}
	if err := b.inLab(b.tryCommit); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("constant of the wrong size: %v, want ErrInvalid", err)
	}
	for _, spec := range []Spec{
		{ID: 0, UUID: "x", Service: "probe", Type: cube.TypeTC},
		{ID: MaxCubeID + 1, UUID: "x", Service: "probe", Type: cube.TypeTC},
		{ID: c.ID, UUID: "x", Service: "probe", Type: cube.TypeTC},
		{ID: 7, UUID: "x", Service: "nothing", Type: cube.TypeTC},
		{ID: 7, UUID: "x", Service: "probe", Type: cube.TypeTC, Transparent: true},
		{ID: 7, UUID: "x", Service: "probe", Type: cube.TypeTC, MapSizes: map[string]uint32{"no": 1}},
	} {
		if err := b.plane.CreateCube(spec); err == nil {
			t.Errorf("%+v was accepted", spec)
		}
	}
	if left := b.pins("cubes"); len(left) != 1 {
		t.Errorf("pins %v, want those of one cube", left)
	}
}

func TestNetdevsOfPortsArePromiscuousWhileTheyServe(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, setting{typ: cube.TypeTC, mode: ModeInline})
	promisc := func(name string) bool {
		return strings.Contains(b.lab.Run("ip", "-d", "link", "show", name), "promiscuity 1")
	}
	one, _, _, _ := b.chain()
	b.host("spare", "", one, 2)
	b.lab.Run("ip", "link", "set", "spare", "promisc", "on") // set by others
	b.commit()
	if !promisc("a") || !promisc("z") {
		t.Error("the netdev of a port is not promiscuous")
	}
	b.close()
	b.open()
	for _, n := range b.g.Cubes {
		b.must(func() error {
			return b.plane.CreateCube(Spec{ID: n.ID, UUID: n.Name, Name: n.Name, Service: "probe", Type: b.typ})
		})
	}
	one.Ports[0].Peer, one.Ports[2].Peer = Peer{}, Peer{}
	delete(b.g.Netdevs, "a")
	delete(b.g.Netdevs, "spare")
	b.commit()
	if promisc("a") {
		t.Error("a netdev that left is still promiscuous")
	}
	if !promisc("spare") {
		t.Error("a netdev that was promiscuous before us is not any more")
	}
}
