// SPDX-License-Identifier: Apache-2.0

// Package simplebridge is a learning bridge. The fast path learns, forwards and floods by
// itself; the control plane keeps configured entries and takes away what is aged.
package simplebridge

import (
	"context"
	_ "embed" // for the model and the compiled programs
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
	room   int                // entries that fit
	static map[Address]uint16 // configured entries: port index by address
	swept  bool               // of what an earlier life of the cube left
	aging  time.Duration
	// period is that of the timer that stopSweep ends; 0 before there is one.
	period    time.Duration
	stopSweep func()
}

func newBridge(env cube.Env) *bridge {
	b := &bridge{env: env, static: map[Address]uint16{}}
	b.PrepareConfig = b.prepare
	return b
}

func (b *bridge) prepare(_ context.Context, old, after *Config) (cube.Plan, error) {
	plan := cube.Plan{Constants: after.Fdb.constants()}
	var dead map[uint16]bool
	if old == nil {
		b.room = int(after.Fdb.MaxEntries)
		plan.MapSizes = map[string]uint32{"fdb": after.Fdb.MaxEntries}
	} else {
		dead = b.changedPorts(old.Ports, after.Ports)
	}
	var undo func() error
	plan.Commit = func() (err error) { undo, err = b.commit(after.Fdb.aging(), dead); return err }
	plan.Undo = func() error { return undo() }
	return plan, nil
}

// changedPorts are the indexes of the ports that only one of two configurations has: a frame may
// have been learned from the last port that had a new one's index.
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

// commit brings the aging time into force and forgets what was learned from dead ports. The
// function it returns takes that back.
func (b *bridge) commit(aging time.Duration, dead map[uint16]bool) (func() error, error) {
	if !b.open {
		fdb, err := cube.OpenTable[Address, entry](b.env, "fdb")
		if err != nil {
			return nil, err
		}
		b.fdb, b.open, b.aging = table{fdb}, true, aging
		b.sweepEvery(aging)
		return func() error {
			b.open = false // the map goes
			return nil
		}, nil
	}
	e := &edit{table: b.fdb}
	if err := e.forget(dead); err != nil {
		return nil, b.takeBack(e, err)
	}
	before := b.aging
	b.aging = aging
	b.sweepEvery(aging)
	return func() error {
		b.aging = before
		b.sweepEvery(before)
		return e.revert()
	}, nil
}

// takeBack is for a change that failed on the way.
func (b *bridge) takeBack(e *edit, cause error) error {
	if err := e.revert(); err != nil {
		b.env.Logger().Error("taking back a change of the filtering database", "error", err)
	}
	return cause
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
