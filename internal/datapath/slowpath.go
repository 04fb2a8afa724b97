// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/polycube/polycube/cube"
)

// Queries of the slow path while packets wait: none of them waits for a change.

// WayDown returns how a packet of a cube enters the fast path: the type of cubes to which it is sent, and the netdev
// where it counts as received if it did not enter through one, 0 for none. A packet that leaves through a netdev passes
// TC there, also one of an XDP cube, because XDP does not see what the stack sends. One of a cube at the host's stack always
// passes TC: its netdev may have no XDP.
func (p *Plane) WayDown(id CubeID, transparent bool, out *cube.PacketOut) (typ cube.Type, netdev int, err error) {
	typ, ok := p.state.TypeOf(id)
	if !ok {
		return "", 0, fmt.Errorf("send a packet of cube %d: %w", id, cube.ErrNotFound)
	}
	now := p.now.Load()
	if now.AtHost(id) || now.OnNetdev(id) && out.Direction == cube.Egress {
		typ = cube.TypeTC
	}
	if out.Trip.Netdev == 0 {
		if now.AtHost(id) {
			return "", 0, fmt.Errorf("send a packet of cube %d, which is at the host's stack: it names no netdev (Trip.Netdev): %w", id, cube.ErrInvalid)
		}
		netdev = now.ReceivedAt(id, transparent, out.Port)
	}
	return typ, netdev, nil
}

// Flood sends the copies of a packet that a cube floods and that the kernel could not make. With set, they are for the
// members of a set of ports, which is in the packet's metadata.
func (p *Plane) Flood(id CubeID, in *cube.PacketIn, set bool, send func(cube.Type, *Node, *Port, *cube.PacketOut)) {
	now := p.now.Load()
	typ, ok := p.state.TypeOf(id)
	if now == nil || !ok || now.Graph.Cubes[id] == nil {
		return
	}
	n := now.Graph.Cubes[id]
	p.sets.Flood(n, in, set, func(port *Port, out *cube.PacketOut) { send(typ, n, port, out) })
}
