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

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/conntrack/session"
	"github.com/polycube/polycube/conntrack/zone"
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

	sets       [directions][sets]*classifier.Set
	counters   [directions]*counter.Rules
	states     table.Table[uint32, chainState]
	limits     table.Table[uint32, limit]
	buckets    table.Table[uint32, uint64]
	zone       *zone.Zone
	events     *session.Events
	interfaces *interfaces
	parent     string
}

func newFirewall(env cube.Env) *firewall {
	f := &firewall{env: env, events: session.NewEvents(env, zone.EventLimit), states: table.New[uint32, chainState](env, "chains"),
		limits: table.New[uint32, limit](env, "limits"), buckets: table.New[uint32, uint64](env, "rule_buckets"), interfaces: newInterfaces(env)}
	for d := range directions {
		f.counters[d] = counter.NewRules(env, uint32(d))
		for set := range sets {
			f.sets[d][set] = classifier.New(env, uint32(set)*uint32(directions)+uint32(d))
		}
	}
	f.zone = zone.New(env, f.events)
	return f
}

// instance returns the functions that the framework calls.
func (f *firewall) instance() cube.Instance {
	return cube.Instance{
		Prepare: cube.Typed(f.prepare), Dependents: f.dependents, State: f.State, Page: f.zone.Page, DeleteState: f.zone.DeleteState,
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
		plan.Before = append(plan.Before, f.zone.Apply(&c.New.Settings, c.New.Extras(c.New.SessionZone)))
		plan.After = append(plan.After, f.zone.Free())
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
	return f.zone.Open(&c.Settings)
}

// parentChanged takes over where the cube is attached, and which netdevs there are.
func (f *firewall) parentChanged(p cube.Parent) {
	f.parent = p.Name
	if err := f.interfaces.follow(p.Netdevs); err != nil {
		f.env.Logger().Error("rules do not match by interface", "error", err)
	}
}

// row is where the program has the state of a chain.
func (f *firewall) row(d Direction) uint32 {
	return uint32(f.env.Instance())*uint32(directions) + uint32(d)
}

// deleted removes what the cube has in memory that it shares with others.
func (f *firewall) deleted() {
	f.zone.Deleted()
	errs := []error{f.interfaces.follow(nil)}
	for _, chain := range f.chains {
		for _, r := range chain {
			if r.limit != nil {
				errs = append(errs, f.unlimit(r.counter))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		f.env.Logger().Error("remove the limits of rules", "error", err)
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
	if err := errors.Join(append(errs, f.zone.Close())...); err != nil {
		f.env.Logger().Error("close the firewall", "error", err)
	}
}
