// SPDX-License-Identifier: Apache-2.0

package topology

// The gates of the cubes whose code a transaction calls, and the lock of the data plane, which it takes after them.

import (
	"context"

	"github.com/polycube/polycube/internal/topology/unit"
)

// gates are the gates and the lock that a transaction holds.
type gates struct {
	plane *graphInUse
	// held are the units whose gate the transaction has: from the first call of a cube's code until the end, so that the
	// data plane is locked after the last wait for a handler (see programs.go).
	held map[*unit.Unit]bool
	// locked says that the transaction has the lock of the data plane.
	locked bool
}

// call runs a cube's code. From then on until the end of the transaction the cube gets no packets.
func (g *gates) call(ctx context.Context, u *unit.Unit, fn func() error) error {
	if err := g.hold(ctx, u); err != nil {
		return err
	}
	return u.Call(ctx, fn)
}

// hold enters a unit's gate, unless the transaction has it already.
func (g *gates) hold(ctx context.Context, u *unit.Unit) error {
	if g.held[u] {
		return nil
	}
	if err := u.EnterGate(ctx); err != nil {
		return err
	}
	g.held[u] = true
	return nil
}

// lock takes the plane lock. No cube's handler is waited for from here on.
func (g *gates) lock(ctx context.Context) error {
	if err := g.plane.Lock(ctx); err != nil {
		return err
	}
	g.locked = true
	return nil
}

// unlock gives back what the transaction holds.
func (g *gates) unlock() {
	if g.locked {
		g.locked = false
		g.plane.Unlock()
	}
	for u := range g.held {
		u.LeaveGate()
	}
	clear(g.held)
}
