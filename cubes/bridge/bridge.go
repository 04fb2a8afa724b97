// SPDX-License-Identifier: Apache-2.0

// Package bridge is a bridge with VLANs. The fast path classifies, learns, forwards and floods by
// itself; the control plane says which ports are in which VLANs, keeps configured addresses and
// takes away what is aged.
package bridge

import (
	"context"
	_ "embed" // for the model and the compiled programs
	"errors"
	"maps"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/fdb"
)

var (
	//go:embed bridge.yang
	model string
	//go:embed bridge.tc.o
	tc []byte
	//go:embed bridge.xdp.o
	xdp []byte
)

// maxPorts is how many ports a bridge can have.
const maxPorts = 256

func init() {
	cube.Register(cube.Service{
		Model:    model,
		Objects:  map[cube.Hook][]byte{cube.TC: tc, cube.XDP: xdp},
		MaxPorts: maxPorts,
		New:      func(env cube.Env) (cube.Instance, error) { return newBridge(env), nil },
	})
}

type bridge struct {
	cube.Typed[Config]
	env cube.Env

	// config is the configuration in force; fdb and ports are open from the first Commit on.
	config *Config
	fdb    *fdb.Database[Key]
	ports  *ports
	open   bool
	span   *spanning
}

func newBridge(env cube.Env) *bridge {
	b := &bridge{env: env}
	b.fdb = fdb.New(env, b.belongs)
	b.span = newSpanning(b)
	b.PrepareConfig = b.prepare
	return b
}

func (b *bridge) prepare(_ context.Context, old, after *Config) (cube.Plan, error) {
	if err := b.span.check(after); err != nil {
		return cube.Plan{}, err
	}
	if err := b.fdb.SetRoom(after.Fdb.MaxEntries); err != nil {
		return cube.Plan{}, err
	}
	plan := cube.Plan{Constants: after.constants(), MapSizes: map[string]uint32{"fdb": after.Fdb.MaxEntries}}
	fresh := newPorts(b.env, old, after)
	var undo func() error
	plan.Commit = func() (err error) { undo, err = b.commit(after, fresh); return err }
	plan.Undo = func() error { return undo() }
	return plan, nil
}

// belongs says whether stations can be behind the port of an entry: it is in the VLAN.
func (b *bridge) belongs(k Key, e fdb.Entry) bool {
	is := b.ports.now[e.Port]
	return is.Member.has(k.vlan())
}

// PrepareEntries implements cube.EntryPreparer.
func (b *bridge) PrepareEntries(_ context.Context, changes []cube.EntryChange) (cube.Plan, error) {
	return fdb.PrepareEntries(b.fdb, changes, func(e *Entry) (Key, string) { return e.key(), e.Port })
}

// newPorts are the indexes of the ports that only one of two configurations has: a frame may have
// been learned from the last port that had a new one's index.
func newPorts(env cube.Env, old, after *Config) map[uint16]bool {
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

// commit brings a configuration into force, or leaves everything as it is. The function it returns
// takes that back.
func (b *bridge) commit(after *Config, fresh map[uint16]bool) (func() error, error) {
	if b.open {
		return b.change(after, fresh)
	}
	if err := b.fdb.Open(); err != nil {
		return nil, err
	}
	p, err := openPorts(b.env)
	if err != nil {
		return nil, err
	}
	if p.guarded = after.STPEnabled; p.guarded {
		p.states = p.found()
	}
	b.ports = p
	if err := b.arrange(nil, after, true); err != nil {
		return nil, err
	}
	b.open, b.config = true, after
	if err := b.span.follow(after); err != nil {
		b.open = false
		return nil, err
	}
	b.fdb.SetAging(after.Fdb.aging())
	return func() error {
		b.open = false // the maps go
		b.fdb.Close()
		b.span.stopAll()
		return nil
	}, nil
}

// change goes from one configuration to another.
func (b *bridge) change(after *Config, fresh map[uint16]bool) (func() error, error) {
	e := &cube.Undo{}
	was, guarded, before := b.config, b.ports.guarded, maps.Clone(b.ports.now)
	force := func(c *Config) {
		b.config = c
		b.fdb.SetAging(c.Fdb.aging())
	}
	back := func() error {
		force(was)
		b.ports.guarded = guarded
		return errors.Join(b.fdb.Open(), e.Run(), b.span.follow(was))
	}
	if err := b.fdb.Open(); err != nil {
		return nil, err
	}
	force(after)
	b.ports.guarded = after.STPEnabled
	if err := b.arrange(e, after, false); err != nil {
		b.report("taking back a change", back())
		return nil, err
	}
	if err := b.leave(e, before, fresh); err != nil {
		b.report("taking back a change", back())
		return nil, err
	}
	if err := b.span.follow(after); err != nil {
		b.report("taking back a change", back())
		return nil, err
	}
	return back, nil
}

// arrange makes the ports what a configuration says.
func (b *bridge) arrange(e *cube.Undo, after *Config, all bool) error {
	want, err := b.ports.portsAre(b.env, after)
	if err != nil {
		return err
	}
	var own portEntry
	own.MAC, own.Random = address(after.MAC, b.ports.mac)
	return b.ports.become(e, want, own, all)
}

// leave forgets what was learned from ports that are gone or new, or are no longer in a VLAN.
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

// report writes down what went wrong where nobody can be told.
func (b *bridge) report(what string, err error) {
	if err != nil {
		b.env.Logger().Error(what, "error", err)
	}
}

// PortChanged is told when a port gets or loses its peer.
func (b *bridge) PortChanged(port string, up bool) {
	if !up {
		b.forgetPort(port)
	}
}

// LinkChanged is told when a port's link begins and ceases to work.
func (b *bridge) LinkChanged(port string, works bool) {
	if !works {
		b.forgetPort(port)
	}
	b.span.portChanged(port, works)
}

// forgetPort forgets the addresses behind a port that leads nowhere, so that frames for them are
// flooded to where they may be now.
func (b *bridge) forgetPort(port string) {
	index, ok := b.env.PortIndex(port)
	if !ok || !b.open {
		return
	}
	err := b.fdb.Forget(nil, func(_ Key, e fdb.Entry) bool { return e.Port == index })
	b.report("forgetting the addresses behind a port that is down", err)
}
