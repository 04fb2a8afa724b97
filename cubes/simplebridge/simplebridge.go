// SPDX-License-Identifier: Apache-2.0

// Package simplebridge is a learning bridge. The fast path learns, forwards and floods by itself; the control plane
// keeps configured entries and removes expired ones.
package simplebridge

import (
	"context"
	"embed"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/fdb"
	"github.com/polycube/polycube/inet"
)

// files are the model and the compiled programs.
//
//go:embed simplebridge.yang simplebridge.tc.o simplebridge.xdp.o
var files embed.FS

func init() {
	cube.Register(cube.Service{
		Files: files,
		New:   func(env cube.Env) (cube.Instance, error) { return newBridge(env).instance(), nil },
	})
}

type bridge struct {
	env cube.Env

	fdb *fdb.Database[inet.MAC]
}

func newBridge(env cube.Env) *bridge {
	b := &bridge{env: env}
	b.fdb = fdb.New(env, b.belongs)
	return b
}

// instance returns the functions that the framework calls.
func (b *bridge) instance() cube.Instance {
	return cube.Instance{
		Prepare: cube.Typed(b.prepare), State: b.State, DeleteState: b.DeleteState, Action: b.Action,
		PortChanged: b.PortChanged,
	}
}

func (b *bridge) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	change := fdb.Change{Created: c.Created(), Room: b.fdb.Room(), Aging: b.fdb.Aging(), Entries: c.Entries}
	var plan cube.Plan
	if c.New != nil {
		change.Aging = c.New.Fdb.aging()
		plan.Constants = c.New.Fdb.constants()
		if c.Old == nil || c.Old.Fdb != c.New.Fdb || len(b.changedPorts(c.Old.Ports, c.New.Ports)) > 0 {
			plan.After = append(plan.After, b.fdb.EndLeasesStep())
		}
	}
	if c.Created() {
		change.Room = c.New.Fdb.MaxEntries
		plan.MapSizes = fdb.MapSizes(change.Room)
	}
	if c.Old != nil {
		dead := b.changedPorts(c.Old.Ports, c.New.Ports)
		if len(dead) > 0 {
			plan.Before = append(plan.Before, b.fdb.ForgetStep(func(_ inet.MAC, is fdb.Entry) bool { return dead[is.Port] }))
		}
	}
	entries, err := fdb.Prepare(b.fdb, change, func(e *Entry) (inet.MAC, string) { return e.Address, e.Port })
	plan.Before = append(plan.Before, entries)
	return plan, err
}

// belongs reports whether the port of an entry exists.
func (b *bridge) belongs(_ inet.MAC, e fdb.Entry) bool {
	_, ok := b.env.PortName(e.Port)
	return ok
}

// changedPorts returns the indexes of the ports that only one of two configurations has: a frame may have been learned
// on the previous port with a new port's index.
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

// PortChanged removes the addresses behind a port that lost its peer, so that frames for them are flooded to where the
// stations may be now.
func (b *bridge) PortChanged(port string, up bool) {
	index, ok := b.env.PortIndex(port)
	if up || !ok {
		return
	}
	err := b.fdb.Forget(nil, func(_ inet.MAC, e fdb.Entry) bool { return e.Port == index })
	if err != nil {
		b.env.Logger().Error("flush the addresses of a port that is down", "port", port, "error", err)
	}
}
