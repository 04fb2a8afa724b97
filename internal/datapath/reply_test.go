// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
)

// TestAnswersGoBackToWhereThePacketCameFrom: on a netdev, on a port of a netdev and on one between two cubes, past the cubes
// further out and no others.
func TestAnswersGoBackToWhereThePacketCameFrom(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		echoer := func(letter rune) *Node { return b.cube("echoer", 0, map[string]any{"letter": uint32(letter)}) }
		c, d := b.cube("probe", 3, map[string]any{"what": uint32(6)}), b.cube("probe", 2, map[string]any{"what": uint32(6)})
		a, alone := b.host("a", "", c, 0), b.wire("alone")
		y := b.host("y", "", d, 1)
		onNetdev, onPort, between := echoer('n'), echoer('p'), echoer('b')
		g := b.gates("1234")
		// On a netdev, the first of the list is next to the wire.
		b.g.Netdevs["alone"].Tcubes = []CubeID{g[0], onNetdev.ID, g[1]}
		c.Ports[0].Tcubes = []CubeID{g[2], onPort.ID, g[3]}
		b.link(c, 1, d, 0)
		c.Ports[1].Tcubes = []CubeID{between.ID}
		b.commit()
		if got := marks(b.passes(alone, alone, frame(""))); got != "1nN1" {
			t.Errorf("on a netdev: %q, want 1nN1", got)
		}
		if got := marks(b.passes(a, a, frame(""))); got != "4pP4" {
			t.Errorf("on a port: %q, want 4pP4", got)
		}
		b.packets(c, 0, 1, 1)
		if got := marks(b.passes(y, y, frame(""))); got != "bB" {
			t.Errorf("between two cubes: %q, want bB", got)
		}
		for _, n := range []*Node{onNetdev, b.g.Cubes[g[0]]} {
			want := uint64(0)
			if n != onNetdev {
				want = 1
			}
			if got := b.fate(n, "pass"); got != want {
				t.Errorf("%d packets left the netdev by %s, want %d", got, n.Name, want)
			}
		}
		for _, n := range []*Node{onNetdev, onPort, between} {
			n.Constants = map[string]any{"letter": n.Constants["letter"], "replies": false}
		}
		b.commit()
		if got := marks(b.passes(y, a, frame(""))); got != "b3p4" {
			t.Errorf("without answers: %q, want b3p4", got)
		}
		b.close()
		if got := marks(b.passes(y, a, frame(""))); got != "b3p4" {
			t.Errorf("without a daemon: %q, want b3p4", got)
		}
		b.open()
	})
}

// TestTwoCubesThatAnswerEachOtherEnd: as a loop of hops.
func TestTwoCubesThatAnswerEachOtherEnd(t *testing.T) {
	in(t, inlined, func(t *testing.T, b *bench) {
		c, d := b.cube("probe", 2, map[string]any{"what": uint32(6)}), b.cube("probe", 2, map[string]any{"what": uint32(6)})
		a := b.host("a", "", c, 0)
		b.link(c, 1, d, 0)
		one, other := b.cube("echoer", 0, nil), b.cube("echoer", 0, nil)
		c.Ports[1].Tcubes, d.Ports[0].Tcubes = []CubeID{one.ID}, []CubeID{other.ID}
		b.commit()
		b.send(a, frame(""))
		b.loopsEnd(1)
	})
}

// TestOnlyTransparentCubesAnswer: the linker refuses a standard cube that does.
func TestOnlyTransparentCubesAnswer(t *testing.T) {
	in(t, settings[:1], func(t *testing.T, b *bench) {
		b.must(func() error {
			return b.plane.CreateCube(Spec{ID: 77, UUID: "std", Name: "std", Service: "echoer", Type: b.typ})
		})
		b.g.Cubes[77] = &Node{ID: 77, Name: "std", Type: b.typ, LogLevel: LogInfo, Ports: map[uint16]*Port{0: {Index: 0, Name: "p"}}}
		err := b.lab.Do(b.tryCommit)
		if !errors.Is(err, cube.ErrInvalid) || !strings.Contains(fmt.Sprint(err), "cube std: its programs call pcn_pkt_reply") {
			t.Errorf("error %v, want a refusal of cube std", err)
		}
	})
}
