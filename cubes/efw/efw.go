// SPDX-License-Identifier: Apache-2.0

// Package efw is a fast path in front of the host's firewall: it carries out matchers of its own, and those rules of iptables
// that package offload finds safe. It follows the host, and withdraws all verdicts at the first sign of a change.
package efw

import (
	"context"
	"embed"
	"errors"

	"github.com/polycube/polycube/bypass"
	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/hostaddr"
)

// files are the model and the compiled programs.
//
//go:embed efw.yang efw.tc.o efw.xdp.o
var files embed.FS

// toStack are the counters of accepted packets that pass to the stack.
var toStack = bypass.Counters(files)

func init() {
	cube.Register(cube.Service{
		Files: files,
		New: func(env cube.Env) (cube.Instance, error) {
			return NewIn(func(fn func() error) error { return fn() }, env)
		},
	})
}

// NewIn creates the control plane of a cube. visit calls functions in the namespace of the host's netdevs.
func NewIn(visit func(func() error) error, env cube.Env) (cube.Instance, error) {
	return newEFW(env, visit).instance(), nil
}

// efw is the control plane of one cube.
type efw struct {
	env       cube.Env
	visit     func(func() error) error
	config    *Config // nil before the first change
	parent    cube.Parent
	way       *bypass.Bypass
	addresses *ownAddresses
	own       *hostaddr.Follower
	gate      *gate
	matchers  *ruleSet
	rules     *offloaded
	watch     *watch
}

func newEFW(env cube.Env, visit func(func() error) error) *efw {
	e := &efw{env: env, visit: visit, addresses: newOwnAddresses(env), gate: newGate(env)}
	e.way = bypass.New(env, toStack)
	e.own = hostaddr.New(env, e.takeAddresses)
	e.matchers = newRuleSet(env, classifier.New(env, matcherSet), matcherSet)
	e.rules = newOffloaded(env)
	e.watch = newWatch(e)
	env.Every(leasePeriod, e.gate.renew)
	return e
}

// instance returns the functions that the framework calls.
func (e *efw) instance() cube.Instance {
	return cube.Instance{
		Prepare: cube.Typed(e.prepare), State: e.state, ParentChanged: e.parentChanged, OutputChanged: e.way.OutputChanged, Close: e.close,
	}
}

// prepare validates a change and returns its plan; it changes nothing.
func (e *efw) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	matchers, err := c.New.matchers()
	if err != nil {
		return cube.Plan{}, err
	}
	entries := make([]entry, len(matchers))
	for i, m := range matchers {
		entries[i] = entry{order: uint32(i), match: m.match, verb: verbOf[m.action], key: m.key}
	}
	change, err := e.matchers.prepare(entries)
	if err != nil {
		return cube.Plan{}, err
	}
	plan := cube.Plan{Constants: map[string]any{"has_matchers": len(matchers) > 0, "offload": c.New.Offload}}
	if c.Created() {
		plan.Before = append(plan.Before, cube.Effect(func() (func() error, error) { return nil, e.begin() }))
	}
	plan.Before = append(plan.Before, e.way.Prepare(c.New.Outputs)...)
	plan.Before = append(plan.Before, cube.Effect(change.commit), cube.Effect(func() (func() error, error) {
		was := e.config
		e.configure(c.New)
		return func() error { e.configure(was); return nil }, nil
	}))
	plan.After = []cube.Step{
		cube.Effect(func() (func() error, error) { return nil, change.free() }),
		cube.Effect(func() (func() error, error) { return nil, e.follow() }),
	}
	return plan, nil
}

// configure adopts a configuration, and withdraws all verdicts until the rules are compiled for it.
func (e *efw) configure(c *Config) {
	e.config = c
	e.watch.note("the configuration")
}

// begin prepares the maps of a cube that was created or restored: an earlier daemon's rules are not in effect.
func (e *efw) begin() error {
	return errors.Join(e.gate.shut(), e.matchers.open(), e.rules.open())
}

// follow starts to watch the host for changes.
func (e *efw) follow() error {
	return e.visit(func() error {
		if _, err := e.own.Follow(); err != nil {
			return err
		}
		return e.watch.start()
	})
}

// takeAddresses updates the host's addresses, which it lists in the host's namespace.
func (e *efw) takeAddresses([]hostaddr.Address, error) {
	err := e.visit(func() error {
		all, err := hostaddr.List()
		if err != nil {
			return err
		}
		return e.addresses.take(all)
	})
	if err != nil {
		e.env.Logger().Error("follow the host's addresses", "error", err)
		e.gate.fail(err)
	}
}

// parentChanged updates where the cube is attached.
func (e *efw) parentChanged(p cube.Parent) {
	e.parent = p
	e.way.ParentChanged(p)
	e.watch.note("the netdev of the cube")
}

// close releases the maps. The host's rules are not offloaded without the daemon.
func (e *efw) close() {
	e.watch.stop()
	e.own.Close()
	if err := errors.Join(e.gate.shut(), e.matchers.close(), e.rules.close()); err != nil {
		e.env.Logger().Error("close the fast path", "error", err)
	}
}
