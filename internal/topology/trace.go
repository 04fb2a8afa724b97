// SPDX-License-Identifier: Apache-2.0

package topology

// Sessions that look at packets are part of the world, not of the configuration: they are linked in by a transaction
// that changes nothing else, and a restart forgets them.

import (
	"context"
	"fmt"
	"strconv"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	fuse "github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// Trace links what sessions want to see into the programs that it concerns; nil ends all sessions.
func (m *Manager) Trace(ctx context.Context, t *fuse.Trace) error {
	return m.transact(ctx, func(tx *txn) error {
		tx.next.Trace = t
		return nil
	})
}

// stopsTracing gives up what sessions see when a change of something else cannot be linked with it: they must not stand
// in its way. The next session that begins or ends tries again.
func (t *txn) stopsTracing(err error) bool {
	if t.next.Trace == nil || t.next.Trace != t.old.Trace || t.ctx.Err() != nil {
		return false
	}
	t.m.log.Warn("a change does not fit with looking at packets: sessions see nothing from now on", "error", err)
	t.next.Trace, t.graph.Trace = nil, nil
	return true
}

// CubeID returns the number of a cube in the fast path.
func (m *Manager) CubeID(name string) (datapath.CubeID, error) {
	rec, _, err := m.find("", name)
	if err != nil {
		return 0, err
	}
	return rec.ID, nil
}

// CubeName is the name of the cube with a number, or the number if there is none.
func (m *Manager) CubeName(id datapath.CubeID) string {
	if u, ok := m.byID.Load(id); ok {
		return u.(*unit.Unit).Name
	}
	return "cube " + strconv.Itoa(int(id))
}

// PortName is the name of a cube's port, its number if there is none, "" for a transparent cube.
func (m *Manager) PortName(id datapath.CubeID, index uint16) string {
	u, ok := m.byID.Load(id)
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

// CapturePlace finds what a place names at which packets can be captured: CUBE:PORT, a transparent cube, or a netdev,
// which stands for the transparent cube that is next to the wire, or the port whose peer it is.
func (m *Manager) CapturePlace(name string) (fuse.Capture, error) {
	w := m.view.Load()
	if rec := w.Cubes[name]; rec != nil {
		if !rec.Transparent {
			return fuse.Capture{}, fmt.Errorf("%s has ports: name one, as %s:PORT: %w", name, name, cube.ErrInvalid)
		}
		return fuse.Capture{Cube: uint16(rec.ID)}, nil
	}
	at, err := world.ParsePlace(name)
	if err != nil {
		return fuse.Capture{}, err
	}
	if at.Netdev == "" {
		rec, p, err := w.PortAt(at)
		if err != nil {
			return fuse.Capture{}, err
		}
		return fuse.Capture{Cube: uint16(rec.ID), Port: p.Index}, nil
	}
	if ids, _ := w.ChainIDs(w.Chains[at.Netdev]); len(ids) > 0 {
		return fuse.Capture{Cube: uint16(ids[0])}, nil
	}
	if held := w.AllHolders()[at.Netdev]; len(held) > 0 {
		rec, p, err := w.PortAt(held[0])
		if err != nil {
			return fuse.Capture{}, err
		}
		return fuse.Capture{Cube: uint16(rec.ID), Port: p.Index}, nil
	}
	if _, err := m.getNetdev(at.Netdev); err != nil {
		return fuse.Capture{}, err
	}
	return fuse.Capture{}, fmt.Errorf("netdev %s is the peer of no port and has no transparent cube: %w", at.Netdev, cube.ErrInvalid)
}
