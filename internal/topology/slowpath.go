// SPDX-License-Identifier: Apache-2.0

package topology

// Packets, messages and log lines from the fast path, on their way to the cube with their number.

import (
	"sync"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/unit"
)

// slowPath finds the cube to which packets, messages and log lines belong.
type slowPath struct {
	view   *atomic.Pointer[unit.Snapshot]
	byID   sync.Map // datapath.CubeID to *unit.Unit
	strays atomic.Uint64
}

// PacketIn accepts a packet of the slow path for a cube. It copies what it keeps and does not wait.
func (p *slowPath) PacketIn(id datapath.CubeID, in *cube.PacketIn) {
	if u, ok := p.byID.Load(id); ok {
		u.(*unit.Unit).PacketIn(in)
		return
	}
	p.strays.Add(1)
}

// Notify accepts a message that a cube's program sent with pcn_notify. It copies what it keeps and does not wait.
func (p *slowPath) Notify(id datapath.CubeID, kind uint32, data []byte) {
	if u, ok := p.byID.Load(id); ok {
		u.(*unit.Unit).Notify(kind, data)
		return
	}
	p.strays.Add(1)
}

// DatapathLog writes a line that a cube's program logged.
func (p *slowPath) DatapathLog(id datapath.CubeID, level datapath.LogLevel, msg string) {
	if u, ok := p.byID.Load(id); ok {
		u.(*unit.Unit).LogLine(level, msg)
		return
	}
	p.strays.Add(1)
}

// StrayPackets returns how many packets, messages and log lines came from the fast path for cubes that do not exist (any more).
func (p *slowPath) StrayPackets() uint64 { return p.strays.Load() }

// ShedPackets returns how many packets and messages of the slow path were not handled because the cube's queue was
// full, or its code panicked. It returns 0 for a cube that does not exist.
func (p *slowPath) ShedPackets(name string) uint64 {
	if u := p.view.Load().Units[name]; u != nil {
		return u.Shed()
	}
	return 0
}
