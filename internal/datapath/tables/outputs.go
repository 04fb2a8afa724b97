// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/graph"
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
