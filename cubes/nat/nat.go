// SPDX-License-Identifier: Apache-2.0

// Package nat translates addresses and ports of packets on a port or a netdev. The fast path creates and uses sessions
// by itself; the control plane keeps the rules, and removes sessions that have expired or whose rule is gone.
package nat

import (
	"context"
	"embed"
	"errors"
	"maps"
	"time"

	"github.com/polycube/polycube/aging"
	ctsession "github.com/polycube/polycube/conntrack/session"
	"github.com/polycube/polycube/conntrack/zone"
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
	// group are the NATs that share the table of sessions, and place is this one's. nil as long as it is not open.
	group *group
	place uint8
	// events announces sessions, if the configuration says so.
	events *ctsession.Events
	// chains and links are for a NAT with the table nat of iptables.
	chains chains
	links  *links
}

func newNAT(env cube.Env) *nat {
	n := &nat{env: env, chains: newChains(env), tables: newTables(env), rules: newRuleSet(), installed: map[sourceKey]source{}, events: ctsession.NewEvents(env, zone.EventLimit)}
	n.sweep.nat = n
	n.links = newLinks(env, n.sweep.sweepNow)
	env.Every(time.Second, n.tick)
	return n
}

// instance returns the functions that the framework calls.
func (n *nat) instance() cube.Instance {
	return cube.Instance{
		Prepare: cube.Typed(n.prepare), State: n.State, Page: n.Page, DeleteState: n.DeleteState,
		Action: n.Action, Notify: n.notify, ParentChanged: n.ParentChanged, Deleted: n.deleted, Close: n.Close,
	}
}

// prepare plans the configuration first, then the rules.
func (n *nat) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	plan := cube.Plan{Constants: map[string]any{}}
	if c.New != nil {
		if err := c.New.check(); err != nil {
			return cube.Plan{}, err
		}
		constants, err := c.New.constants()
		if err != nil {
			return cube.Plan{}, err
		}
		maps.Copy(plan.Constants, constants)
		plan.Spaces = c.New.spaces()
		chains, err := n.chains.prepare(c.New)
		if err != nil {
			return cube.Plan{}, err
		}
		if c.New.hasTable() {
			plan.Before = append(plan.Before, cube.Effect(n.links.refresh))
		}
		plan.Before = append(plan.Before, chains, cube.Effect(func() (func() error, error) { return n.configure(*c.New, c.Created()) }))
		if c.New.hasTable() {
			plan.After = append(plan.After, cube.Effect(n.links.follower.Follow))
		}
	}
	is := &n.config
	if c.New != nil {
		is = c.New
	}
	if !c.Created() && len(c.Entries) == 0 && !is.hasTable() {
		return plan, nil
	}
	changes, err := decode(c.Entries)
	if err != nil {
		return cube.Plan{}, err
	}
	constants, err := n.rules.after(changes)
	if err == nil && is.hasTable() && (constants["has_sources"] == true || constants["has_forwards"] == true) {
		err = errMixed
	}
	maps.Copy(plan.Constants, constants)
	if is.SessionZone != "" {
		plan.Constants["has_sources"] = true // others may have opened sessions
	}
	plan.Before = append(plan.Before, cube.Effect(func() (func() error, error) { return n.changeRules(changes, c.Created()) }))
	return plan, err
}

// configure applies a configuration, except for its rules. The returned function undoes it.
func (n *nat) configure(is Config, created bool) (func() error, error) {
	was := n.config
	if created {
		return n.open(is)
	}
	if err := n.reconfigure(is); err != nil {
		n.config = was
		return nil, err
	}
	return func() error { return n.reconfigure(was) }, nil
}

// open opens the table of sessions. The returned function undoes it.
func (n *nat) open(is Config) (undo func() error, err error) {
	if err := n.tables.open(is.MaxSessions); err != nil {
		return nil, errors.Join(err, n.tables.close())
	}
	g, err := openGroup(&n.tables)
	if err != nil {
		return nil, errors.Join(err, n.tables.close())
	}
	closed := func() error { return errors.Join(groups.Release(g, func() error { return nil }), n.tables.close()) }
	place, fresh, err := g.join(&n.tables, is.MaxSessions, &user{timeout: is.Timeout, created: n.created})
	if err != nil {
		return nil, errors.Join(err, closed())
	}
	n.group, n.place, n.config = g, place, is
	n.events.Begin()
	g.announce(&n.tables, place, n.ended())
	undo = func() error {
		n.sweep.stop()
		n.group = nil
		err := g.part(&n.tables, place)
		if fresh {
			err = errors.Join(err, g.leave(&n.tables, place))
		}
		return errors.Join(err, closed())
	}
	// An earlier daemon may have been killed after a change of the size, and before it was stored.
	if err := g.resize(&n.tables, place, is.MaxSessions); err != nil {
		return nil, errors.Join(err, undo())
	}
	n.sweep.every(aging.Period(is.Timeout.least()))
	return undo, nil
}

func (n *nat) reconfigure(is Config) error {
	if is.MaxSessions != n.config.MaxSessions {
		if err := n.group.resize(&n.tables, n.place, is.MaxSessions); err != nil {
			return err
		}
	}
	n.config = is
	n.group.setTimeout(n.place, is.Timeout)
	n.group.announce(&n.tables, n.place, n.ended())
	if err := n.masquerade(); err != nil {
		return err
	}
	n.sweep.every(aging.Period(is.Timeout.least()))
	n.sweep.sweepNow()
	return nil
}

// deleted removes the sessions by the rules of a NAT that is deleted, if others share the table.
func (n *nat) deleted() {
	if n.group == nil {
		return
	}
	n.sweep.stop()
	if err := n.group.leave(&n.tables, n.place); err != nil {
		n.env.Logger().Error("remove the sessions", "error", err)
	}
}

// Close stops the sweeps, and leaves the sessions to the next daemon.
func (n *nat) Close() {
	n.links.follower.Close()
	n.sweep.stop()
	var err error
	if g := n.group; g != nil {
		n.group = nil
		err = errors.Join(g.part(&n.tables, n.place), groups.Release(g, func() error { return nil }))
	}
	if err = errors.Join(err, n.tables.close()); err != nil {
		n.env.Logger().Error("close the table of sessions", "error", err)
	}
}
