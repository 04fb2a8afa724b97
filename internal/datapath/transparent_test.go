// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// gates makes one transparent cube per letter.
func (b *bench) gates(letters string) []CubeID {
	var out []CubeID
	for _, l := range letters {
		out = append(out, b.cube("gate", 0, map[string]any{"letter": uint32(l)}).ID)
	}
	return out
}

// marks returns the letters that gates wrote into a frame.
func marks(f []byte) string { return string(bytes.TrimRight(f[14:30], "\x00")) }

func TestTransparentCubesRunInTheOrderOfTheirStack(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		c := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		a, z := b.host("a", "", c, 0), b.host("z", "", c, 1)
		c.Ports[0].Tcubes = b.gates("ab") // a innermost
		c.Ports[1].Tcubes = b.gates("cd")
		b.g.Netdevs["a"].Tcubes = b.gates("xy") // x first towards the port
		b.commit()
		if got := marks(b.passes(a, z, frame(""))); got != "xybacd" {
			t.Errorf("from a to z: %q, want xybacd", got)
		}
		// Outbound through a, y first: at TC egress, or before an XDP redirect.
		if got := marks(b.passes(z, a, frame(""))); got != "dcabyx" {
			t.Errorf("from z to a: %q, want dcabyx", got)
		}
	})
}

func TestTransparentCubesBetweenTwoCubes(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		one := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		two := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		b.link(one, 1, two, 0)
		one.Ports[1].Tcubes = b.gates("ab")
		two.Ports[0].Tcubes = b.gates("cd")
		a, z := b.host("a", "", one, 0), b.host("z", "", two, 1)
		b.commit()
		if got := marks(b.passes(a, z, frame(""))); got != "abdc" {
			t.Errorf("there: %q, want abdc", got)
		}
		if got := marks(b.passes(z, a, frame(""))); got != "cdba" {
			t.Errorf("back: %q, want cdba", got)
		}
	})
}

func TestStackOnANetdevLeadsToTheHostsStack(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		h := b.lab.Host("a", "10.0.0.1/24", netns.WithGRO())
		b.lab.Run("ip", "addr", "add", "10.0.0.254/24", "dev", "a")
		dev := b.netdev("a")
		dev.Tcubes = b.gates("\x00\x00") // they write nothing
		b.commit()
		if err := h.Ping("10.0.0.254"); err != nil {
			t.Fatal(err)
		}
		gate := b.g.Cubes[dev.Tcubes[0]]
		if b.fate(gate, "pass") == 0 {
			t.Error("the outer gate of the egress passed nothing")
		}
		gate.Constants["what_in"] = uint32(1)
		b.commit()
		before := b.fate(gate, "unspecified")
		if err := h.Ping("10.0.0.254", netns.Brief); err == nil {
			t.Error("ping went through a cube that drops")
		}
		if b.fate(gate, "unspecified") == before {
			t.Error("the drop was not counted")
		}
	})
}
