// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// send sends frames into a port's host.
func (b *bench) send(from *netns.Node, frames ...[]byte) {
	b.t.Helper()
	tx := netns.OpenRaw(b.t, from, netns.Inner)
	for _, f := range frames {
		if err := tx.Send(f); err != nil {
			b.t.Fatal(err)
		}
	}
}

// eventually waits until a fate's counter has a value.
func (b *bench) eventually(n *Node, fate string, want uint64) {
	b.t.Helper()
	netns.Eventually(b.t, soon, func() error {
		if got := b.fate(n, fate); got != want {
			return fmt.Errorf("%s: %d packets %s, want %d", n.Name, got, fate, want)
		}
		return nil
	})
}

func TestEveryPacketThatIsNotForwardedIsCountedUnderItsReason(t *testing.T) {
	tests := []struct {
		name, fate string
		constants  map[string]any
	}{
		{"a drop with a reason of the cube's own", "told-to", map[string]any{"what": uint32(1)}},
		{"a verdict that does not exist", "bad-verdict", map[string]any{"what": uint32(7)}},
		{"a port that the cube does not have", "no-peer", map[string]any{"out": uint16(9)}},
		{"a port number beyond all", "bad-port", map[string]any{"out": uint16(60000)}},
		{"a port without peer", "no-peer", map[string]any{"out": uint16(1)}},
		{"a flood with nowhere to go", "no-peer", map[string]any{"what": uint32(2)}},
		{"to the stack", "pass", map[string]any{"what": uint32(4)}},
		{"to the slow path", "slowpath", map[string]any{"what": uint32(3)}},
	}
	everywhere(t, func(t *testing.T, b *bench) {
		c := b.cube("probe", 2, nil)
		a := b.host("a", "", c, 0)
		for _, test := range tests {
			c.Constants = test.constants
			b.commit()
			before := b.fate(c, test.fate)
			b.send(a, frame("x"))
			b.eventually(c, test.fate, before+1)
		}
		if got := b.counters(c, 0).RxPackets; got != uint64(len(tests)) {
			t.Errorf("port counted %d packets in, want %d", got, len(tests))
		}
	})
}

func TestALoopEndsAtTheHopLimit(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		ring := []*Node{}
		for range 3 {
			ring = append(ring, b.cube("probe", 3, map[string]any{"out": uint16(1)}))
		}
		for i, n := range ring {
			b.link(n, 1, ring[(i+1)%3], 0)
		}
		a := b.host("a", "", ring[0], 2)
		b.commit()
		b.send(a, frame("round"))
		netns.Eventually(t, soon, func() error {
			for _, n := range ring {
				if b.fate(n, "hop-limit") == 1 {
					return nil
				}
			}
			return fmt.Errorf("no cube counted the packet under hop-limit")
		})
	})
}

func TestAPacketTakesNoSecondCountWhereItIsCopied(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		c := b.cube("probe", 2, map[string]any{"what": uint32(8), "out": uint16(1)})
		a, z := b.host("a", "", c, 0), b.host("z", "", c, 1)
		b.commit()
		b.passes(a, z, frame("x"))
		if got := b.counters(c, 1).TxPackets; got != 1 {
			t.Errorf("%d packets sent, want 1", got)
		}
		if got := b.fate(c, "slowpath"); got != 0 {
			t.Errorf("the copy was counted as an original %d times", got)
		}
	})
}
