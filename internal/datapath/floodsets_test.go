// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

// tags puts tags (TPID and TCI) before the ethertype of a frame, the outer one first.
func tags(f []byte, tags ...uint32) []byte {
	out := bytes.Clone(f[:12])
	for _, t := range tags {
		out = binary.BigEndian.AppendUint32(out, t)
	}
	return append(out, f[12:]...)
}

// isTagged is isTest for frames with tags or without.
func isTagged(f []byte) bool {
	for len(f) > 18 && (f[12] == 0x81 && f[13] == 0 || f[12] == 0x88 && f[13] == 0xa8) {
		f = f[4:]
	}
	return isTest(f)
}

// gets fails unless each listener got just the frame that is wanted for it, nil for none.
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
// netdev. All fates are accounted for.
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
		inner := tags(plain, tag200)
		for _, tt := range []struct {
			what string
			from int
			send []byte
			want map[int][]byte
		}{
			{"untagged from an access port", 1, plain, map[int][]byte{0: tags(plain, pushed), 2: plain, 3: tags(plain, pushed)}},
			{"tagged from a trunk", 0, tags(plain, tag100), map[int][]byte{1: plain, 2: plain, 3: tags(plain, tag100)}},
			{"two tags from a trunk", 3, tags(inner, tag100), map[int][]byte{0: tags(inner, tag100), 1: inner, 2: inner}},
			{"a host's own tag from an access port", 2, inner, map[int][]byte{0: tags(inner, pushed), 1: inner, 3: tags(inner, pushed)}},
			{"a service tag from a trunk", 0, tags(inner, service), map[int][]byte{1: inner, 2: inner, 3: tags(inner, service)}},
			{"another VLAN", 3, tags(plain, tag200), map[int][]byte{0: tags(plain, tag200), 5: plain}},
			{"a VLAN with one other member", 4, tags(plain, 0x8100<<16|301), map[int][]byte{3: tags(plain, 0x8100<<16|301)}},
			{"a VLAN of access ports, from outside", 0, tags(plain, 0x8100<<16|300), map[int][]byte{1: plain, 2: plain}},
			{"a VLAN that is not there", 0, tags(plain, 0x8100<<16|999), nil},
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
