// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"testing"

	"github.com/polycube/polycube/cube"
)

// TestPacketsGoDownWhereTheirCubeIs: through the type of the cube, but through TC if they leave through a netdev, and
// as received where the cube is attached in the graph in use.
func TestPacketsGoDownWhereTheirCubeIs(t *testing.T) {
	in(t, settings[3:4], func(t *testing.T, b *bench) {
		c, on := b.cube("probe", 1, nil), b.cube("gate", 0, nil)
		b.host("a", "", c, 0)
		dev := b.g.Netdevs["a"]
		dev.Tcubes = []CubeID{on.ID}
		check := func(n *Node, out cube.PacketOut, wantType cube.Type, wantNetdev int) {
			t.Helper()
			typ, netdev, err := b.plane.WayDown(n.ID, n.Ports == nil, &out)
			if typ != wantType || netdev != wantNetdev || err != nil {
				t.Errorf("%s %+v: %s, netdev %d, %v, want %s, netdev %d", n.Name, out, typ, netdev, err, wantType, wantNetdev)
			}
		}
		check(c, cube.PacketOut{}, cube.TypeXDPDRV, 0)
		b.commit()
		check(c, cube.PacketOut{}, cube.TypeXDPDRV, dev.Index)
		check(c, cube.PacketOut{Direction: cube.Egress}, cube.TypeXDPDRV, dev.Index)
		check(c, cube.PacketOut{Trip: cube.Trip{Netdev: 7}}, cube.TypeXDPDRV, 0)
		check(on, cube.PacketOut{}, cube.TypeXDPDRV, dev.Index)
		check(on, cube.PacketOut{Direction: cube.Egress}, cube.TypeTC, dev.Index)
		if _, _, err := b.plane.WayDown(99, false, &cube.PacketOut{}); !errors.Is(err, cube.ErrNotFound) {
			t.Errorf("a cube that is not there: %v, want %v", err, cube.ErrNotFound)
		}
	})
}
