// SPDX-License-Identifier: Apache-2.0

package topology

// What comes from the fast path, on its way to the cube with its number.

import (
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/unit"
)

// PacketIn takes a packet of the slow path for a cube. It copies what it keeps and does not wait.
func (m *Manager) PacketIn(id datapath.CubeID, p *cube.PacketIn) {
	if u, ok := m.byID.Load(id); ok {
		u.(*unit.Unit).PacketIn(p)
		return
	}
	m.strays.Add(1)
}

// Notify takes a message that a cube's program sent with pcn_notify. It copies what it keeps and does not wait.
func (m *Manager) Notify(id datapath.CubeID, kind uint32, data []byte) {
	if u, ok := m.byID.Load(id); ok {
		u.(*unit.Unit).Notify(kind, data)
		return
	}
	m.strays.Add(1)
}

// DatapathLog writes a line that a cube's program logged.
func (m *Manager) DatapathLog(id datapath.CubeID, level datapath.LogLevel, msg string) {
	if u, ok := m.byID.Load(id); ok {
		u.(*unit.Unit).LogLine(level, msg)
		return
	}
	m.strays.Add(1)
}

// StrayPackets returns how many packets, messages and log lines came from the fast path for cubes that do not exist (any more).
func (m *Manager) StrayPackets() uint64 { return m.strays.Load() }

// ShedPackets returns how many packets and messages of the slow path were not handled because the cube had too many waiting, or its
// code panicked. It returns 0 for a cube that does not exist.
func (m *Manager) ShedPackets(name string) uint64 {
	if u := m.view.Load().Units[name]; u != nil {
		return u.Shed()
	}
	return 0
}
