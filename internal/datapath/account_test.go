// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// packets fails unless a port has counted so many 64-byte frames.
func (b *bench) packets(n *Node, port uint16, rx, tx uint64) {
	b.t.Helper()
	want := PortCounters{RxPackets: rx, RxBytes: 64 * rx, TxPackets: tx, TxBytes: 64 * tx}
	netns.Eventually(b.t, soon, func() error {
		if got := b.counters(n, port); got != want {
			return fmt.Errorf("%s port %d: %+v, want %+v", n.Name, port, got, want)
		}
		return nil
	})
}

// few are the settings for tests of what does not depend on how programs are linked.
var few = []setting{settings[0], settings[4]}

func TestCountersContinueWhenALinkIsCutAndMadeAgain(t *testing.T) {
	in(t, few, func(t *testing.T, b *bench) {
		one, two, a, z := b.chain()
		for range 3 {
			b.passes(a, z, frame("x"))
		}
		b.packets(one, 1, 0, 3)
		b.packets(two, 0, 3, 0)
		one.Ports[1].Peer, two.Ports[0].Peer = Peer{}, Peer{}
		b.commit()
		b.stops(a, one, "no-peer")
		b.packets(one, 1, 0, 3)
		b.packets(two, 0, 3, 0)
		b.link(one, 1, two, 0)
		b.commit()
		b.passes(z, a, frame("x"))
		b.passes(a, z, frame("x"))
		b.packets(one, 1, 1, 4)
		b.packets(two, 0, 4, 1)
	})
}

func TestCountersContinueWhenAPortMovesToAnotherCube(t *testing.T) {
	in(t, few, func(t *testing.T, b *bench) {
		one, two, a, z := b.chain()
		other := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		y := b.host("y", "", other, 1)
		b.commit()
		b.passes(a, z, frame("x"))
		b.passes(a, z, frame("x"))
		two.Ports[0].Peer = Peer{}
		b.link(one, 1, other, 0)
		b.commit()
		b.passes(a, y, frame("x"))
		b.passes(y, a, frame("x"))
		b.packets(one, 1, 1, 3)
		b.packets(two, 0, 2, 0)
		b.packets(other, 0, 1, 1)
		// from a link to a netdev
		other.Ports[0].Peer = Peer{}
		c := b.host("c", "", one, 1)
		b.commit()
		b.passes(a, c, frame("x"))
		b.passes(c, a, frame("x"))
		b.packets(one, 1, 2, 4)
	})
}

func TestCountersContinueOverARestart(t *testing.T) {
	in(t, few, func(t *testing.T, b *bench) {
		one, two, a, z := b.chain()
		b.passes(a, z, frame("x"))
		b.close()
		b.passes(a, z, frame("daemon away"))
		b.open()
		for _, n := range []*Node{one, two} {
			b.must(func() error {
				return b.plane.CreateCube(Spec{ID: n.ID, UUID: n.Name, Name: n.Name, Service: "probe", Type: b.typ})
			})
		}
		b.commit()
		b.passes(z, a, frame("x"))
		b.packets(one, 1, 1, 2)
		b.packets(two, 0, 2, 1)
		b.packets(two, 1, 1, 2)
	})
}

func TestASlotThatIsUsedAgainStartsAtZero(t *testing.T) {
	in(t, few, func(t *testing.T, b *bench) {
		one, two, a, z := b.chain()
		b.passes(a, z, frame("x"))
		b.packets(two, 0, 1, 0)
		// The second cube is removed; a third gets its slots, on another link.
		slots := [3]uint16{two.Ports[0].Slot, two.Ports[1].Slot, two.Ports[2].Slot}
		delete(b.g.Cubes, two.ID)
		delete(b.g.Netdevs, "z")
		one.Ports[1].Peer = Peer{}
		b.commit()
		b.must(func() error { return b.plane.DeleteCube(two.ID) })
		next := b.cube("probe", 3, map[string]any{"what": uint32(6)})
		for i, s := range slots {
			next.Ports[uint16(i)].Slot = s
		}
		y := b.host("y", "", next, 1)
		b.link(one, 1, next, 0)
		b.commit()
		for i := range uint16(3) {
			b.packets(next, i, 0, 0)
		}
		b.passes(y, a, frame("x"))
		b.packets(next, 0, 0, 1)
		b.packets(next, 1, 1, 0)
		b.packets(one, 1, 1, 1)
	})
}

func TestAnAbortedOrFailedChangeLeavesTheAccounts(t *testing.T) {
	in(t, few, func(t *testing.T, b *bench) {
		one, two, a, z := b.chain()
		b.passes(a, z, frame("x"))
		one.Ports[1].Peer, two.Ports[0].Peer = Peer{}, Peer{}
		one.Ports[2].Peer = Peer{Netdev: "ghost"}
		b.g.Netdevs["ghost"] = &Netdev{Name: "ghost", Index: 9999}
		if err := b.inLab(b.tryCommit); err == nil {
			t.Fatal("a netdev that does not exist was accepted")
		}
		b.passes(a, z, frame("x"))
		b.packets(one, 1, 0, 2)
		b.packets(two, 0, 2, 0)
	})
}

func TestCountersOfSlotsThatDoNotExistAreRefused(t *testing.T) {
	in(t, few[:1], func(t *testing.T, b *bench) {
		if _, err := b.plane.PortCounters(MaxSlot); err != nil {
			t.Errorf("the last slot: %v", err)
		}
		if _, err := b.plane.PortCounters(MaxSlot + 1); err == nil {
			t.Error("a slot beyond the last was accepted")
		}
	})
}
