// SPDX-License-Identifier: Apache-2.0

// A netdev that accepts no copies affects neither the copies for the others nor their counters.

package datapath

import (
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/cube"
)

func TestACopyForADownNetdevDoesNotSpoilTheOthers(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		c := b.cube("probe", 4, map[string]any{"what": uint32(2)})
		a, down, z := b.host("a", "", c, 0), b.host("m", "", c, 1), b.host("z", "", c, 3)
		b.commit()
		b.must(func() error {
			l, err := netlink.LinkByName(down.Outer)
			if err != nil {
				return err
			}
			return netlink.LinkSetDown(l)
		})
		b.g.Netdevs["m"].Down = true
		b.commit()
		ls := b.listeners(z)
		b.send(a, frame("x"))
		b.receives(ls[0], "z", frame("x"))
		if sent, failed := b.counters(c, 1).TxPackets, b.fate(c, "copy-failed"); sent != 0 || failed != 0 {
			t.Errorf("%d copies sent to the netdev that is down, %d counted as failed", sent, failed)
		}
		// A copy for that netdev alone has no receiver.
		c.Constants = map[string]any{"out": uint16(1)}
		b.commit()
		b.send(a, frame("y"))
		b.eventually(c, "no-peer", 1)
		// Once it is up again, it gets copies again.
		b.must(func() error {
			l, err := netlink.LinkByName(down.Outer)
			if err != nil {
				return err
			}
			return netlink.LinkSetUp(l)
		})
		b.g.Netdevs["m"].Down = false
		c.Constants = map[string]any{"what": uint32(2)}
		b.commit()
		ls = b.listeners(down)
		b.send(a, frame("w"))
		b.receives(ls[0], "m", frame("w"))
	})
}

// TestACopyThatANetdevsOwnCubeDropsHasOneFate: the netdev's egress program drops the clone, which is not counted as a
// failure.
func TestACopyThatANetdevsOwnCubeDropsHasOneFate(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		if b.typ != cube.TypeTC {
			t.Skip("what XDP sends does not pass the egress of a netdev")
		}
		c := b.cube("probe", 3, map[string]any{"what": uint32(2)})
		gate := b.cube("gate", 0, map[string]any{"what_out": uint32(1)})
		a := b.host("a", "", c, 0)
		b.host("m", "", c, 1)
		z := b.host("z", "", c, 2)
		b.g.Netdevs["m"].Tcubes = []CubeID{gate.ID}
		b.commit()
		ls := b.listeners(z)
		b.send(a, frame("x"))
		b.receives(ls[0], "z", frame("x"))
		b.eventually(gate, "unspecified", 1)
		if sent, failed := b.counters(c, 1).TxPackets, b.fate(c, "copy-failed"); sent != 1 || failed != 0 {
			t.Errorf("%d copies sent to the netdev, %d counted as failed; want 1 and 0", sent, failed)
		}
	})
}
