// SPDX-License-Identifier: Apache-2.0

package topology

// Sessions that look at packets are part of the world, not of the configuration: they are linked in by a transaction
// that changes nothing else, and a restart forgets them.

import (
	"context"
	"strconv"

	"github.com/polycube/polycube/internal/datapath"
	fuse "github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/topology/unit"
)

// Trace links what sessions want to see into the programs that it concerns; nil ends all sessions.
func (m *Manager) Trace(ctx context.Context, t *fuse.Trace) error {
	return m.transact(ctx, func(tx *editing) error {
		tx.next.Trace = t
		return nil
	})
}

// stopsTracing gives up what sessions see when a change of something else cannot be linked with it: they must not stand
// in its way. The next session that begins or ends tries again.
func (x *execution) stopsTracing(err error) bool {
	if x.next.Trace == nil || x.next.Trace != x.old.Trace || x.ctx.Err() != nil {
		return false
	}
	x.log.Warn("a change is too large to keep tracing: trace and capture sessions see nothing from now on", "error", err)
	x.next.Trace, x.graph.Trace = nil, nil
	return true
}

// CubeName is the name of the cube with a number, or the number if there is none.
func (p *slowPath) CubeName(id datapath.CubeID) string {
	if u, ok := p.byID.Load(id); ok {
		return u.(*unit.Unit).Name
	}
	return "cube " + strconv.Itoa(int(id))
}

// PortName is the name of a cube's port, its number if there is none, "" for a transparent cube.
func (p *slowPath) PortName(id datapath.CubeID, index uint16) string {
	u, ok := p.byID.Load(id)
	if !ok {
		return strconv.Itoa(int(index))
	}
	if u.(*unit.Unit).Service.Info.Transparent {
		return ""
	}
	if name, ok := u.(*unit.Unit).PortName(index); ok {
		return name
	}
	return strconv.Itoa(int(index))
}
