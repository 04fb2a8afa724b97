// SPDX-License-Identifier: Apache-2.0

package floods

import (
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/graph"
)

// Flood passes on a copy of a packet for each port of a cube with a peer, except the ingress port, because the kernel
// could not make them. With set, they are the members of the set in the packet's metadata. A copy is valid until the
// next one.
func (s *Sets) Flood(n *graph.Node, p *cube.PacketIn, set bool, send func(*graph.Port, *cube.PacketOut)) {
	out := cube.PacketOut{
		Direction: cube.Egress, Metadata: p.Metadata, TrafficClass: p.TrafficClass, Trip: p.Trip, Offload: p.Offload, Data: p.Data,
	}
	copied := func() {
		if port := n.Ports[out.Port]; port != nil && port.Peer != (graph.Peer{}) {
			send(port, &out)
		}
	}
	if set {
		out.Metadata = [4]uint32{}
		for out.Port, out.Data = range s.Copies(n.ID, p.Port, p.Metadata, p.Data) {
			copied()
		}
		return
	}
	for out.Port = range n.Ports {
		if out.Port != p.Port {
			copied()
		}
	}
}
