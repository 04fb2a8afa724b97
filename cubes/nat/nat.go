// SPDX-License-Identifier: Apache-2.0

// Package nat translates addresses and ports of what passes a port or a netdev. The fast path makes and uses sessions by
// itself; the control plane keeps the rules, and removes sessions that are aged or that no rule stands behind any more.
package nat

import (
	"context"
	_ "embed" // for the model and the compiled programs

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/cube"
)

var (
	//go:embed nat.yang
	model string
	//go:embed nat.tc.o
	tc []byte
	//go:embed nat.xdp.o
	xdp []byte
)

func init() {
	cube.Register(cube.Service{
		Model:   model,
		Objects: map[cube.Hook][]byte{cube.TC: tc, cube.XDP: xdp},
		New:     func(env cube.Env) (cube.Instance, error) { return newNAT(env), nil },
	})
}

type nat struct {
	cube.Typed[Config]
	env cube.Env

	// What follows is in force from the first Commit on.
	open   bool
	config Config
	tables tables
	rules  ruleSet
	// parent is what masquerade takes addresses from; heard is false until it was told, after a restart too.
	parent cube.Parent
	heard  bool
	// synced says that the maps hold this configuration's rules, and none of an earlier life.
	synced bool
	// flushed is when all sessions were deleted, in the fast path's time.
	flushed uint64
	// installed is what the map `sources` holds.
	installed map[sourceKey]source
	sweep     sweeper
}

func newNAT(env cube.Env) *nat {
	n := &nat{env: env, rules: newRuleSet(), installed: map[sourceKey]source{}}
	n.sweep.nat = n
	n.PrepareConfig = n.prepare
	return n
}

// prepare checks the configuration apart from the rules, which come one by one.
func (n *nat) prepare(_ context.Context, old, after *Config) (cube.Plan, error) {
	if err := after.check(); err != nil {
		return cube.Plan{}, err
	}
	is, was := *after, n.config
	plan := cube.Plan{Constants: is.constants()}
	resized := old == nil || old.MaxSessions != is.MaxSessions
	if resized {
		plan.MapSizes = is.mapSizes()
	}
	opened := n.open
	plan.Commit = func() error { return n.commit(is, resized) }
	plan.Undo = func() error {
		if !opened {
			n.open = false // the maps go
			n.sweep.stop()
			return nil
		}
		return n.commit(was, resized)
	}
	return plan, nil
}

// commit brings a configuration into force.
func (n *nat) commit(is Config, reopen bool) error {
	if !n.open || reopen {
		t, err := openTables(n.env)
		if err != nil {
			return err
		}
		n.tables = t
		n.sweep.restart()
	}
	was := n.config
	n.config = is
	if n.synced {
		if err := n.masquerade(); err != nil {
			n.config = was
			return err
		}
	}
	n.open = true
	n.sweep.every(aging.Period(is.Timeout.least()))
	if n.synced {
		n.sweep.soon()
	}
	return nil
}

// Close implements cube.Closer.
func (n *nat) Close() { n.sweep.stop() }
