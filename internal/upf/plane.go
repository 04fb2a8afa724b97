// SPDX-License-Identifier: Apache-2.0

package upf

// The tables of the cube, as the data plane of the N4 server.

import (
	"context"
	"fmt"
	"log/slog"
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
	locals atomic.Pointer[n4.Locals]
	// markers queues End Markers to be sent, so that no session waits for the daemon.
	markers chan n4.EndMarker
}

func newPlane(d *daemon, name string, tables *pdusession.Tables, is cubeState, log *slog.Logger) *plane {
	p := &plane{Tables: tables, daemon: d, name: name, log: log, markers: make(chan n4.EndMarker, 4096)}
	p.know(is)
	return p
}

// know updates the addresses of the cube.
func (p *plane) know(is cubeState) {
	locals := make(n4.Locals, 0, len(is.Locals))
	for _, l := range is.Locals {
		locals = append(locals, n4.Local{Address: l.Address, Instance: l.Instance})
	}
	p.locals.Store(&locals)
}

// Begin implements n4.DataPlane.
func (p *plane) Begin() n4.Batch { return p.Tables.Begin() }

// Locals implements n4.DataPlane.
func (p *plane) Locals() n4.Locals { return *p.locals.Load() }

// EndMarker implements n4.DataPlane.
func (p *plane) EndMarker(m n4.EndMarker) error {
	select {
	case p.markers <- m:
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
			if err := p.daemon.endMarker(ctx, p.name, m); err != nil {
				p.log.Warn("send End Marker", "peer", m.Peer, "teid", m.TEID, "error", err)
			}
		}
	}
}
