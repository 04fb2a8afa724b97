// SPDX-License-Identifier: Apache-2.0

// Package dynmon runs monitors that a user injects, and shows their maps. A monitor is a program of the cube: it is compiled
// or checked here, its maps get names of its own, and the framework swaps it in.
package dynmon

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/binary"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/sketch"
)

// files are the model and the compiled programs.
//
//go:embed dynmon.yang dynmon.tc.o dynmon.xdp.o
var files embed.FS

func init() {
	cube.Register(cube.Service{
		Files: files,
		New:   func(env cube.Env) (cube.Instance, error) { return newControl(env).instance(), nil },
	})
}

// control is the control plane of one cube.
type control struct {
	env     cube.Env
	seed    sketch.Seed
	builder builder
	// running is what is read; before are the monitors that it replaced, as long as its maps may not exist yet.
	running, before *layout
	sides           sides
}

func newControl(env cube.Env) *control {
	seed := seedOf(env.UUID())
	return &control{env: env, seed: seed, builder: builder{env: env, seed: seed}, running: &layout{}, sides: sides{env: env}}
}

// seedOf returns the secret of a cube's hashes. It is the same after a restart, when maps still have hashes of it.
func seedOf(uuid string) (seed sketch.Seed) {
	sum := sha256.Sum256([]byte("dynmon " + uuid))
	for i := range seed.Word {
		seed.Word[i] = binary.NativeEndian.Uint64(sum[8*i:])
	}
	return seed
}

// instance returns the functions that the framework calls.
func (c *control) instance() cube.Instance {
	return cube.Instance{Prepare: cube.Typed(c.prepare), State: c.state, Close: c.close}
}

// prepare builds the monitors, if they are others.
func (c *control) prepare(ctx context.Context, change cube.ChangeOf[Config]) (cube.Plan, error) {
	next, err := c.builder.layout(ctx, &change.New.Dataplane)
	if err != nil {
		return cube.Plan{}, err
	}
	plan := cube.Plan{Before: []cube.Step{cube.Effect(func() (func() error, error) { return c.use(next), nil })},
		After: []cube.Step{cube.Effect(func() (func() error, error) { c.settle(); return nil, nil })}}
	if change.Created() || next.programs != c.running.programs {
		plan.Programs = next.changes()
	}
	return plan, nil
}

// use reads another layout from now on.
func (c *control) use(next *layout) (back func() error) {
	before, running, sides := c.before, c.running, c.sides
	c.before, c.running = c.running, next
	c.sides = c.sides.with(next)
	return func() error {
		next.close()
		c.before, c.running, c.sides = before, running, sides
		return nil
	}
}

// settle forgets the layout that was replaced.
func (c *control) settle() {
	if c.before != nil && c.before != c.running {
		c.before.close()
	}
	c.before = nil
}

func (c *control) close() {
	c.settle()
	c.running.close()
}
