// SPDX-License-Identifier: Apache-2.0

package upf

// The tables of the cube, as the data plane of the N4 server.

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/n4"
	"github.com/polycube/polycube/pdusession"
)

// plane is a cube: its tables, and the operations that only the daemon can perform.
type plane struct {
	*pdusession.Tables
	daemon *daemon
	name   string
	log    *slog.Logger
	// locals are the local tunnel addresses, which may be reconfigured at any time.
	locals atomic.Pointer[[]netip.Addr]
	// markers queues End Markers to be sent, so that no session waits for the daemon.
	markers chan marker
}

// marker is an End Marker for the remote end of a tunnel.
type marker struct {
	peer netip.Addr
	teid uint32
}

func newPlane(d *daemon, name string, tables *pdusession.Tables, is cubeState, log *slog.Logger) *plane {
	p := &plane{Tables: tables, daemon: d, name: name, log: log, markers: make(chan marker, 4096)}
	p.know(is)
	return p
}

// know updates the addresses of the cube.
func (p *plane) know(is cubeState) {
	locals := make([]netip.Addr, 0, len(is.Locals))
	for _, l := range is.Locals {
		locals = append(locals, l.Address)
	}
	p.locals.Store(&locals)
}

// Begin implements n4.DataPlane.
func (p *plane) Begin() n4.Batch { return p.Tables.Begin() }

// Local implements n4.DataPlane: tunnels use the numerically lowest address of a family.
func (p *plane) Local(of netip.Addr) (local netip.Addr, err error) {
	for _, a := range *p.locals.Load() {
		if a.Is4() == of.Is4() && (!local.IsValid() || a.Less(local)) {
			local = a
		}
	}
	if !local.IsValid() {
		err = fmt.Errorf("cube %s has no local-address of the family of %s: add one: %w", p.name, of, cube.ErrNotFound)
	}
	return local, err
}

// EndMarker implements n4.DataPlane.
func (p *plane) EndMarker(peer netip.Addr, teid uint32) error {
	select {
	case p.markers <- marker{peer, teid}:
		return nil
	default:
		return fmt.Errorf("the queue of End Markers for polycubed: %w", cube.ErrFull)
	}
}

// mark asks the daemon to send the End Markers.
func (p *plane) mark(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-p.markers:
			if err := p.daemon.endMarker(ctx, p.name, m.peer, m.teid); err != nil {
				p.log.Warn("send End Marker", "peer", m.peer, "teid", m.teid, "error", err)
			}
		}
	}
}
