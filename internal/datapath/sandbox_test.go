// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

// injects returns the trace of an injected frame as text.
func (b *bench) injects(at Injection) string {
	b.t.Helper()
	var records [][]byte
	b.must(func() (err error) {
		records, err = b.plane.Inject(context.Background(), at)
		return err
	})
	var lines []string
	n := binary.NativeEndian
	for _, r := range records {
		h := r[recordHead : recordHead+n.Uint32(r[16:])]
		lines = append(lines, b.show(step{
			cube: n.Uint16(h[8:]), in: n.Uint16(h[10:]), out: n.Uint16(h[12:]), reason: n.Uint16(h[14:]),
			extra: n.Uint32(h[16:]), stage: h[22], verdict: h[23], egress: h[25] != 0,
		}))
	}
	return strings.Join(lines, "; ")
}

// marks of what packets change: counters, fates and the cubes' maps.
func (b *bench) traceless(nodes ...*Node) string {
	b.t.Helper()
	var out strings.Builder
	for _, n := range nodes {
		for _, index := range []uint16{0, 1, 2} {
			if n.Ports[index] != nil {
				fmt.Fprintln(&out, b.counters(n, index))
			}
		}
		fates, err := b.plane.Fates(n.ID)
		if err != nil {
			b.t.Fatal(err)
		}
		fmt.Fprintln(&out, fates)
		if m, err := b.plane.Map(n.ID, "seen"); err == nil {
			var seen uint64
			if err := m.Lookup(uint32(0), &seen); err != nil {
				b.t.Fatal(err)
			}
			fmt.Fprintln(&out, seen)
		}
	}
	return out.String()
}

func TestAnInjectedPacketTellsWhatWouldHappenAndLeavesNothing(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		one, two, a, z := b.chain()
		one.Ports[1].Tcubes = b.gates("g")
		b.commit()
		b.passes(a, z, frame("real"))
		before := b.traceless(one, two)
		listener := b.listeners(z)[0]
		want := "probe1:0 in send 1; gate3:0 out pass; probe2:0 in send 1; probe2 leaves by z"
		if got := b.injects(Injection{Cube: one.ID, Port: 0, Frame: frame("there")}); got != want {
			t.Errorf("there:\n%s, want\n%s", got, want)
		}
		want = "gate3:1 in pass; probe1:1 in send 0; probe1 leaves by a"
		if got := b.injects(Injection{Cube: one.ID, Port: 1, Frame: frame("back")}); got != want {
			t.Errorf("back:\n%s, want\n%s", got, want)
		}
		if got, want := b.injects(Injection{Cube: 3, Direction: cube.Egress, Frame: frame("at the gate")}),
			"gate3:0 out pass; probe2:0 in send 1; probe2 leaves by z"; got != want {
			t.Errorf("at the gate:\n%s, want\n%s", got, want)
		}
		two.Constants = map[string]any{"what": uint32(1)}
		b.commit()
		if got, want := b.injects(Injection{Cube: one.ID, Frame: frame("drop")}),
			"probe1:0 in send 1; gate3:0 out pass; probe2:0 in drop 32"; got != want {
			t.Errorf("dropped:\n%s, want\n%s", got, want)
		}
		if after := b.traceless(one, two); after != before {
			t.Errorf("injected packets are counted or learned:\n%s, before\n%s", after, before)
		}
		two.Constants = map[string]any{"what": uint32(6)}
		b.commit()
		b.send(a, frame("the first to arrive"))
		b.receives(listener, "z", func() []byte { f := frame("the first to arrive"); f[14] = 'g'; return f }())
	})
}

func TestCopiesOfAnInjectedFloodAreFollowed(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		b.withHelpers()
		hub := b.cube("probe", 4, map[string]any{"what": uint32(2)})
		var hosts []*netns.Node
		for i := range uint16(2) {
			leaf := b.cube("probe", 2, map[string]any{"what": uint32(6)})
			b.link(hub, i+1, leaf, 0)
			hosts = append(hosts, b.host(fmt.Sprint("h", i), "", leaf, 1))
		}
		b.host("a", "", hub, 0)
		hosts = append(hosts, b.host("z", "", hub, 3))
		b.commit()
		ls := b.listeners(hosts...)
		story := strings.Split(b.injects(Injection{Cube: hub.ID, Frame: frame("injected")}), "; ")
		slices.Sort(story)
		want := "probe1 leaves by z; probe1:0 in flood; probe2 leaves by h0; probe2:0 in send 1; probe3 leaves by h1; probe3:0 in send 1"
		if got := strings.Join(story, "; "); got != want {
			t.Errorf("\n%s, want\n%s", got, want)
		}
		b.packets(hub, 3, 0, 0)
		for i, r := range ls {
			if _, err := r.Recv(isTest, 0); err == nil {
				t.Errorf("a copy was sent to %s", hosts[i].Outer)
			}
		}
	})
}

func TestInjectingIntoNowhereIsRefused(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		if _, err := b.plane.Inject(context.Background(), Injection{Cube: 9, Frame: frame("")}); err == nil {
			t.Error("a packet was injected into a cube that does not exist")
		}
	})
}

// TestCopiesOfAnInjectedFloodToASetAreFollowed: to the members, in their forms, and not to other ports.
func TestCopiesOfAnInjectedFloodToASetAreFollowed(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		b.withHelpers()
		hub := b.cube("sets", 5, map[string]any{"access": uint32(1)})
		for i := range uint16(3) {
			leaf := b.cube("probe", 2, map[string]any{"what": uint32(6)})
			b.link(hub, i+1, leaf, 0)
			b.host(fmt.Sprint("h", i), "", leaf, 1)
		}
		b.host("a", "", hub, 0)
		b.host("z", "", hub, 4)
		b.floods(hub, map[uint32][]cube.FloodMember{100: {{Port: 0}, {Port: 1, Tagged: true}, {Port: 3}, {Port: 4, Tagged: true}}})
		b.commit()
		story := strings.Split(b.injects(Injection{Cube: hub.ID, Frame: frame("injected")}), "; ")
		slices.Sort(story)
		want := "probe2:0 in send 1; probe2 leaves by h0; probe4:0 in send 1; probe4 leaves by h2; sets1 leaves by z; sets1:0 in flood"
		if got := strings.Join(story, "; "); got != sorted(want) {
			t.Errorf("\n%s, want\n%s", got, want)
		}
		var lengths []int
		b.must(func() error {
			records, err := b.plane.Inject(context.Background(), Injection{Cube: hub.ID, Frame: frame("injected")})
			for _, r := range records {
				lengths = append(lengths, int(binary.NativeEndian.Uint32(r[12:])))
			}
			return err
		})
		slices.Sort(lengths)
		if want := []int{64, 64, 64, 68, 68, 68}; !slices.Equal(lengths, want) {
			t.Errorf("frames of %v bytes are followed, want %v", lengths, want)
		}
	})
}

func sorted(story string) string {
	lines := strings.Split(story, "; ")
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}
