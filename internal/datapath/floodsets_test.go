// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// isTagged is isTest for frames with tags or without.
func isTagged(f []byte) bool {
	for len(f) > 18 && (f[12] == 0x81 && f[13] == 0 || f[12] == 0x88 && f[13] == 0xa8) {
		f = f[4:]
	}
	return isTest(f)
}

// gets fails unless each listener got exactly the frame wanted for it, nil for none.
func (b *bench) gets(what string, ls []*netns.Raw, hosts []*netns.Node, want func(i int) []byte) {
	b.t.Helper()
	for i, r := range ls {
		w := want(i)
		if w == nil {
			continue
		}
		got, err := r.Recv(isTagged, soon)
		if err != nil {
			b.t.Errorf("%s: %s got no copy: %v", what, hosts[i].Outer, err)
		} else if !bytes.Equal(got, w) {
			b.t.Errorf("%s: %s got\n% x, want\n% x", what, hosts[i].Outer, got, w)
		}
	}
	for i, r := range ls {
		if again, err := r.Recv(isTagged, 0); err == nil {
			b.t.Errorf("%s: %s got one too many: % x", what, hosts[i].Outer, again)
		}
	}
}

// floods fills sets of a cube.
func (b *bench) floods(c *Node, sets map[uint32][]cube.FloodMember) {
	b.t.Helper()
	b.must(func() error { return b.plane.SetFloods(c.ID, sets, true) })
}

const (
	tag100  = 0x8100<<16 | 5<<13 | 1<<12 | 100 // with priority and drop eligibility
	tag200  = 0x8100<<16 | 200
	pushed  = 0x8100<<16 | 3<<13 | 100 // by the cube
	service = 0x88a8<<16 | 100
)

// TestSetsGiveEachPortItsForm: hosts behind access ports (no tags), trunks, a port that is no member, members without a
// netdev. All fates are counted.
func TestSetsGiveEachPortItsForm(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		b.withHelpers()
		const access = 1<<1 | 1<<2 | 1<<5
		c := b.cube("sets", 8, map[string]any{"access": uint32(access)})
		var hosts []*netns.Node
		for i := range uint16(6) { // 0, 3 trunks, 1, 2 access, 4 no member, 5 access of another VLAN
			hosts = append(hosts, b.host(fmt.Sprintf("h%d", i), "", c, i))
		}
		b.floods(c, map[uint32][]cube.FloodMember{
			100: {{Port: 0, Tagged: true}, {Port: 1}, {Port: 2}, {Port: 3, Tagged: true}, {Port: 6}, {Port: 7, Tagged: true}},
			200: {{Port: 0, Tagged: true}, {Port: 3, Tagged: true}, {Port: 5}},
			300: {{Port: 1}, {Port: 2}}, 301: {{Port: 3, Tagged: true}, {Port: 4, Tagged: true}},
		})
		b.commit()
		sent := map[int]uint64{}
		plain := frame("to a VLAN")
		inner := pkt.Tagged(plain, tag200)
		for _, tt := range []struct {
			what string
			from int
			send []byte
			want map[int][]byte
		}{
			{"untagged from an access port", 1, plain, map[int][]byte{0: pkt.Tagged(plain, pushed), 2: plain, 3: pkt.Tagged(plain, pushed)}},
			{"tagged from a trunk", 0, pkt.Tagged(plain, tag100), map[int][]byte{1: plain, 2: plain, 3: pkt.Tagged(plain, tag100)}},
			{"two tags from a trunk", 3, pkt.Tagged(inner, tag100), map[int][]byte{0: pkt.Tagged(inner, tag100), 1: inner, 2: inner}},
			{"a host's own tag from an access port", 2, inner, map[int][]byte{0: pkt.Tagged(inner, pushed), 1: inner, 3: pkt.Tagged(inner, pushed)}},
			{"a service tag from a trunk", 0, pkt.Tagged(inner, service), map[int][]byte{1: inner, 2: inner, 3: pkt.Tagged(inner, service)}},
			{"another VLAN", 3, pkt.Tagged(plain, tag200), map[int][]byte{0: pkt.Tagged(plain, tag200), 5: plain}},
			{"a VLAN with one other member", 4, pkt.Tagged(plain, 0x8100<<16|301), map[int][]byte{3: pkt.Tagged(plain, 0x8100<<16|301)}},
			{"a VLAN of access ports, from outside", 0, pkt.Tagged(plain, 0x8100<<16|300), map[int][]byte{1: plain, 2: plain}},
			{"a VLAN that is not there", 0, pkt.Tagged(plain, 0x8100<<16|999), nil},
		} {
			ls := b.listeners(hosts...)
			b.send(hosts[tt.from], tt.send)
			b.gets(tt.what, ls, hosts, func(i int) []byte { return tt.want[i] })
			for i := range tt.want {
				sent[i]++
			}
		}
		for name, want := range map[string]uint64{"flood": 8, "no-peer": 1, "copy-failed": 0, "slowpath-shed": 0} {
			if got := b.fate(c, name); got != want {
				t.Errorf("%d packets ended as %s, want %d", got, name, want)
			}
		}
		for i := range 8 {
			if got := b.counters(c, uint16(i)).TxPackets; got != sent[i] {
				t.Errorf("port %d sent %d packets, want %d", i, got, sent[i])
			}
		}
	})
}

// TestSetsRunTheProgramsBehindPorts: members that lead to transparent cubes and to other cubes, with and without the tag;
// and a cube with an egress program, which each copy must run.
func TestSetsRunTheProgramsBehindPorts(t *testing.T) {
	for svc, some := range map[string][]setting{"sets": settings, "setsout": inlined} {
		t.Run(svc, func(t *testing.T) {
			in(t, some, func(t *testing.T, b *bench) { b.setsOfPrograms(svc) })
		})
	}
}

func (b *bench) setsOfPrograms(svc string) {
	b.withHelpers()
	c := b.cube(svc, 7, map[string]any{"access": uint32(1<<1 | 1<<2 | 1<<4)})
	hosts := []*netns.Node{b.host("trunk", "", c, 0), b.host("access", "", c, 1), b.host("gated", "", c, 2)}
	c.Ports[2].Tcubes = b.gates("g")
	for i := range uint16(3) { // 3 tagged, 4 not, 5 no member
		n := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		b.link(c, 3+i, n, 0)
		hosts = append(hosts, b.host(fmt.Sprintf("far%d", i), "", n, 1))
	}
	tagged := map[int]bool{0: true, 3: true}
	members := []cube.FloodMember{{Port: 0, Tagged: true}, {Port: 1}, {Port: 2}, {Port: 3, Tagged: true}, {Port: 4}, {Port: 6}}
	b.floods(c, map[uint32][]cube.FloodMember{100: members})
	b.commit()
	for from := range 5 {
		ls := b.listeners(hosts...)
		f := frame("from " + hosts[from].Outer)
		tag := uint32(pushed)
		if tagged[from] {
			tag = tag100
			b.send(hosts[from], pkt.Tagged(f, tag))
		} else {
			b.send(hosts[from], f)
		}
		b.gets("from "+hosts[from].Outer, ls, hosts, func(i int) []byte {
			if i == from || i == 5 {
				return nil
			}
			return b.copyOf(svc, f, tag, tagged[i], i == 2, from == 2)
		})
	}
	if got := b.fate(c, "slowpath-shed") + b.fate(c, "copy-failed") + b.fate(c, "no-peer"); got != 0 {
		b.t.Errorf("%d copies went to user space or were lost", got)
	}
	if got := b.fate(c, "flood"); got != 5 {
		b.t.Errorf("%d floods, want 5", got)
	}
	for i, want := range []uint64{4, 4, 4, 4, 4, 0, 0} {
		if got := b.counters(c, uint16(i)).TxPackets; got != want {
			b.t.Errorf("port %d sent %d packets, want %d", i, got, want)
		}
	}
}

// copyOf is the copy of a frame for a member: after the egress program of setsout, which increments the byte at 39
// (behind the tag, if the tag is beside the frame), and a gate, which writes its letter.
func (b *bench) copyOf(svc string, f []byte, tag uint32, tagged, toGate, fromGate bool) []byte {
	out := bytes.Clone(f)
	if toGate != fromGate {
		out[14] = 'g'
	}
	at := 39
	if tagged && b.typ != cube.TypeTC {
		at -= 4
	}
	if svc == "setsout" {
		out[at]++
	}
	if tagged {
		return pkt.Tagged(out, tag)
	}
	return out
}

// TestSetsFollowNetdevs: a member's netdev is deleted, created again under the same name and set down; a set is
// replaced while packets are in flight.
func TestSetsFollowNetdevs(t *testing.T) {
	in(t, inlined, func(t *testing.T, b *bench) {
		b.withHelpers()
		c := b.cube("sets", 5, map[string]any{"access": uint32(1<<1 | 1<<2)})
		hosts := []*netns.Node{b.host("h0", "", c, 0), b.host("h1", "", c, 1), b.host("h2", "", c, 2), b.host("h3", "", c, 3)}
		all := []cube.FloodMember{{Port: 0, Tagged: true}, {Port: 1}, {Port: 2}, {Port: 3, Tagged: true}}
		b.floods(c, map[uint32][]cube.FloodMember{100: all})
		b.commit()
		f := frame("x")
		step := func(what string, reached ...int) {
			t.Helper()
			ls := b.listeners(hosts...)
			b.send(hosts[0], pkt.Tagged(f, tag100))
			b.gets(what, ls, hosts, func(i int) []byte {
				switch {
				case !slices.Contains(reached, i):
					return nil
				case i == 3:
					return pkt.Tagged(f, tag100)
				}
				return f
			})
		}
		step("all there", 1, 2, 3)
		dev := *b.g.Netdevs["h2"]
		b.g.Netdevs["h2"].Index = 0 // the graph's value for a deleted one
		b.commit()
		step("one gone", 1, 3)
		*b.g.Netdevs["h2"] = dev
		b.g.Netdevs["h1"].Down = true
		b.commit()
		step("another one down", 2, 3)
		b.g.Netdevs["h1"].Down = false
		b.commit()
		step("both back", 1, 2, 3)
		b.floods(c, map[uint32][]cube.FloodMember{100: all[:2]})
		step("a smaller set", 1)
		b.floods(c, nil)
		step("no set")
		if got := b.fate(c, "no-peer"); got != 1 {
			t.Errorf("%d packets without a peer, want 1", got)
		}
		b.floods(c, map[uint32][]cube.FloodMember{100: all})
		delete(c.Ports, 3)
		b.commit()
		step("a port that is gone", 1, 2)
	})
}

// TestSetsOutliveTheDaemon: packets use them while no daemon runs, after the next one has started, and after its first
// change, which need not name them.
func TestSetsOutliveTheDaemon(t *testing.T) {
	in(t, inlined, func(t *testing.T, b *bench) {
		b.withHelpers()
		c := b.cube("sets", 3, map[string]any{"access": uint32(1 << 1)})
		hosts := []*netns.Node{b.host("h0", "", c, 0), b.host("h1", "", c, 1), b.host("h2", "", c, 2)}
		b.floods(c, map[uint32][]cube.FloodMember{
			100: {{Port: 0, Tagged: true}, {Port: 1}, {Port: 2, Tagged: true}}, 7: {{Port: 0}},
		})
		b.commit()
		f := frame("x")
		step := func(what string) {
			t.Helper()
			ls := b.listeners(hosts...)
			b.send(hosts[0], pkt.Tagged(f, tag100))
			b.gets(what, ls, hosts, func(i int) []byte { return [][]byte{nil, f, pkt.Tagged(f, tag100)}[i] })
		}
		step("before")
		b.close()
		step("without a daemon")
		b.open()
		step("with the next one")
		b.must(func() error {
			return b.plane.CreateCube(Spec{ID: c.ID, UUID: c.Name, Name: c.Name, Service: "sets", Type: b.typ})
		})
		b.commit()
		step("after its first change")
		if got := b.plane.Floods(c.ID)[7]; !slices.Equal(got, []cube.FloodMember{{Port: 0}}) {
			t.Errorf("set 7 is %v", got)
		}
		b.floods(c, map[uint32][]cube.FloodMember{100: {{Port: 1}}})
		if got := b.plane.Floods(c.ID)[7]; got != nil {
			t.Errorf("set 7 is %v after a reset without it", got)
		}
		delete(b.g.Cubes, c.ID)
		b.commit()
		b.must(func() error { return b.plane.DeleteCube(c.ID) })
		if sets, groups := b.countSets(); sets != 0 || groups != 0 {
			t.Errorf("%d sets and %d groups are left of the cube", sets, groups)
		}
	})
}

// countSets counts the sets in the kernel, once unused groups are deleted.
func (b *bench) countSets() (sets, groups int) {
	b.t.Helper()
	for b.plane.sets.SweepOne(time.Now()) {
	}
	var key, id uint32
	var row abi.FloodSet
	for it := b.plane.fw.Maps[abi.MapFloodSets].Iterate(); it.Next(&key, &row); {
		sets++
	}
	for it := b.plane.fw.Maps[abi.MapGroups].Iterate(); it.Next(&key, &id); {
		groups++
	}
	return sets, groups
}

// TestWrongSetsChangeNothing: which sets are refused, and that the existing ones stay.
func TestWrongSetsChangeNothing(t *testing.T) {
	in(t, settings[:1], func(t *testing.T, b *bench) {
		c := b.cube("sets", 3, nil)
		was := []cube.FloodMember{{Port: 1}, {Port: 2, Tagged: true}}
		b.floods(c, map[uint32][]cube.FloodMember{5: was})
		for _, tt := range []struct {
			what string
			id   CubeID
			sets map[uint32][]cube.FloodMember
			want error
		}{
			{"an index out of range", c.ID, map[uint32][]cube.FloodMember{5: nil, 1 << 16: {{Port: 1}}}, cube.ErrInvalid},
			{"a port out of range", c.ID, map[uint32][]cube.FloodMember{5: nil, 6: {{Port: 512}}}, cube.ErrInvalid},
			{"a member twice", c.ID, map[uint32][]cube.FloodMember{5: nil, 6: {{Port: 1}, {Port: 1, Tagged: true}}}, cube.ErrInvalid},
			{"a cube that is not there", c.ID + 1, map[uint32][]cube.FloodMember{5: was}, cube.ErrNotFound},
		} {
			for _, only := range []bool{false, true} {
				if err := b.plane.SetFloods(tt.id, tt.sets, only); !errors.Is(err, tt.want) {
					t.Errorf("%s: %v, want %v", tt.what, err, tt.want)
				}
			}
		}
		if got := b.plane.Floods(c.ID)[5]; !slices.Equal(got, was) {
			t.Errorf("set 5 is %v, was %v", got, was)
		}
	})
}
