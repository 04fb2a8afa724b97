// SPDX-License-Identifier: Apache-2.0

// Package ministate is a stateful firewall in few lines, on the shared parts: connections, rules and packet fields. What
// goes out may go out, and its replies may come in; other packets come in if a rule accepts them.
package ministate

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/conntrack/session"
	"github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// files are the model and the compiled programs.
//
//go:embed ministate.yang ministate.tc.o ministate.xdp.o
var files embed.FS

func init() { cube.Register(cube.Service{Files: files, New: newFirewall}) }

// sweepInterval is how often connections that have expired are removed.
const sweepInterval = time.Second

// Config is the decoded configuration.
type Config struct{}

// Rule is an entry of the list `rules`: packets that may come in without being replies.
type Rule struct {
	ID      uint32         `json:"id"`
	SrcIP   *inet.Prefix   `json:"src_ip"`
	DstIP   *inet.Prefix   `json:"dst_ip"`
	L4Proto *inet.Protocol `json:"l4_proto"`
	SrcPort *inet.Ports    `json:"src_port"`
	DstPort *inet.Ports    `json:"dst_port"`
}

type firewall struct {
	env         cube.Env
	zone        uint16
	rules       *classifier.Set
	connections *table.Table
}

func newFirewall(env cube.Env) (cube.Instance, error) {
	f := &firewall{env: env, zone: env.Instance(), rules: classifier.New(env, 0)}
	env.Every(sweepInterval, f.sweep)
	return cube.Instance{Prepare: cube.Typed(f.prepare), Action: f.action, Deleted: f.deleted, Close: f.close}, nil
}

func (f *firewall) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	rules, err := cube.DecodeEntries[Rule](c.Entries)
	if err != nil {
		return cube.Plan{}, err
	}
	changes := make([]classifier.Change, 0, len(rules))
	for _, r := range rules {
		if r.New == nil {
			changes = append(changes, classifier.Change{Order: r.Old.ID})
			continue
		}
		accepts := &classifier.Rule{}
		if err := r.New.match(&accepts.Match); err != nil {
			return cube.Plan{}, fmt.Errorf("rules %d: %w", r.New.ID, err)
		}
		changes = append(changes, classifier.Change{Order: r.New.ID, Rule: accepts})
	}
	plan, err := f.rules.Prepare(changes)
	if err != nil {
		return cube.Plan{}, err
	}
	plan.Before = slices.Concat([]cube.Step{cube.Effect(f.open)}, plan.Before, []cube.Step{cube.Effect(f.changed)})
	return plan, nil
}

// match sets the conditions of the rule.
func (r *Rule) match(m *classifier.Match) error {
	var errs []error
	if r.L4Proto != nil {
		m.Protocol(uint8(*r.L4Proto))
	}
	if r.SrcIP != nil {
		errs = append(errs, m.Source(r.SrcIP.Prefix))
	}
	if r.DstIP != nil {
		errs = append(errs, m.Destination(r.DstIP.Prefix))
	}
	if r.SrcPort != nil {
		errs = append(errs, m.SourcePorts(r.SrcPort.First, r.SrcPort.Last))
	}
	if r.DstPort != nil {
		errs = append(errs, m.DestinationPorts(r.DstPort.First, r.DstPort.Last))
	}
	return errors.Join(errs...)
}

// open opens the table of connections.
func (f *firewall) open() (undo func() error, err error) {
	if f.connections != nil {
		return nil, nil
	}
	t, err := table.Open(f.env, table.DefaultSize)
	if err != nil {
		return nil, err
	}
	if err := t.Own(f.zone, f.env.UUID()); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	t.SetTimeouts(f.zone, conntrack.DefaultTimeouts)
	f.connections = t
	return nil, nil
}

// changed has connections that came in by a rule go through the rules again.
func (f *firewall) changed() (undo func() error, err error) {
	f.connections.NextGeneration(f.zone)
	return nil, nil
}

// action is the only one of the model, delete-sessions.
func (f *firewall) action(_ context.Context, _ []string, input json.RawMessage) (cube.ActionResult, error) {
	return session.DeleteOfZone(f.env, f.connections, f.zone, input)
}

func (f *firewall) sweep() {
	if f.connections == nil {
		return
	}
	if _, err := f.connections.Sweep(sweepInterval); err != nil {
		f.env.Logger().Error("remove connections", "error", err)
	}
}

// deleted removes the connections, which are in a table of all cubes.
func (f *firewall) deleted() {
	if f.connections == nil {
		return
	}
	if err := f.connections.Own(f.zone, ""); err != nil {
		f.env.Logger().Error("remove the connections", "error", err)
	}
}

func (f *firewall) close() {
	errs := []error{f.rules.Close()}
	if f.connections != nil {
		errs = append(errs, f.connections.Close())
	}
	if err := errors.Join(errs...); err != nil {
		f.env.Logger().Error("close the firewall", "error", err)
	}
}
