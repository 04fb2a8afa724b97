// SPDX-License-Identifier: Apache-2.0

package efw

// The gate: writing one word closes it, and all packets are left to the host. It closes by itself if the daemon stops renewing it.

import (
	"sync"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/grace"
	"github.com/polycube/polycube/cube/table"
)

// How long the gate stays open without renewal, and how often it is renewed.
const (
	lease       = 3 * time.Second
	leasePeriod = 500 * time.Millisecond
)

// gateEntry is struct efw_gate.
type gateEntry struct {
	Until uint64 // ns of the coarse clock; 0: closed
	MAC   [6]byte
	Flags uint16
	// UDPTimeout is how long established connections of UDP are kept, in ms; 0: they are left to the stack.
	UDPTimeout uint32
	_          uint32
}

// tracked is EFW_TRACKED, and 2 << family EFW_TRACKED_BY.
const tracked = 1

// gate says whether rules of the host are in effect. Any goroutine may close it.
type gate struct {
	table table.Table[uint32, gateEntry]

	mu sync.Mutex
	// changes counts the changes of the host.
	changes uint64
	is      gateEntry
	err     error
}

func newGate(env cube.Env) *gate { return &gate{table: table.New[uint32, gateEntry](env, "gate")} }

// noted closes the gate because the host has changed. It returns how long that took.
func (g *gate) noted() (time.Duration, error) {
	begun := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changes++
	err := g.set(gateEntry{MAC: g.is.MAC, Flags: g.is.Flags})
	return time.Since(begun), err
}

// seen returns the number of changes.
func (g *gate) seen() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changes
}

// shut closes the gate, and returns once no packet is being processed behind it.
func (g *gate) shut() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.set(gateEntry{}); err != nil {
		return err
	}
	return grace.Wait()
}

// fail closes the gate because of an error.
func (g *gate) fail(err error) {
	_, _ = g.noted()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

// open opens the gate, unless the number of changes differs from the one seen.
func (g *gate) open(seen uint64, is gateEntry) (bool, error) {
	now, err := cube.TimeCoarse()
	if err != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changes != seen {
		return false, nil
	}
	g.err = nil
	is.Until = now + uint64(lease)
	return true, g.set(is)
}

// renew keeps an open gate open.
func (g *gate) renew() {
	now, err := cube.TimeCoarse()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.is.Until == 0 || err != nil {
		return
	}
	is := g.is
	is.Until = now + uint64(lease)
	if err := g.set(is); err != nil {
		g.err = err
	}
}

// set writes the entry that packets see. The lock is held.
func (g *gate) set(is gateEntry) error {
	if err := g.table.Set(0, is); err != nil {
		g.err = err
		return err
	}
	g.is = is
	return nil
}

// state returns whether the gate is open, the number of changes, and an error.
func (g *gate) state() (open bool, changes uint64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.is.Until != 0, g.changes, g.err
}
