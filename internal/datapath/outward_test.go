// SPDX-License-Identifier: Apache-2.0

// Transparent cubes on the netdevs of ports, on the way out: at TC they see what leaves the netdev, at XDP what ports send is
// redirected past TC.

package datapath

import (
	"fmt"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/test/netns"
)

// TestACubeOnANetdevSeesEachPacketOnce: what the port sends, what a transparent cube redirects there, what is flooded, and
// what the host sends itself.
func TestACubeOnANetdevSeesEachPacketOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		b.withHelpers()
		c := b.cube("probe", 3, map[string]any{"what": uint32(6)})
		a, z, y := b.host("a", "", c, 0), b.host("z", "", c, 1), b.host("y", "", c, 2)
		chain := b.gates("12")
		b.g.Netdevs["z"].Tcubes = chain
		last, first := b.g.Cubes[chain[0]], b.g.Cubes[chain[1]]
		alone := b.wire("alone")
		d := b.detour('d', true, false)
		b.g.Netdevs["alone"].Tcubes, d.Outputs = []CubeID{d.ID}, []Output{{Netdev: "z"}}
		b.commit()
		if got := marks(b.passes(a, z, frame(""))); got != "21" {
			t.Errorf("from the port: %q, want 21", got)
		}
		if got := marks(b.passes(alone, z, frame(""))); got != "d21" {
			t.Errorf("redirected: %q, want d21", got)
		}
		host := &netns.Node{Namespace: b.lab.Namespace, Outer: "the host"}
		rx := netns.OpenRaw(t, z, netns.Inner)
		tx := netns.OpenRaw(t, host, "z")
		if err := tx.Send(frame("")); err != nil {
			t.Fatal(err)
		}
		if got, err := rx.Recv(isTest, soon); err != nil || marks(got) != "21" {
			t.Errorf("from the host: %q, %v, want 21", marks(got), err)
		}
		b.packets(c, 1, 0, 1)
		if got := b.fate(last, "pass"); got != 3 {
			t.Errorf("%d packets passed the last cube, want 3", got)
		}
		c.Constants = map[string]any{"what": uint32(2)}
		b.commit()
		ls := b.listeners(z, y)
		b.send(a, frame(""))
		want := frame("")
		copy(want[14:], "21")
		b.receives(ls[0], "z", want)
		b.receives(ls[1], "y", frame(""))
		if got := b.fate(c, "slowpath-shed") + b.fate(c, "copy-failed"); got != 0 {
			t.Errorf("%d copies went to user space or were lost", got)
		}
		b.packets(c, 1, 0, 2)
		first.Constants = map[string]any{"letter": uint32('2'), "what_out": uint32(1)}
		b.commit()
		before := b.fate(first, "unspecified")
		b.send(a, frame(""))
		b.eventually(first, "unspecified", before+1)
		b.send(alone, frame(""))
		b.eventually(first, "unspecified", before+2)
	})
}

// TestWhatLeavesANetdevGoesUpWithIt: user space gets the netdev where a packet of a port leaves, whose way out it continues.
func TestWhatLeavesANetdevGoesUpWithIt(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		c := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		a := b.host("a", "", c, 0)
		b.host("z", "", c, 1)
		chain := b.gates("12")
		b.g.Netdevs["z"].Tcubes = chain
		first := b.g.Cubes[chain[1]]
		first.Constants["what_out"] = uint32(2)
		b.commit()
		b.stops(a, first, "slowpath")
		rs := b.records()
		if len(rs) != 1 {
			t.Fatalf("%d records, want 1", len(rs))
		}
		if r := rs[0]; r.cube != uint16(first.ID) || r.port != 0 || r.flags&recordEgress == 0 || int(r.ifindex) != b.g.Netdevs["z"].Index {
			t.Errorf("the record is %+v, want the egress of cube %d on netdev %d", r, first.ID, b.g.Netdevs["z"].Index)
		}
		typ, netdev, err := b.plane.WayDown(first.ID, true, &cube.PacketOut{Direction: cube.Egress, Trip: cube.Trip{Netdev: 7}})
		if typ != cube.TypeTC || netdev != 0 || err != nil {
			t.Errorf("the way down is %s, %d, %v, want that of TC, where it continues", typ, netdev, err)
		}
	})
}

// TestChainsComeAndGoOnTheNetdevsOfPorts: each change of the chain, and of the netdev, while packets pass.
func TestChainsComeAndGoOnTheNetdevsOfPorts(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		c := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		a, z := b.host("a", "", c, 0), b.host("z", "", c, 1)
		g := b.gates("123")
		chains := [][]CubeID{nil, {g[0]}, {g[0], g[1]}, {g[1]}, {g[1], g[2], g[0]}, {g[2], g[0]}, {g[0]}, {g[2]}, nil}
		for _, chain := range chains {
			b.g.Netdevs["z"].Tcubes = chain
			b.commit()
			want := ""
			for _, id := range chain {
				want = fmt.Sprint(id-g[0]+1) + want
			}
			if got := marks(b.passes(a, z, frame(""))); got != want {
				t.Errorf("with cubes %q on the netdev, %q passed", want, got)
			}
		}
		b.g.Netdevs["z"].Tcubes = g[:1]
		b.g.Netdevs["z"].Down = true
		b.commit()
		b.stops(a, c, "no-peer")
		b.g.Netdevs["z"].Down = false
		b.commit()
		if got := marks(b.passes(a, z, frame(""))); got != "1" {
			t.Errorf("%q passed after the netdev was down, want 1", got)
		}
		b.close()
		if got := marks(b.passes(a, z, frame(""))); got != "1" {
			t.Errorf("%q passed without a daemon, want 1", got)
		}
		b.open()
	})
}

// TestOnlyNetdevsWithCubesPay: other exits lead to the netdev directly.
func TestOnlyNetdevsWithCubesPay(t *testing.T) {
	in(t, inlined, func(t *testing.T, b *bench) {
		c := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		b.host("a", "", c, 0)
		b.host("z", "", c, 1)
		b.g.Netdevs["z"].Tcubes = b.gates("1")
		b.commit()
		for port, through := range []bool{false, b.typ != cube.TypeTC} {
			row := b.plane.tables.InUse().Exits[abi.ExitKey(c.ID, uint16(port))]
			if got := row.Egress() != 0; got != through {
				t.Errorf("port %d leads through an egress program: %v, want %v", port, got, through)
			}
		}
	})
}
