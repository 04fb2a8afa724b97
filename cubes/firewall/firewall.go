// SPDX-License-Identifier: Apache-2.0

// Package firewall filters packets on a port or a netdev by two chains of rules. Package classifier compiles the rules,
// and package conntrack keeps the connections; this package keeps what each rule does, and answers and logs packets.
package firewall

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/conntrack/session"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// files are the model and the compiled programs.
//
//go:embed firewall.yang firewall.tc.o firewall.xdp.o
var files embed.FS

func init() {
	cube.Register(cube.Service{
		Files: files,
		New:   func(env cube.Env) (cube.Instance, error) { return newFirewall(env).instance(), nil },
	})
}

// chainState is struct firewall_chain.
type chainState struct{ Result, Logs, Interfaces uint32 }

type firewall struct {
	env cube.Env

	// The state in effect; config is nil before the first change.
	config   *Config
	chains   [directions]chain
	defaults [directions]uint32 // counters

	sets        [directions][sets]*classifier.Set
	counters    [directions]*counter.Rules
	states      table.Table[uint32, chainState]
	limits      table.Table[uint32, limit]
	buckets     table.Table[uint32, uint64]
	connections *conns.Table
	events      *session.Events
	interfaces  *interfaces
	parent      string
}

func newFirewall(env cube.Env) *firewall {
	f := &firewall{env: env, events: session.NewEvents(env, eventLimit), states: table.New[uint32, chainState](env, "chains"),
		limits: table.New[uint32, limit](env, "limits"), buckets: table.New[uint32, uint64](env, "rule_buckets"), interfaces: newInterfaces(env)}
	for d := range directions {
		f.counters[d] = counter.NewRules(env, uint32(d))
		for set := range sets {
			f.sets[d][set] = classifier.New(env, uint32(set)*uint32(directions)+uint32(d))
		}
	}
	env.Every(sweepInterval, f.sweep)
	return f
}

// instance returns the functions that the framework calls.
func (f *firewall) instance() cube.Instance {
	return cube.Instance{
		Prepare: cube.Typed(f.prepare), Dependents: f.dependents, State: f.State, Page: f.Page, DeleteState: f.DeleteState,
		Action: f.Action, Notify: f.Notify, ParentChanged: f.parentChanged, Deleted: f.deleted, Close: f.close,
	}
}

func (f *firewall) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	n, err := f.newChange(c)
	if err != nil {
		return cube.Plan{}, err
	}
	plan := cube.Plan{Before: []cube.Step{cube.Effect(n.commit)}}
	if c.New != nil {
		if plan.Constants, err = c.New.constants(); err != nil {
			return cube.Plan{}, err
		}
		plan.Before = append(plan.Before, cube.Effect(func() (func() error, error) { return f.track(c.Old, c.New) }))
	}
	for _, p := range n.plans {
		plan.After = append(plan.After, p.After...)
	}
	plan.After = append(plan.After, cube.Effect(n.free), cube.Effect(n.advise))
	return plan, nil
}

// advise logs what users may not expect of a new configuration.
func (n *change) advise() (undo func() error, err error) {
	if n.config.covers(IPv6) {
		return nil, nil
	}
	for d := range directions {
		if n.config.defaultOf(d) == Drop && (n.created || n.was.defaultOf(d) != Drop) {
			n.f.env.Logger().Warn("default DROP is for IPv4 only: IPv6 packets pass unless a rule names them; add ipv6 to families", "chain", d.String())
		}
	}
	return nil, nil
}

// dependents switches accept-established off when connections are not tracked any more.
func (f *firewall) dependents(_ context.Context, old, after json.RawMessage) ([]cube.Edit, error) {
	type switches struct {
		Conntrack         Switch `json:"conntrack"`
		AcceptEstablished Switch `json:"accept-established"`
	}
	var was, is switches
	if err := json.Unmarshal(after, &is); err != nil {
		return nil, fmt.Errorf("decode the configuration: %w", err)
	}
	if is.Conntrack == On || is.AcceptEstablished == Off {
		return nil, nil
	}
	if old != nil {
		if err := json.Unmarshal(old, &was); err != nil {
			return nil, fmt.Errorf("decode the configuration: %w", err)
		}
		if was.Conntrack == Off {
			return nil, fmt.Errorf("accept-established: it needs connection tracking: set conntrack=ON first: %w", cube.ErrInvalid)
		}
	}
	return []cube.Edit{{Value: map[string]string{"accept-established": "OFF"}}}, nil
}

// open opens the memory of rules and connections, if it is not open.
func (f *firewall) open(c *Config) error {
	for d := range directions {
		if err := f.counters[d].Open(); err != nil {
			return err
		}
	}
	if f.connections != nil {
		return nil
	}
	t, err := conns.Open(f.env, conns.Room(int(c.MaxSessions)))
	if err != nil {
		return err
	}
	if err := t.Own(f.env.Instance(), f.env.UUID()); err != nil {
		return errors.Join(err, t.Close())
	}
	f.connections = t
	return nil
}

// track sets what connections may do.
func (f *firewall) track(was, is *Config) (undo func() error, err error) {
	set := func(c *Config) error {
		f.connections.SetTimeouts(f.env.Instance(), c.Timeout.timeouts())
		f.connections.Limit(f.env.Instance(), c.MaxSessions)
		f.watch(c.SessionEvents == On)
		return f.account(c.Accounting == On)
	}
	if room := conns.Room(int(is.MaxSessions)); f.connections.Size() < room {
		if err := f.connections.Resize(room); err != nil {
			return nil, fmt.Errorf("max-sessions: %w", err)
		}
	}
	if err := set(is); err != nil {
		if was != nil {
			err = errors.Join(err, set(was))
		}
		return nil, fmt.Errorf("accounting: %w", err)
	}
	if was == nil {
		return nil, nil
	}
	return func() error { return set(was) }, nil
}

// watch makes events of sessions that have ended, or not.
func (f *firewall) watch(on bool) {
	if on {
		conns.Watch(f.connections, f.env.Instance(), f.events.Destroyed)
	} else {
		conns.Watch(f.connections, f.env.Instance(), nil)
	}
}

// account makes memory for the packets and bytes of sessions, or frees it.
func (f *firewall) account(on bool) error {
	counters := conns.Counters{Table: f.connections}
	if on {
		return counters.Start(f.env.Instance())
	}
	return counters.Stop(f.env.Instance())
}

// sweepInterval is how often connections that have expired are removed.
const sweepInterval = time.Second

func (f *firewall) sweep() {
	if f.connections == nil {
		return
	}
	if _, err := f.connections.Sweep(sweepInterval); err != nil {
		f.env.Logger().Error("remove connections", "error", err)
	}
	if f.config == nil || f.config.SessionEvents == Off {
		return
	}
	if err := f.events.Tick(); err != nil {
		f.env.Logger().Error("events of sessions", "error", err)
	}
}

// parentChanged takes over where the cube is attached, and which netdevs there are.
func (f *firewall) parentChanged(p cube.Parent) {
	f.parent = p.Name
	if err := f.interfaces.follow(p.Netdevs); err != nil {
		f.env.Logger().Error("rules do not match by interface", "error", err)
	}
}

// deleted removes the connections, which are in a table of all cubes.
func (f *firewall) deleted() {
	if f.connections == nil {
		return
	}
	if err := f.connections.Own(f.env.Instance(), ""); err != nil {
		f.env.Logger().Error("remove the connections", "error", err)
	}
}

// close ends the use of the memory. Packets still see the rules, and connections stay.
func (f *firewall) close() {
	var errs []error
	for d := range directions {
		errs = append(errs, f.counters[d].Close())
		for set := range sets {
			errs = append(errs, f.sets[d][set].Close())
		}
	}
	if f.connections != nil {
		errs = append(errs, f.connections.Close())
	}
	if err := errors.Join(errs...); err != nil {
		f.env.Logger().Error("close the firewall", "error", err)
	}
}
