// SPDX-License-Identifier: Apache-2.0

// Package classifier assigns traffic classes to packets. Package classifier of the project compiles the rules; this package
// keeps their classes, and the subscribers with their flows.
package classifier

import (
	"context"
	"embed"
	"errors"

	"github.com/polycube/polycube/cube"
)

// files are the model and the compiled programs.
//
//go:embed classifier.yang classifier.tc.o classifier.xdp.o
var files embed.FS

func init() { cube.Register(cube.Service{Files: files, New: newClassifier}) }

type classifierCube struct {
	env         cube.Env
	rules       *rules
	subscribers *subscribers
	// conf is the configuration without its entries.
	conf *Config
}

func newClassifier(env cube.Env) (cube.Instance, error) {
	c := &classifierCube{env: env, rules: newRules(env), subscribers: newSubscribers(env)}
	return cube.Instance{Prepare: cube.Typed(c.prepare), State: c.state, Close: c.close}, nil
}

func (c *classifierCube) prepare(_ context.Context, change cube.ChangeOf[Config]) (cube.Plan, error) {
	conf := change.New
	if conf == nil { // only entries change
		conf = c.conf
	}
	byList := map[string][]cube.EntryChange{}
	for _, e := range change.Entries {
		byList[e.List[0]] = append(byList[e.List[0]], e)
	}
	rules, err := c.rules.prepare(byList["traffic-class"], conf.MaxClasses, change.Created())
	if err != nil {
		return cube.Plan{}, err
	}
	subscribers, err := c.subscribers.prepare(byList["subscriber"], conf, change.Created())
	if err != nil {
		return cube.Plan{}, err
	}
	commit := func() (func() error, error) {
		was := c.conf
		c.conf = conf
		return func() error {
			c.conf = was
			return nil
		}, nil
	}
	plan := cube.Plan{
		Before: []cube.Step{cube.Effect(commit), cube.Effect(rules.commit), cube.Effect(subscribers.commit)},
		After:  append(rules.after(), cube.Effect(rules.free), cube.Effect(subscribers.free)),
	}
	if change.New != nil {
		plan.Constants = conf.constants()
	}
	if change.Created() {
		plan.MapSizes = conf.sizes()
	}
	return plan, nil
}

func (c *classifierCube) close() {
	if err := errors.Join(c.rules.close(), c.subscribers.close()); err != nil {
		c.env.Logger().Error("close the rules and subscribers", "error", err)
	}
}
