// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"github.com/polycube/polycube/internal/slowpath"
	"github.com/polycube/polycube/internal/trace"
)

// openTrace creates the hub of trace and capture sessions; nil without the kernel's data plane. It is closed after the
// API.
func (d *daemon) openTrace() *trace.Hub {
	k, ok := d.plane.(*kernelPlane)
	if !ok {
		return nil
	}
	hub := trace.NewHub(d.manager, k, d.log)
	k.hub.Store(hub)
	d.undo = append(d.undo, hub.Close)
	return hub
}

// Trace implements slowpath.Tracer.
func (u fromFastPath) Trace(s *slowpath.Step) {
	if hub := u.plane.hub.Load(); hub != nil {
		hub.Trace(s)
	}
}
