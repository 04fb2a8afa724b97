// SPDX-License-Identifier: Apache-2.0

package floods

import (
	"maps"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/graph"
)

// TestCopiesGoWherePortsLead: to each port with a peer but the one where the packet came in, and nowhere else.
func TestCopiesGoWherePortsLead(t *testing.T) {
	n := &graph.Node{ID: 1, Ports: map[uint16]*graph.Port{
		0: {Index: 0, Peer: graph.Peer{Netdev: "a"}},
		1: {Index: 1, Peer: graph.Peer{Netdev: "b"}},
		2: {Index: 2, Peer: graph.Peer{Cube: 2, Port: 5}},
		3: {Index: 3},
	}}
	in := cube.PacketIn{Port: 0, Metadata: [4]uint32{1, 2, 3, 4}, Trip: cube.Trip{Netdev: 7}, Data: []byte("frame")}
	got := map[uint16]string{}
	(&Sets{}).Flood(n, &in, false, func(p *graph.Port, out *cube.PacketOut) {
		if p.Index != out.Port || out.Direction != cube.Egress || out.Metadata != in.Metadata || out.Trip != in.Trip {
			t.Errorf("port %d gets %+v", p.Index, out)
		}
		got[out.Port] = string(out.Data)
	})
	if want := map[uint16]string{1: "frame", 2: "frame"}; !maps.Equal(got, want) {
		t.Errorf("copies %v, want %v", got, want)
	}
}
