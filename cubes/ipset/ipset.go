// SPDX-License-Identifier: Apache-2.0

// Package ipset keeps a named set of addresses, which rules of other cubes match. Package classifier has it where their
// programs find it.
package ipset

import (
	"context"
	"embed"
	"fmt"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
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

type set struct {
	env       cube.Env
	addresses *classifier.Addresses
}

func newSet(env cube.Env) *set {
	return &set{env, classifier.NewAddresses(env, env.Name())}
}

// instance returns the functions that the framework calls.
func (s *set) instance() cube.Instance {
	return cube.Instance{Prepare: s.prepare, Deleted: s.addresses.Empty, Close: s.close}
}

func (s *set) prepare(_ context.Context, c cube.Change) (cube.Plan, error) {
	entries, err := cube.DecodeEntries[Entry](c.Entries)
	if err != nil {
		return cube.Plan{}, err
	}
	changes := make([]classifier.AddressChange, 0, len(entries))
	for _, e := range entries {
		if e.New == nil {
			changes = append(changes, classifier.AddressChange{Prefix: e.Old.Prefix.Prefix, Remove: true})
		}
	}
	for _, e := range entries {
		if e.Old == nil {
			changes = append(changes, classifier.AddressChange{Prefix: e.New.Prefix.Prefix})
		}
	}
	plan, err := s.addresses.Prepare(changes)
	if err != nil {
		return cube.Plan{}, fmt.Errorf("prefixes: %w", err)
	}
	return plan, nil
}

// close leaves the addresses where they are, because a daemon that stops closes its cubes.
func (s *set) close() {
	if err := s.addresses.Close(); err != nil {
		s.env.Logger().Error("close the set of addresses", "error", err)
	}
}
