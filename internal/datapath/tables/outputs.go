// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
)

// addOutputs adds the rows of the outputs of a transparent cube whose destinations exist.
func (t *Rows) addOutputs(w *graph.Wiring, n *graph.Node) {
	for _, o := range n.Outputs {
		key := abi.ExitKey(n.ID, o.Number)
		if o.Cube != 0 {
			if p := receiver(w, n, o); p != nil {
				pg, place := abi.SlotAddress(p.Slot)
				t.Exits[key] = abi.ExitToCube(o.Cube, o.Port, pg, place)
			}
			continue
		}
		dev := w.Graph.Netdevs[o.Netdev]
		if dev == nil || dev.Index == 0 || dev.Down {
			continue
		}
		t.Exits[key] = abi.ExitToNetdev(dev.Index, o.Received)
		if out := outermost(n, dev); out != 0 {
			t.Exits[key] = abi.ExitToEgress(dev.Index, out)
		}
		if n.Type.Hook() == cube.XDP {
			t.Devices[key] = uint32(dev.Index)
		}
	}
}

// receiver returns the port to which an output leads, nil if there is none at the hook of its cube.
func receiver(w *graph.Wiring, n *graph.Node, o graph.Output) *graph.Port {
	to := w.Graph.Cubes[o.Cube]
	if to == nil || to.Type.Hook() != n.Type.Hook() {
		return nil
	}
	return to.Ports[o.Port]
}

// outermost returns the transparent cube on a netdev whose egress program gets what a cube sends there at XDP, 0 if there is
// none. At TC the packets pass the egress of the netdev, where the programs of such cubes are attached.
func outermost(from *graph.Node, dev *graph.Netdev) graph.CubeID {
	if len(dev.Tcubes) == 0 || from.Type.Hook() != cube.XDP {
		return 0
	}
	return dev.Tcubes[len(dev.Tcubes)-1]
}

// addOwnExits adds the exits of the transparent cubes at XDP on a netdev to that netdev, for what is sent there at XDP.
func (t *Rows) addOwnExits(w *graph.Wiring, dev *graph.Netdev) {
	if dev.Down {
		return
	}
	for _, id := range dev.Tcubes {
		if n := w.Graph.Cubes[id]; n != nil && n.Type.Hook() == cube.XDP {
			key := abi.ExitKey(id, link.OwnExit)
			t.Exits[key] = abi.ExitOwn(dev.Index)
			t.Devices[key] = uint32(dev.Index)
		}
	}
}
