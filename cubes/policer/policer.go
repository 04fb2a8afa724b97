// SPDX-License-Identifier: Apache-2.0

// Package policer limits the rates of traffic classes, which a cube in front of it tells.
package policer

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/polycube/polycube/cube"
)

// files are the model and the compiled programs.
//
//go:embed policer.yang policer.tc.o policer.xdp.o
var files embed.FS

func init() { cube.Register(cube.Service{Files: files, New: newPolicer}) }

type policer struct {
	env   cube.Env
	slots *slots
	// conf is the configuration without its contracts, which are in contracts.
	conf      *Config
	contracts map[uint32]Contract
}

func newPolicer(env cube.Env) (cube.Instance, error) {
	p := &policer{env: env, slots: newSlots(env), contracts: map[uint32]Contract{}}
	return cube.Instance{Prepare: cube.Typed(p.prepare), State: p.state, Action: p.action, Close: p.close}, nil
}

func (p *policer) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	conf := c.New
	if conf == nil { // only contracts change
		conf = p.conf
	}
	change, err := p.change(conf, c.Entries, c.Created())
	if err != nil {
		return cube.Plan{}, err
	}
	plan := cube.Plan{Before: []cube.Step{cube.Effect(change.commit)}}
	if c.New != nil {
		plan.Constants = conf.constants()
		plan.MapSizes = map[string]uint32{"states": conf.states()}
	}
	if c.Created() {
		plan.MapSizes["classes"], plan.MapSizes["contracts"], plan.MapSizes["counts"] = conf.Max, conf.Max+1, conf.Max+1
	}
	return plan, nil
}

// change is a checked change.
type change struct {
	*policer
	conf    *Config
	created bool
	// set are contracts that are new or changed, and programs their forms in the program; gone are the classes whose
	// contract is removed. The default contract is defaults.
	set      map[uint32]Contract
	gone     []uint32
	programs map[uint32]contract
	defaults contract
}

// change checks a change of the configuration and of entries.
func (p *policer) change(conf *Config, entries []cube.EntryChange, created bool) (*change, error) {
	c := &change{policer: p, conf: conf, created: created, set: map[uint32]Contract{}, programs: map[uint32]contract{}}
	if !created && (conf.Algorithm != p.conf.Algorithm || conf.Window != p.conf.Window) {
		maps.Copy(c.set, p.contracts) // they have another form
	}
	changed, err := cube.DecodeEntries[Entry](entries)
	if err != nil {
		return nil, err
	}
	for _, e := range changed {
		if e.New != nil {
			c.set[e.New.Class] = e.New.Contract
			continue
		}
		delete(c.set, e.Old.Class)
		c.gone = append(c.gone, e.Old.Class)
	}
	if err := c.compile(); err != nil {
		return nil, err
	}
	if n := c.count(); n > int(conf.Max) {
		return nil, fmt.Errorf("%d contracts, but max-contracts is %d: create a policer with more: %w", n, conf.Max, cube.ErrFull)
	}
	return c, nil
}

// compile brings contracts into the form of the program.
func (c *change) compile() error {
	for class, is := range c.set {
		compiled, err := c.of(is)
		if err != nil {
			return fmt.Errorf("contract %d: %w", class, err)
		}
		c.programs[class] = compiled
	}
	var err error
	if c.defaults, err = c.of(c.conf.Default); err != nil {
		return fmt.Errorf("default-contract: %w", err)
	}
	return nil
}

// of returns a contract in the form of the program, if this cube can do it.
func (c *change) of(is Contract) (contract, error) {
	if is.Action == Shape && c.env.Type().Hook() == cube.XDP {
		return contract{}, fmt.Errorf("action SHAPE: only packets at TC pass through the queues of Linux: create the policer with type=TC: %w", cube.ErrUnsupported)
	}
	return c.conf.of(is)
}

// count is the number of contracts after the change.
func (c *change) count() int {
	if c.created {
		return len(c.set)
	}
	n := len(c.contracts) - len(c.gone)
	for class := range c.set {
		if _, has := c.contracts[class]; !has {
			n++
		}
	}
	return n
}

// commit carries the change out.
func (c *change) commit() (func() error, error) {
	var undo cube.Undo
	if c.created {
		if err := c.slots.begin(c.set); err != nil {
			return nil, err
		}
	}
	w := writing{slots: c.slots, algorithm: c.conf.Algorithm, undo: &undo}
	if err := w.write(0, c.defaults); err != nil {
		return nil, errors.Join(err, undo.Run())
	}
	for _, class := range c.gone {
		if err := w.remove(class); err != nil {
			return nil, errors.Join(fmt.Errorf("contract %d: %w", class, err), undo.Run())
		}
	}
	for class, is := range c.programs {
		if err := w.put(class, is); err != nil {
			return nil, errors.Join(fmt.Errorf("contract %d: %w", class, err), undo.Run())
		}
	}
	c.remember(&undo)
	return undo.Run, nil
}

// remember takes the change over into the control plane's own picture.
func (c *change) remember(undo *cube.Undo) {
	p := c.policer
	was, conf := map[uint32]*Contract{}, p.conf
	note := func(class uint32) {
		was[class] = nil
		if is, ok := p.contracts[class]; ok {
			was[class] = &is
		}
	}
	for class, is := range c.set {
		note(class)
		p.contracts[class] = is
	}
	for _, class := range c.gone {
		note(class)
		delete(p.contracts, class)
	}
	p.conf = c.conf
	undo.Push(func() error {
		for class, is := range was {
			if is == nil {
				delete(p.contracts, class)
				continue
			}
			p.contracts[class] = *is
		}
		p.conf = conf
		return nil
	})
}

// action runs update-data.
func (p *policer) action(_ context.Context, path []string, _ json.RawMessage) (cube.ActionResult, error) {
	if len(path) == 1 && path[0] == "update-data" {
		return cube.ActionResult{Output: map[string]bool{"result": true}}, nil
	}
	return cube.ActionResult{}, fmt.Errorf("action %s: %w", strings.Join(path, " "), cube.ErrUnsupported)
}

func (p *policer) close() {
	if err := p.slots.close(); err != nil {
		p.env.Logger().Error("close the contracts", "error", err)
	}
}
