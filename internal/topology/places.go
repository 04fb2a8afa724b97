// SPDX-License-Identifier: Apache-2.0

package topology

// PortRef is a port and what it is connected with.
type PortRef struct {
	Cube, Port string
	// Peer is CUBE:PORT or a netdev, "" when the port is free.
	Peer string
}

// ParentRef is a transparent cube and where it is attached.
type ParentRef struct {
	Cube string
	// Parent is CUBE:PORT or a netdev, "" when the cube is attached to nothing.
	Parent string
}

// Places lists the ports of the cubes, and the transparent cubes, in order of creation. It reads nothing but the
// configuration, so that completion can ask at every key.
func (m *Manager) Places() ([]PortRef, []ParentRef) {
	var ports []PortRef
	var parents []ParentRef
	for _, rec := range m.view.Load().InOrder() {
		if rec.Transparent {
			parents = append(parents, ParentRef{Cube: rec.Name, Parent: rec.Parent})
			continue
		}
		for _, p := range rec.PortsByIndex() {
			ports = append(ports, PortRef{Cube: rec.Name, Port: p.Name, Peer: p.Peer})
		}
	}
	return ports, parents
}
