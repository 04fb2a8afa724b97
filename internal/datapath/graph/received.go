// SPDX-License-Identifier: Apache-2.0

package graph

// ReceivedAt returns the interface index of the netdev where a packet that a cube sends counts as received, 0 for none:
// packets of the slow path have none, and it is needed to pass them to the stack. A nil Wiring has none.
func (w *Wiring) ReceivedAt(id CubeID, transparent bool, port uint16) int {
	if w == nil {
		return 0
	}
	if transparent {
		at := w.Stack[id]
		if at.Dev != nil {
			return at.Dev.Index
		}
		if at.Port.Port == nil {
			return 0
		}
		return w.index(at.Port.Port.Peer)
	}
	n := w.Graph.Cubes[id]
	if n == nil || n.Ports[port] == nil {
		return 0
	}
	return w.index(n.Ports[port].Peer)
}

// AtHost reports whether a transparent cube is at the host's stack, where a new packet has no netdev unless the cube names it.
func (w *Wiring) AtHost(id CubeID) bool { return w != nil && w.Stack[id].Host }

// OnNetdev reports whether a transparent cube is on a netdev and not on a port.
func (w *Wiring) OnNetdev(id CubeID) bool { return w != nil && w.Stack[id].Dev != nil }

// index returns the interface index of a peer, 0 if it is not a netdev or does not exist.
func (w *Wiring) index(p Peer) int {
	if n := w.Graph.Netdevs[p.Netdev]; n != nil {
		return n.Index
	}
	return 0
}
