// SPDX-License-Identifier: Apache-2.0

package datapath

// Floods to sets: many sets, sets that change, and cases in which the kernel cannot make the copies.

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/floods"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// TestAsManySetsAsThereAreVLANs: every VLAN on 256 ports; equal sets share the entries for the broadcast.
func TestAsManySetsAsThereAreVLANs(t *testing.T) {
	in(t, []setting{settings[0], settings[3]}, func(t *testing.T, b *bench) {
		c := b.cube("sets", 256, map[string]any{"access": uint32(1 << 1)})
		hosts := []*netns.Node{b.host("h0", "", c, 0), b.host("h1", "", c, 1), b.host("h255", "", c, 255)}
		b.commit()
		sets := map[uint32][]cube.FloodMember{}
		for vid := range uint32(4094) {
			for p := range uint16(256) {
				sets[vid+1] = append(sets[vid+1], cube.FloodMember{Port: p, Tagged: p != 1 || vid%2 == 0})
			}
		}
		began := time.Now()
		b.floods(c, sets)
		t.Logf("%d sets of 256 ports in %v", len(sets), time.Since(began))
		rows, groups := b.countSets()
		if want := map[cube.Type]int{cube.TypeTC: 0, cube.TypeXDPDRV: 2}[b.typ]; rows != 4094 || groups != want {
			t.Errorf("%d sets in %d groups, want 4094 in %d", rows, groups, want)
		}
		f := frame("x")
		for _, vid := range []uint32{1, 2, 4093, 4094} {
			tagged := pkt.Tagged(f, 0x8100<<16|vid)
			ls := b.listeners(hosts...)
			b.send(hosts[0], tagged)
			b.gets(fmt.Sprint("VLAN ", vid), ls, hosts, func(i int) []byte {
				switch {
				case i == 0:
					return nil
				case i == 1 && vid%2 == 0:
					return f
				}
				return tagged
			})
		}
	})
}

// TestRelinksAndChangesOfSetsLoseNoCopy: programs are relinked and the set is replaced by others with the same two
// members, while each frame must reach both exactly once, in order.
func TestRelinksAndChangesOfSetsLoseNoCopy(t *testing.T) {
	in(t, inlined, func(t *testing.T, b *bench) {
		b.withHelpers()
		c := b.cube("sets", 5, map[string]any{"access": uint32(3)})
		a := b.host("a", "", c, 0)
		access, trunk := b.host("access", "", c, 1), b.host("trunk", "", c, 2)
		b.host("other", "", c, 3)
		both := []cube.FloodMember{{Port: 1}, {Port: 2, Tagged: true}}
		b.floods(c, map[uint32][]cube.FloodMember{100: both})
		b.commit()
		rx, rxTagged := b.listeners(access)[0], b.listeners(trunk)[0]
		stop := stream(b, a, 500*time.Microsecond)
		defer stop()
		for n, end := 0, time.Now().Add(reloads); n < 10 || time.Now().Before(end); n++ {
			c.Constants = map[string]any{"access": uint32(3), "alone": uint32(0), "bare": uint32(0), "vid": uint32(100)}
			c.LogLevel = []LogLevel{LogInfo, LogWarn}[n%2]
			b.commit()
			set := both
			if n%2 == 0 {
				set = append(set[:2:2], cube.FloodMember{Port: 3}, cube.FloodMember{Port: 4, Tagged: true})
			}
			b.must(func() error {
				return b.plane.SetFloods(c.ID, map[uint32][]cube.FloodMember{100: set, uint32(n): set}, false)
			})
		}
		sent := stop()
		arrive(b, rx, sent)
		for n := range sent {
			f, err := rxTagged.Recv(isTagged, soon)
			if want := pkt.Tagged(number(n), pushed); err != nil || !bytes.Equal(f, want) {
				t.Fatalf("frame %d of %d for the trunk: % x, want % x (%v)", n, sent, f, want, err)
			}
		}
		if lost := b.fate(c, "slowpath-shed") + b.fate(c, "copy-failed"); lost != 0 {
			t.Errorf("%d copies were lost or went to user space", lost)
		}
	})
}

// TestChangesOfOtherPortsLoseNoCopy: ports of the cube are added and removed, with lower and higher numbers than the
// one where each frame must arrive once, in order, through another cube.
func TestChangesOfOtherPortsLoseNoCopy(t *testing.T) {
	for svc, constants := range map[string]map[string]any{"probe": {"what": uint32(2)}, "sets": {"access": uint32(31)}} {
		t.Run(svc, func(t *testing.T) {
			in(t, hooksAndModes, func(t *testing.T, b *bench) {
				b.withHelpers()
				c := b.cube(svc, 5, constants)
				comes := b.cube("probe", 2, map[string]any{"what": uint32(1)})
				stays := b.cube("probe", 2, map[string]any{"what": uint32(6)})
				a, z := b.host("a", "", c, 0), b.host("z", "", stays, 1)
				b.host("other", "", c, 3)
				b.link(c, 1, comes, 0)
				b.link(c, 2, stays, 0)
				if svc == "sets" {
					b.floods(c, map[uint32][]cube.FloodMember{100: {{Port: 0}, {Port: 1}, {Port: 2}, {Port: 3}, {Port: 4}}})
				}
				b.commit()
				rx := b.listeners(z)[0]
				stop := stream(b, a, 50*time.Microsecond)
				defer stop()
				for n, end := 0, time.Now().Add(reloads); n < 10 || time.Now().Before(end); n++ {
					if n%2 == 0 {
						c.Ports[1].Peer, comes.Ports[0].Peer = Peer{}, Peer{}
					} else {
						b.link(c, 1, comes, 0)
					}
					b.commit()
				}
				arrive(b, rx, stop())
			})
		})
	}
}

// TestGroupsThatNothingLeadsToAreForgotten: unused groups are deleted, not at once because copies may still use them,
// but after a while, and sooner if there is no room.
func TestGroupsThatNothingLeadsToAreForgotten(t *testing.T) {
	in(t, settings[3:4], func(t *testing.T, b *bench) {
		c := b.cube("sets", 4, map[string]any{"access": uint32(15)})
		for i := range uint16(3) {
			b.host(fmt.Sprintf("h%d", i), "", c, i)
		}
		b.commit()
		inKernel := func() (groups int) {
			var id, inner uint32
			for it := b.plane.fw.Maps[abi.MapGroups].Iterate(); it.Next(&id, &inner); {
				groups++
			}
			return groups
		}
		set := func(members ...cube.FloodMember) { b.floods(c, map[uint32][]cube.FloodMember{5: members}) }
		was := inKernel()
		set(cube.FloodMember{Port: 0}, cube.FloodMember{Port: 1})
		set(cube.FloodMember{Port: 1}, cube.FloodMember{Port: 2})
		left := time.Now()
		if got := inKernel(); got != was+2 {
			t.Errorf("%d new groups, want 2: copies under way still need the first one", got-was)
		}
		if b.plane.sets.SweepOne(left.Add(-floods.GroupGrace)); inKernel() != was+2 {
			t.Error("a group is forgotten too early")
		}
		if b.plane.sets.SweepOne(left); inKernel() != was+1 {
			t.Errorf("%d new groups, want 1", inKernel()-was)
		}
		if b.plane.sets.SweepOne(time.Now()); inKernel() != was+1 {
			t.Error("a group is forgotten that a set leads to")
		}
	})
}

// TestTagZeroLeavesEveryFrameAsItIs: the programs set no tag.
func TestTagZeroLeavesEveryFrameAsItIs(t *testing.T) {
	in(t, whole, func(t *testing.T, b *bench) {
		b.withHelpers()
		c := b.cube("sets", 3, map[string]any{"bare": uint32(1)})
		hosts := []*netns.Node{b.host("h0", "", c, 0), b.host("h1", "", c, 1), b.host("h2", "", c, 2)}
		b.floods(c, map[uint32][]cube.FloodMember{100: {{Port: 0}, {Port: 1}, {Port: 2}}, 7: {{Port: 1, Tagged: true}, {Port: 2, Tagged: true}}})
		b.commit()
		plain := frame("x")
		for _, f := range [][]byte{plain, pkt.Tagged(plain, 0x8100<<16|7), pkt.Tagged(plain, 0x88a8<<16|100, 0x8100<<16|9)} {
			ls := b.listeners(hosts...)
			b.send(hosts[0], f)
			b.gets(fmt.Sprintf("% x", f[:20]), ls, hosts, func(i int) []byte { return [][]byte{nil, f, f}[i] })
		}
	})
}

// TestWhatTheKernelCannotCopyToASetGoesToUserSpace: a frame of several buffers; the record says which copies to send
// where.
func TestWhatTheKernelCannotCopyToASetGoesToUserSpace(t *testing.T) {
	in(t, []setting{settings[3], settings[4]}, func(t *testing.T, b *bench) {
		b.needLongRedirects()
		b.withHelpers()
		c := b.cube("sets", 4, map[string]any{"access": uint32(1)})
		a := b.jumboHost("a", c, 0)
		b.jumboHost("m", c, 1)
		b.jumboHost("z", c, 2)
		members := []cube.FloodMember{{Port: 0}, {Port: 1, Tagged: true}, {Port: 2}}
		b.floods(c, map[uint32][]cube.FloodMember{100: members})
		b.commit()
		f := large(9000)
		b.send(a, f)
		b.eventually(c, "flood", 1)
		rs := b.records()
		if len(rs) != 1 || rs[0].kind != 6 || rs[0].cube != uint16(c.ID) || rs[0].port != 0 || rs[0].length != 9000 {
			t.Fatalf("%+v, want one record of a flood to a set", rs)
		}
		got := map[uint16][]byte{}
		for port, copied := range b.plane.FloodCopies(c.ID, rs[0].port, rs[0].words, rs[0].data) {
			got[port] = bytes.Clone(copied)
		}
		if len(got) != 2 || !bytes.Equal(got[1], pkt.Tagged(f, pushed)) || !bytes.Equal(got[2], f) {
			t.Errorf("copies for %d ports, or wrong ones", len(got))
		}
	})
}

// TestCopiesInUserSpaceAreThoseOfTheKernel: copies are the same whichever side makes them.
func TestCopiesInUserSpaceAreThoseOfTheKernel(t *testing.T) {
	in(t, settings[:1], func(t *testing.T, b *bench) {
		c := b.cube("sets", 3, nil)
		b.floods(c, map[uint32][]cube.FloodMember{5: {{Port: 0}, {Port: 1, Tagged: true}, {Port: 2}}})
		plain := frame("x")
		tagged := pkt.Tagged(plain, tag100)
		for _, tt := range []struct {
			what  string
			in    uint16
			words [4]uint32
			send  []byte
			want  map[uint16][]byte
		}{
			{"from outside, with the tag", 9, [4]uint32{5 | floods.HasTag, tag100}, tagged, map[uint16][]byte{0: plain, 1: tagged, 2: plain}},
			{"from a member, without", 2, [4]uint32{5, tag100}, plain, map[uint16][]byte{0: plain, 1: tagged}},
			{"no tag is named", 0, [4]uint32{5}, plain, map[uint16][]byte{1: plain, 2: plain}},
			{"a set that is not there", 0, [4]uint32{6, tag100}, plain, nil},
			{"too short to have the tag", 0, [4]uint32{5 | floods.HasTag, tag100}, plain[:16], map[uint16][]byte{1: plain[:16]}},
		} {
			got := map[uint16][]byte{}
			for port, f := range b.plane.FloodCopies(c.ID, tt.in, tt.words, tt.send) {
				got[port] = f
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("%s: %v, want %v", tt.what, got, tt.want)
			}
		}
	})
}

// TestCapturesSeeTheCopiesOfSets: while a port is captured, its copies are made where captures happen; they arrive as
// before.
func TestCapturesSeeTheCopiesOfSets(t *testing.T) {
	in(t, inlined, func(t *testing.T, b *bench) {
		b.withHelpers()
		c := b.cube("sets", 4, map[string]any{"access": uint32(1 | 1<<2)})
		a := b.host("a", "", c, 0)
		hosts := []*netns.Node{b.host("trunk", "", c, 1), b.host("access", "", c, 2), b.host("none", "", c, 3)}
		b.floods(c, map[uint32][]cube.FloodMember{100: {{Port: 0}, {Port: 1, Tagged: true}, {Port: 2}}})
		b.commit()
		f := frame("x")
		send := func() {
			t.Helper()
			ls := b.listeners(hosts...)
			b.send(a, f)
			b.gets("from a", ls, hosts, func(i int) []byte { return [][]byte{pkt.Tagged(f, pushed), f, nil}[i] })
		}
		for port, want := range map[uint16]int{1: 68, 2: 64, 3: 0} {
			b.traces(link.Session{Bit: 0, Capture: &link.Capture{Cube: uint16(c.ID), Port: port}})
			send()
			var got []int
			for _, s := range b.steps() {
				if s.stage == link.StageOut {
					got = append(got, int(s.length)+4*int(s.vlan))
				}
			}
			if want == 0 && len(got) > 0 || want > 0 && fmt.Sprint(got) != fmt.Sprint([]int{want}) {
				t.Errorf("port %d: frames of %v bytes are captured, want %d", port, got, want)
			}
		}
		b.traces()
		send()
		if got := b.counters(c, 1).TxPackets; got != 4 {
			t.Errorf("%d copies sent to the trunk, want 4", got)
		}
	})
}

// TestSpanShowsTheCopiesOfSets: the cube's namespace gets the copy of each port, in the port's form.
func TestSpanShowsTheCopiesOfSets(t *testing.T) {
	in(t, tcModes, func(t *testing.T, b *bench) {
		b.withHelpers()
		c := b.cube("sets", 4, map[string]any{"access": uint32(1 << 1)})
		var hosts []*netns.Node
		for i := range uint16(4) {
			hosts = append(hosts, b.host(fmt.Sprintf("h%d", i), "", c, i))
		}
		var inside []*netns.Node
		for i := range 4 {
			inside = append(inside, b.lab.Host(fmt.Sprintf("n%d", i), ""))
		}
		b.shadow(c, true, inside...)
		b.floods(c, map[uint32][]cube.FloodMember{100: {{Port: 0, Tagged: true}, {Port: 1}, {Port: 2, Tagged: true}}})
		b.commit()
		f := frame("x")
		tagged := pkt.Tagged(f, tag100)
		all := append(hosts[1:], inside...)
		ls := b.listeners(all...)
		b.send(hosts[0], tagged)
		b.gets("from a trunk", ls, all, func(i int) []byte { return [][]byte{f, tagged, nil, tagged, f, tagged, nil}[i] })
	})
}

// TestAPortIsClosedWhileAChangeIsPrepared: a slow verifier run does not delay the closing of a port.
func TestAPortIsClosedWhileAChangeIsPrepared(t *testing.T) {
	in(t, inlined, func(t *testing.T, b *bench) {
		c := b.cube("sets", 3, map[string]any{"access": uint32(7)})
		hosts := []*netns.Node{b.host("h0", "", c, 0), b.host("h1", "", c, 1), b.host("h2", "", c, 2)}
		b.floods(c, map[uint32][]cube.FloodMember{100: {{Port: 0}, {Port: 1}, {Port: 2}}})
		b.commit()
		b.plane.mu.Lock() // as Prepare does
		closed := make(chan error, 1)
		go func() {
			closed <- b.lab.Do(func() error {
				return b.plane.SetFloods(c.ID, map[uint32][]cube.FloodMember{100: {{Port: 0}, {Port: 2}}}, true)
			})
		}()
		var err error
		select {
		case err = <-closed:
		case <-time.After(soon):
			t.Error("the port stays open as long as the change is prepared")
		}
		b.plane.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		ls := b.listeners(hosts...)
		b.send(hosts[0], frame("x"))
		b.gets("one closed", ls, hosts, func(i int) []byte { return [][]byte{nil, nil, frame("x")}[i] })
	})
}

// TestMoreSetsThanThereIsRoomForAreRefused: room used by one cube is not available to another one, which keeps the sets
// it had.
func TestMoreSetsThanThereIsRoomForAreRefused(t *testing.T) {
	in(t, settings[:1], func(t *testing.T, b *bench) {
		greedy, other := b.cube("sets", 2, nil), b.cube("sets", 2, nil)
		one := []cube.FloodMember{{Port: 1}}
		b.floods(other, map[uint32][]cube.FloodMember{5: one})
		most, more := map[uint32][]cube.FloodMember{}, map[uint32][]cube.FloodMember{5: {{Port: 0}}}
		for i := range uint32(64<<10 - 1) {
			most[i] = one
		}
		b.floods(greedy, most)
		for i := range uint32(1000) {
			more[10+i] = one
		}
		if err := b.lab.Do(func() error { return b.plane.SetFloods(other.ID, more, true) }); !errors.Is(err, cube.ErrFull) {
			t.Errorf("%v, want %v", err, cube.ErrFull)
		}
		if got := b.plane.Floods(other.ID)[5]; !slices.Equal(got, one) {
			t.Errorf("set 5 is %v now", got)
		}
		if sets, _ := b.countSets(); sets != 64<<10 {
			t.Errorf("%d sets, want %d", sets, 64<<10)
		}
		b.floods(greedy, nil)
		b.floods(other, more)
	})
}
