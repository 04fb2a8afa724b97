// SPDX-License-Identifier: Apache-2.0

// Package edpi inspects flows: its programs count them and carry out policies, program polycube-ndpi says what they are.
package edpi

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/sketch"
)

// files are the model and the compiled programs.
//
//go:embed edpi.yang edpi.tc.o edpi.xdp.o
var files embed.FS

func init() { cube.Register(cube.Service{Files: files, New: newEdpi}) }

// period is how often flows are swept, and polycube-ndpi is looked at.
const period = time.Second

type edpi struct {
	env        cube.Env
	conf       *Config
	policies   *policies
	flows      *flows
	names      table.Table[uint32, dpi.Name]
	seeds      table.Table[uint32, sketch.Seed]
	classifier *table.Mapped[dpi.Classifier]
	// knows is the hash of the names that policies know; up is whether the classifier was there in the last sweep.
	knows uint64
	up    bool
}

func newEdpi(env cube.Env) (cube.Instance, error) {
	n := &edpi{
		env: env, policies: newPolicies(env), flows: newFlows(env), names: table.New[uint32, dpi.Name](env, "names"),
		seeds: table.New[uint32, sketch.Seed](env, "seeds"), classifier: table.NewMapped[dpi.Classifier](env, "classifier"),
	}
	n.flows.riskNames = n.policies.risks
	env.Every(period, n.tick)
	return cube.Instance{Prepare: cube.Typed(n.prepare), State: n.state, Page: n.page, Action: n.action, Close: n.close}, nil
}

func (n *edpi) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	compiled, err := c.New.check(n.env.Type())
	if err = errors.Join(err, c.New.checkIdle()); err != nil {
		return cube.Plan{}, err
	}
	if !c.Created() {
		err := errors.Join(n.policies.refuse("policy", c.Old.Policies, c.New.Policies),
			n.policies.refuse("idle-timeout", c.Old.idleClasses(), c.New.idleClasses()))
		if err != nil {
			return cube.Plan{}, err
		}
	}
	plan := cube.Plan{Constants: c.New.constants(), Before: []cube.Step{cube.Effect(func() (func() error, error) {
		return n.apply(c.Created(), c.New, compiled)
	})}}
	if c.Created() {
		plan.MapSizes = map[string]uint32{"flows": c.New.MaxFlows, "decisions": c.New.MaxFlows}
	}
	return plan, nil
}

// apply follows a checked configuration.
func (n *edpi) apply(created bool, conf *Config, compiled map[classKey]policy) (undo func() error, err error) {
	if created {
		if err := n.begin(); err != nil {
			return nil, err
		}
	}
	was := n.conf
	back := func() error {
		n.conf = was
		if was == nil {
			return nil
		}
		old, err := was.check(n.env.Type())
		if err != nil {
			return err
		}
		return n.policies.install(was.Policies, old)
	}
	n.conf = conf
	if err := n.policies.install(conf.Policies, compiled); err != nil {
		return nil, errors.Join(err, back())
	}
	return back, nil
}

// begin finds what an earlier daemon has left.
func (n *edpi) begin() error {
	seed, _, err := n.seeds.Get(0)
	if err == nil && seed == (sketch.Seed{}) {
		err = n.seeds.Set(0, sketch.NewSeed())
	}
	return errors.Join(err, n.policies.begin(), n.follow())
}

// follow takes over the names that polycube-ndpi has announced, if they are others than before.
func (n *edpi) follow() error {
	c, err := n.look()
	if err != nil || c.Names == n.knows || c.Names == 0 {
		return err
	}
	var names [dpi.Names]string
	for row, name := range n.names.All(&err) {
		if row < dpi.Names {
			names[row] = name.String()
		}
	}
	if err == nil && c.Accepted != 0 && c.Accepted != c.Names {
		err = n.flows.forget() // numbers have another meaning
	}
	if err == nil {
		err = n.policies.know(&names)
	}
	if err == nil {
		err = n.accept(c.Names)
	}
	if err != nil {
		return fmt.Errorf("read the protocol names: %w", err)
	}
	n.knows = c.Names
	return nil
}

// look reads what polycube-ndpi says of itself.
func (n *edpi) look() (c dpi.Classifier, err error) {
	all, err := n.classifier.Values()
	if err != nil {
		return c, err
	}
	c = all[0] // what the other process writes meanwhile is read again as a whole
	c.Names, c.Beat = atomic.LoadUint64(&all[0].Names), atomic.LoadUint64(&all[0].Beat)
	return c, nil
}

// accept notes which names the numbers in the tables refer to.
func (n *edpi) accept(names uint64) error {
	all, err := n.classifier.Values()
	if err != nil {
		return err
	}
	atomic.StoreUint64(&all[0].Accepted, names)
	return nil
}

// behind is how far polycube-ndpi is behind; up is whether that is short enough.
func (n *edpi) behind() (by time.Duration, c dpi.Classifier, up bool, err error) {
	c, err = n.look()
	if err != nil {
		return 0, c, false, err
	}
	now, err := cube.Time()
	if err != nil {
		return 0, c, false, err
	}
	by = max(0, time.Duration(now-c.Beat))
	return by, c, c.Beat != 0 && by <= time.Duration(n.conf.Silence)*time.Millisecond, nil
}

// tick sweeps the flows.
func (n *edpi) tick() {
	if n.conf == nil {
		return
	}
	if err := n.follow(); err != nil {
		n.env.Logger().Error("read the names", "error", err)
		return
	}
	_, _, up, err := n.behind()
	if err == nil {
		n.report(up)
		err = n.flows.sweep(n.conf, n.idleRows(), up)
	}
	if err != nil {
		n.env.Logger().Error("sweep the flows", "error", err)
	}
}

func (n *edpi) close() {
	if err := n.classifier.Close(); err != nil {
		n.env.Logger().Error("close the tables", "error", err)
	}
}
