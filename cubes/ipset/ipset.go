// SPDX-License-Identifier: Apache-2.0

// Package ipset keeps a named set of addresses, ports or others, which rules of other cubes match. Package classifier has
// plain prefixes where their programs find them, and package elements everything else.
package ipset

import (
	"context"
	"embed"
	"errors"
	"net/netip"
	"time"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/ipset"
	"github.com/polycube/polycube/ipset/elements"
)

// files are the model and the compiled programs.
//
//go:embed ipset.yang ipset.tc.o ipset.xdp.o
var files embed.FS

func init() {
	cube.Register(cube.Service{Files: files, New: func(env cube.Env) (cube.Instance, error) { return newSet(env).instance(), nil }})
}

// Entry is an entry of the list `prefixes`.
type Entry struct {
	Prefix inet.Prefix `json:"prefix"`
}

// sweeping is how often elements are removed that have expired; packets do not find them any more before that.
const sweeping = 5 * time.Second

type set struct {
	env       cube.Env
	addresses *classifier.Addresses
	memory    *elements.Memory
	members   *classifier.References

	// The state in effect; config is nil before the first change.
	config   *ipset.Config
	prefixes map[netip.Prefix]bool
	// wanted are the configured elements, whose keys have no slot.
	wanted map[elements.Key]*ipset.Entry
	// slot has the elements; 0 if they are prefixes.
	slot     uint32
	referred []uint32 // members
	sweeps   bool     // a sweep is in progress
}

func newSet(env cube.Env) *set {
	s := &set{
		env: env, addresses: classifier.NewAddresses(env, env.Name()), memory: elements.New(env), members: classifier.NewReferences(env),
		prefixes: map[netip.Prefix]bool{}, wanted: map[elements.Key]*ipset.Entry{},
	}
	env.Every(sweeping, s.sweep)
	return s
}

// instance returns the functions that the framework calls.
func (s *set) instance() cube.Instance {
	return cube.Instance{
		Prepare: cube.Typed(s.prepare), State: s.state, DeleteState: s.deleteState, Action: s.action, Deleted: s.deleted, Close: s.close,
	}
}

func (s *set) prepare(_ context.Context, c cube.ChangeOf[ipset.Config]) (cube.Plan, error) {
	n, err := s.newChange(c)
	if err != nil {
		return cube.Plan{}, err
	}
	commit, free := cube.Effect(n.commit), cube.Effect(func() (func() error, error) { return nil, n.free() })
	plan := n.plan
	if c.Created() || n.config.Plain() {
		// Packets find the prefixes before they look for them.
		plan.Before = append(plan.Before, commit)
	} else {
		plan.Before = append([]cube.Step{commit}, plan.Before...)
	}
	plan.After = append(plan.After, free)
	return plan, nil
}

// deleted removes the elements, unless another set has them now.
func (s *set) deleted() {
	var errs []error
	if s.slot != 0 {
		_, err := s.memory.Show(s.addresses.Number(), 0)
		errs = append(errs, err, s.release(s.slot))
	}
	s.addresses.Empty()
	for _, number := range s.referred {
		s.members.Unrefer(number)
	}
	if err := errors.Join(errs...); err != nil {
		s.env.Logger().Error("remove the elements", "error", err)
	}
}

// close leaves the elements where they are, because a daemon that stops closes its cubes.
func (s *set) close() {
	if err := errors.Join(s.addresses.Close(), s.memory.Close(), s.members.Close()); err != nil {
		s.env.Logger().Error("close the set", "error", err)
	}
}
