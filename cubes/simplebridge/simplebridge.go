// SPDX-License-Identifier: Apache-2.0

// Package simplebridge is a learning bridge. The fast path learns, forwards and floods by
// itself; the control plane keeps configured entries and takes away what is aged.
package simplebridge

import (
	"context"
	_ "embed" // for the model and the compiled programs
	"fmt"
	"time"

	"github.com/polycube/polycube/cube"
)

var (
	//go:embed simplebridge.yang
	model string
	//go:embed simplebridge.tc.o
	tc []byte
	//go:embed simplebridge.xdp.o
	xdp []byte
)

func init() {
	cube.Register(cube.Service{
		Model:   model,
		Objects: map[cube.Hook][]byte{cube.TC: tc, cube.XDP: xdp},
		New:     func(env cube.Env) (cube.Instance, error) { return newBridge(env), nil },
	})
}

type bridge struct {
	cube.Typed[Config]
	env cube.Env

	// fdb is open from the first Commit on.
	fdb    table
	open   bool
	static map[Address]uint16 // configured entries: port index by address
	aging  time.Duration
	// period is that of the timer that stopSweep ends; 0 before there is one.
	period    time.Duration
	stopSweep func()
}

func newBridge(env cube.Env) *bridge {
	b := &bridge{env: env}
	b.PrepareConfig = b.prepare
	return b
}

// desired is what the control plane wants of the table.
type desired struct {
	static map[Address]uint16
	aging  time.Duration
	// dead are the indexes of ports that this change takes away, and of ports that are new: a
	// frame may have been learned from the last port that had a new one's index.
	dead map[uint16]bool
}

func (b *bridge) prepare(_ context.Context, old, after *Config) (cube.Plan, error) {
	want := desired{static: make(map[Address]uint16, len(after.Fdb.Entry)), aging: after.Fdb.aging()}
	if len(after.Fdb.Entry) > int(after.Fdb.MaxEntries) {
		return cube.Plan{}, fmt.Errorf("fdb: %d entries, but max-entries is %d: %w",
			len(after.Fdb.Entry), after.Fdb.MaxEntries, cube.ErrFull)
	}
	for _, e := range after.Fdb.Entry {
		port, ok := b.env.PortIndex(e.Port)
		if !ok {
			return cube.Plan{}, fmt.Errorf("fdb entry %s: port %s: %w", e.Address, e.Port, cube.ErrNotFound)
		}
		if _, twice := want.static[e.Address]; twice {
			return cube.Plan{}, fmt.Errorf("fdb entry %s: given twice: %w", e.Address, cube.ErrExists)
		}
		want.static[e.Address] = port
	}
	plan := cube.Plan{Constants: after.Fdb.constants()}
	if old == nil {
		plan.MapSizes = map[string]uint32{"fdb": after.Fdb.MaxEntries}
	} else {
		want.dead = b.changedPorts(old.Ports, after.Ports)
	}
	var undo func() error
	plan.Commit = func() (err error) { undo, err = b.commit(want); return err }
	plan.Undo = func() error { return undo() }
	return plan, nil
}

// changedPorts are the indexes of the ports that only one of two configurations has.
func (b *bridge) changedPorts(old, after []cube.Port) map[uint16]bool {
	count := map[string]int{}
	for _, p := range old {
		count[p.Name]++
	}
	for _, p := range after {
		count[p.Name]--
	}
	dead := map[uint16]bool{}
	for name, n := range count {
		if index, ok := b.env.PortIndex(name); ok && n != 0 {
			dead[index] = true
		}
	}
	return dead
}

// commit brings the table to what is wanted, or leaves it as it is. The function it returns
// takes a successful change back.
func (b *bridge) commit(want desired) (func() error, error) {
	fresh := !b.open
	if fresh {
		fdb, err := cube.OpenTable[Address, entry](b.env, "fdb")
		if err != nil {
			return nil, err
		}
		b.fdb, b.open = table{fdb}, true
	}
	static, aging, e := b.static, b.aging, &edit{table: b.fdb}
	if err := b.apply(e, want); err != nil {
		if undo := e.revert(); undo != nil {
			b.env.Logger().Error("taking back a change of the filtering database", "error", undo)
		}
		b.open = !fresh
		return nil, err
	}
	b.static, b.aging = want.static, want.aging
	if fresh {
		// A restarted daemon finds the table of the last one.
		if err := b.sweep(); err != nil {
			b.open = false
			return nil, err
		}
	}
	b.sweepEvery(want.aging)
	return func() error {
		b.static, b.aging = static, aging
		if fresh {
			b.open = false // the map goes
			return nil
		}
		b.sweepEvery(aging)
		return e.revert()
	}, nil
}

// apply changes the table from the configured entries that it has to those that are wanted.
func (b *bridge) apply(e *edit, want desired) error {
	for a, port := range b.static {
		if is, ok := want.static[a]; !ok || is != port {
			if err := e.remove(a); err != nil {
				return err
			}
		}
	}
	if len(want.dead) > 0 {
		var gone []Address
		var err error
		for a, is := range e.All(&err) {
			if is.Fixed == 0 && want.dead[is.Port] {
				gone = append(gone, a)
			}
		}
		if err != nil {
			return err
		}
		for _, a := range gone {
			if err := e.remove(a); err != nil {
				return err
			}
		}
	}
	now, err := clock()
	if err != nil {
		return err
	}
	for a, port := range want.static {
		if was, ok := b.static[a]; ok && was == port {
			continue
		}
		if err := e.put(a, entry{Seen: now, Port: port, Fixed: 1}); err != nil {
			return err
		}
	}
	return nil
}

// PortChanged forgets the addresses behind a port that leads nowhere any more, so that frames
// for them are flooded to where they may be now.
func (b *bridge) PortChanged(port string, up bool) {
	index, ok := b.env.PortIndex(port)
	if up || !ok {
		return
	}
	if !b.open {
		return
	}
	err := b.fdb.removeIf(func(_ Address, e entry) bool { return e.Fixed == 0 && e.Port == index })
	if err != nil {
		b.env.Logger().Error("forgetting the addresses behind a port that is down", "port", port, "error", err)
	}
}
