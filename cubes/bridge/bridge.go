// SPDX-License-Identifier: Apache-2.0

// Package bridge is a bridge with VLANs. The fast path classifies, learns, forwards and floods by itself; the control
// plane decides which ports are in which VLANs, keeps configured addresses and removes expired ones.
package bridge

import (
	"context"
	"embed"
	"errors"
	"maps"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/fdb"
)

// files are the model and the compiled programs.
//
//go:embed bridge.yang bridge.tc.o bridge.xdp.o
var files embed.FS

// maxPorts is the maximum number of ports of a bridge.
const maxPorts = 256

func init() {
	cube.Register(cube.Service{
		Files:    files,
		MaxPorts: maxPorts,
		New:      func(env cube.Env) (cube.Instance, error) { return newBridge(env).instance(), nil },
	})
}

type bridge struct {
	env cube.Env

	// config is the configuration in effect, nil before the first one.
	config *Config
	fdb    *fdb.Database[Key]
	ports  *ports
	span   *spanning
}

func newBridge(env cube.Env) *bridge {
	b := &bridge{env: env}
	b.fdb = fdb.New(env, b.belongs)
	b.ports = newPorts(env)
	b.span = newSpanning(b)
	return b
}

// instance returns the functions that the framework calls.
func (b *bridge) instance() cube.Instance {
	return cube.Instance{
		Prepare: cube.Typed(b.prepare), State: b.State, DeleteState: b.DeleteState, Action: b.Action,
		PacketIn: b.span.packetIn, PortChanged: b.PortChanged, LinkChanged: b.LinkChanged,
		PeerChanged: b.span.peerChanged, Close: b.span.close,
	}
}

func (b *bridge) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	change := fdb.Change{Created: c.Created(), Room: b.fdb.Room(), Aging: b.fdb.Aging(), Entries: c.Entries}
	var plan cube.Plan
	if c.New != nil {
		if err := b.span.check(c.New); err != nil {
			return cube.Plan{}, err
		}
		change.Room, change.Aging = c.New.Fdb.MaxEntries, c.New.Fdb.aging()
		plan.Constants, plan.MapSizes = c.New.constants(), fdb.MapSizes(change.Room)
		plan.After = append(plan.After, b.fdb.EndLeasesStep())
		plan.Before = append(plan.Before, cube.Effect(func() (func() error, error) { return b.change(c) }))
	}
	entries, err := fdb.Prepare(b.fdb, change, func(e *Entry) (Key, string) { return e.key(), e.Port })
	plan.Before = append(plan.Before, entries)
	return plan, err
}

// belongs reports whether stations can be behind the port of an entry: whether the port is in the VLAN.
func (b *bridge) belongs(k Key, e fdb.Entry) bool {
	is := b.ports.now[e.Port]
	return is.Member.has(k.vlan())
}

// changedPorts returns the indexes of the ports that only one of two configurations has: a frame may have been learned
// on the previous port with a new port's index.
func changedPorts(env cube.Env, old, after *Config) map[uint16]bool {
	fresh := map[uint16]bool{}
	if old == nil {
		return fresh
	}
	count := map[string]int{}
	for _, p := range old.Ports {
		count[p.Name]++
	}
	for _, p := range after.Ports {
		count[p.Name]--
	}
	for name, n := range count {
		if index, ok := env.PortIndex(name); ok && n != 0 {
			fresh[index] = true
		}
	}
	return fresh
}

// change applies a configuration, or leaves everything unchanged. The returned function undoes it.
func (b *bridge) change(c cube.ChangeOf[Config]) (func() error, error) {
	e := &cube.Undo{}
	was, guarded := b.config, b.ports.guarded
	back := func() error {
		b.config, b.ports.guarded = was, guarded
		err := e.Run()
		if was == nil {
			b.span.stopAll()
			return err
		}
		return errors.Join(err, b.span.follow(was, false))
	}
	b.config, b.ports.guarded = c.New, c.New.STPEnabled
	err := b.enforce(e, c)
	if err != nil {
		return nil, errors.Join(err, back())
	}
	return back, nil
}

func (b *bridge) enforce(e *cube.Undo, c cube.ChangeOf[Config]) error {
	if c.Created() {
		if err := b.ports.adopt(); err != nil {
			return err
		}
	}
	before := maps.Clone(b.ports.now)
	if err := b.arrange(e, c.New, c.Created()); err != nil {
		return err
	}
	if !c.Created() {
		if err := b.leave(e, before, changedPorts(b.env, c.Old, c.New)); err != nil {
			return err
		}
	}
	return b.span.follow(c.New, c.Created())
}

// arrange applies a configuration to the ports.
func (b *bridge) arrange(e *cube.Undo, after *Config, all bool) error {
	want, err := b.ports.portsAre(b.env, after)
	if err != nil {
		return err
	}
	var own portEntry
	own.MAC, own.Random = address(after.MAC, b.ports.mac)
	return b.ports.become(e, want, own, all)
}

// leave removes entries learned on ports that were deleted or are new, or that left a VLAN.
func (b *bridge) leave(e *cube.Undo, before map[uint16]portEntry, fresh map[uint16]bool) error {
	left := len(fresh) > 0
	for index, was := range before {
		is := b.ports.now[index]
		for i, word := range was.Member {
			left = left || word&^is.Member[i] != 0
		}
	}
	if !left {
		return nil
	}
	return b.fdb.Forget(e, func(k Key, is fdb.Entry) bool { return fresh[is.Port] || !b.belongs(k, is) })
}

// report logs an error that cannot be returned to anybody.
func (b *bridge) report(what string, err error) {
	if err != nil {
		b.env.Logger().Error(what, "error", err)
	}
}

// PortChanged is called when a port gets or loses its peer.
func (b *bridge) PortChanged(port string, up bool) {
	if !up {
		b.forgetPort(port)
	}
}

// LinkChanged is called when a port's link goes up or down.
func (b *bridge) LinkChanged(port string, works bool) {
	if !works {
		b.forgetPort(port)
	}
	b.span.portChanged(port, works)
}

// forgetPort removes the addresses behind a port without a peer, so that frames for them are flooded to where the
// stations may be now.
func (b *bridge) forgetPort(port string) {
	index, ok := b.env.PortIndex(port)
	if !ok {
		return
	}
	err := b.fdb.Forget(nil, func(_ Key, e fdb.Entry) bool { return e.Port == index })
	b.report("flush the addresses of a port that is down", err)
}
