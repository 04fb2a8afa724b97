// SPDX-License-Identifier: Apache-2.0

// Package simplebridge is a learning bridge. The fast path learns, forwards and floods by
// itself; the control plane keeps configured entries and takes away what is aged.
package simplebridge

import (
	"context"
	_ "embed" // for the model and the compiled programs
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/fdb"
	"github.com/polycube/polycube/inet"
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
	fdb *fdb.Database[inet.MAC]
}

func newBridge(env cube.Env) *bridge {
	b := &bridge{env: env}
	b.fdb = fdb.New(env, b.belongs)
	b.PrepareConfig = b.prepare
	return b
}

func (b *bridge) prepare(_ context.Context, old, after *Config) (cube.Plan, error) {
	plan := cube.Plan{Constants: after.Fdb.constants()}
	var dead map[uint16]bool
	if old == nil {
		if err := b.fdb.SetRoom(after.Fdb.MaxEntries); err != nil {
			return cube.Plan{}, err
		}
		plan.MapSizes = map[string]uint32{"fdb": after.Fdb.MaxEntries}
	} else {
		dead = b.changedPorts(old.Ports, after.Ports)
	}
	var undo func() error
	plan.Commit = func() (err error) { undo, err = b.commit(after.Fdb.aging(), dead); return err }
	plan.Undo = func() error { return undo() }
	return plan, nil
}

// belongs says whether the port of an entry is there.
func (b *bridge) belongs(_ inet.MAC, e fdb.Entry) bool {
	_, ok := b.env.PortName(e.Port)
	return ok
}

// PrepareEntries implements cube.EntryPreparer.
func (b *bridge) PrepareEntries(_ context.Context, changes []cube.EntryChange) (cube.Plan, error) {
	return fdb.PrepareEntries(b.fdb, changes, func(e *Entry) (inet.MAC, string) { return e.Address, e.Port })
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
	if !b.fdb.IsOpen() {
		if err := b.fdb.Open(); err != nil {
			return nil, err
		}
		b.fdb.SetAging(aging)
		return func() error {
			b.fdb.Close() // the map goes
			return nil
		}, nil
	}
	e := &cube.Undo{}
	if len(dead) > 0 {
		err := b.fdb.Forget(e, func(_ inet.MAC, is fdb.Entry) bool { return dead[is.Port] })
		if err != nil {
			if err := e.Run(); err != nil {
				b.env.Logger().Error("taking back a change of the filtering database", "error", err)
			}
			return nil, err
		}
	}
	before := b.fdb.Aging()
	b.fdb.SetAging(aging)
	return func() error {
		b.fdb.SetAging(before)
		return e.Run()
	}, nil
}

// PortChanged forgets the addresses behind a port that leads nowhere any more, so that frames
// for them are flooded to where they may be now.
func (b *bridge) PortChanged(port string, up bool) {
	index, ok := b.env.PortIndex(port)
	if up || !ok || !b.fdb.IsOpen() {
		return
	}
	err := b.fdb.Forget(nil, func(_ inet.MAC, e fdb.Entry) bool { return e.Port == index })
	if err != nil {
		b.env.Logger().Error("forgetting the addresses behind a port that is down", "port", port, "error", err)
	}
}
