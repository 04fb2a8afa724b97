// SPDX-License-Identifier: Apache-2.0

// Package nat translates addresses and ports of packets on a port or a netdev. The fast path creates and uses sessions
// by itself; the control plane keeps the rules, and removes sessions that have expired or whose rule is gone.
package nat

import (
	"context"
	"embed"
	"errors"
	"maps"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/cube"
)

// files are the model and the compiled programs.
//
//go:embed nat.yang nat.tc.o nat.xdp.o
var files embed.FS

func init() {
	cube.Register(cube.Service{
		Files: files,
		New:   func(env cube.Env) (cube.Instance, error) { return newNAT(env).instance(), nil },
	})
}

type nat struct {
	env cube.Env

	// The state in effect.
	config Config
	tables tables
	rules  ruleSet
	// parent is the source of masquerade addresses; nil until the cube is notified, also after a restart.
	parent *cube.Parent
	// flushed is when all sessions were deleted, in the fast path's time.
	flushed uint64
	// installed is the content of the map `sources`.
	installed map[sourceKey]source
	sweep     sweeper
}

func newNAT(env cube.Env) *nat {
	n := &nat{env: env, tables: newTables(env), rules: newRuleSet(), installed: map[sourceKey]source{}}
	n.sweep.nat = n
	return n
}

// instance returns the functions that the framework calls.
func (n *nat) instance() cube.Instance {
	return cube.Instance{
		Prepare: cube.Typed(n.prepare), State: n.State, Page: n.Page, DeleteState: n.DeleteState,
		Action: n.Action, ParentChanged: n.ParentChanged, Close: n.Close,
	}
}

// prepare plans the configuration first, then the rules.
func (n *nat) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	plan := cube.Plan{Constants: map[string]any{}}
	if c.New != nil {
		if err := c.New.check(); err != nil {
			return cube.Plan{}, err
		}
		maps.Copy(plan.Constants, c.New.constants())
		plan.Before = append(plan.Before, cube.Effect(func() (func() error, error) { return n.configure(*c.New, c.Created()) }))
	}
	if !c.Created() && len(c.Entries) == 0 {
		return plan, nil
	}
	changes, err := decode(c.Entries)
	if err != nil {
		return cube.Plan{}, err
	}
	constants, err := n.rules.after(changes)
	maps.Copy(plan.Constants, constants)
	plan.Before = append(plan.Before, cube.Effect(func() (func() error, error) { return n.changeRules(changes, c.Created()) }))
	return plan, err
}

// configure applies a configuration, except for its rules. The returned function undoes it.
func (n *nat) configure(is Config, created bool) (func() error, error) {
	was := n.config
	if created {
		if err := n.tables.open(is.MaxSessions); err != nil {
			return nil, errors.Join(err, n.tables.close())
		}
		n.config = is
		n.sweep.every(aging.Period(is.Timeout.least()))
		return func() error { n.sweep.stop(); return n.tables.close() }, nil
	}
	if err := n.reconfigure(is); err != nil {
		n.config = was
		return nil, err
	}
	return func() error { return n.reconfigure(was) }, nil
}

func (n *nat) reconfigure(is Config) error {
	if is.MaxSessions != n.config.MaxSessions {
		if err := n.tables.resize(is.MaxSessions); err != nil {
			return err
		}
	}
	n.config = is
	if err := n.masquerade(); err != nil {
		return err
	}
	n.sweep.every(aging.Period(is.Timeout.least()))
	n.sweep.sweepNow()
	return nil
}

// Close stops the sweeps, and leaves the sessions to the next daemon.
func (n *nat) Close() {
	n.sweep.stop()
	if err := n.tables.close(); err != nil {
		n.env.Logger().Error("close the table of sessions", "error", err)
	}
}
