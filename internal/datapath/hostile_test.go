// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// hostility is a chain of a malicious cube and a witness, with a host at each end, and a third cube beside it.
func (b *bench) hostility(constants map[string]any) (bad, witness *Node) {
	b.t.Helper()
	bad, witness = b.cube("hostile", 2, constants), b.cube("hostile", 2, map[string]any{"what": uint32(7)})
	b.link(bad, 1, witness, 0)
	return bad, witness
}

func TestCubesThatReachBeyondTheirMetadataAreNotLoaded(t *testing.T) {
	cases := map[string]uint32{"a write behind md": 2, "a write before md": 3, "a read behind md": 4}
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		bad, _ := b.hostility(nil)
		a := b.host("a", "", bad, 0)
		z := b.host("z", "", b.g.Cubes[2], 1)
		b.commit()
		for name, what := range cases {
			bad.Constants = map[string]any{"what": what}
			err := b.inLab(b.tryCommit)
			if err == nil || !strings.Contains(err.Error(), "load the") {
				t.Errorf("%s: %v, want it refused", name, err)
			}
		}
		b.passes(a, z, frame("what was there goes on"))
	})
}

// testimony is the metadata that the witness got with the last packet.
func (b *bench) testimony(n *Node) []byte {
	b.t.Helper()
	m, err := b.plane.Map(n.ID, "witness")
	if err != nil {
		b.t.Fatal(err)
	}
	md := make([]byte, 64)
	if err := m.Lookup(uint32(0), &md); err != nil {
		b.t.Fatal(err)
	}
	return md
}

func TestTheNextCubeGetsItsOwnPortAndCleanWords(t *testing.T) {
	cases := map[string]uint32{"junk all over md": 1, "the words through a pointer": 5, "another port": 8}
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		bad, witness := b.hostility(nil)
		a, z := b.host("a", "", bad, 0), b.host("z", "", witness, 1)
		for name, what := range cases {
			bad.Constants = map[string]any{"what": what}
			b.commit()
			b.passes(a, z, frame(name))
			md := b.testimony(witness)
			if port := binary.NativeEndian.Uint16(md); port != 0 {
				t.Errorf("%s: the next cube takes the packet for one from port %d, want 0", name, port)
			}
			if n := binary.NativeEndian.Uint32(md[8:]); n != 64 {
				t.Errorf("%s: the next cube takes the packet for one of %d bytes, want 64", name, n)
			}
			if n := binary.NativeEndian.Uint32(md[40:]); n != 0 {
				t.Errorf("%s: the next cube would pass the packet to netdev %d", name, n)
			}
			for i := 24; i < 40; i++ {
				if md[i] != 0 {
					t.Errorf("%s: the next cube gets the words % x", name, md[24:40])
					break
				}
			}
		}
		if got := b.counters(witness, 0); got.RxBytes != uint64(len(cases)*64) {
			t.Errorf("the witness has received %d bytes, want %d: the length was forged", got.RxBytes, len(cases)*64)
		}
		if got := b.counters(witness, 0); got.RxPackets != uint64(len(cases)) {
			t.Errorf("the witness has received %d packets, want %d", got.RxPackets, len(cases))
		}
	})
}

func TestACubeCannotSayThatTheFrameworkDroppedAPacket(t *testing.T) {
	tests := []struct {
		reason, verdict int
		want            string
	}{
		{32, 2, "own"},                // its own reason
		{7, 2, "unspecified"},         // hop-limit
		{2, 2, "unspecified"},         // slowpath
		{65535, 2, "unspecified"},     // out of range
		{32, 0x7fffff, "bad-verdict"}, // no verdict
		{32, -1, "bad-verdict"},
	}
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		bad, witness := b.hostility(nil)
		a := b.host("a", "", bad, 0)
		b.host("z", "", witness, 1)
		want := map[string]uint64{}
		for _, test := range tests {
			bad.Constants = map[string]any{"reason": uint16(test.reason), "verdict": uint32(test.verdict)}
			b.commit()
			b.send(a, frame("x"))
			want[test.want]++
			b.eventually(bad, test.want, want[test.want])
		}
		for _, name := range []string{"pass", "slowpath", "no-peer", "hop-limit", "no-program", "bad-port"} {
			if got := b.fate(bad, name); got != 0 {
				t.Errorf("%d packets are counted under %s", got, name)
			}
		}
		fs, err := b.plane.Fates(witness.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fs {
			if f.Packets != 0 {
				t.Errorf("the witness, which got nothing, has %d packets %s", f.Packets, f.Name)
			}
		}
	})
}

func TestACubeThatDeniesItsTurnsIsStoppedByTheKernel(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		deny := map[string]any{"what": uint32(6)}
		one, two := b.cube("hostile", 3, deny), b.cube("hostile", 3, deny)
		b.link(one, 1, two, 1)
		a := b.host("a", "", one, 0)
		b.commit()
		b.send(a, frame("round"))
		netns.Eventually(t, soon, func() error {
			if got := b.fate(one, "hop-limit") + b.fate(two, "hop-limit"); got != 1 {
				return fmt.Errorf("%d packets over the hop limit, want 1", got)
			}
			return nil
		})
	})
}
