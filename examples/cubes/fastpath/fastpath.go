// SPDX-License-Identifier: Apache-2.0

// Package fastpath forwards packets past the stack of the host, by the host's routes and neighbours.
package fastpath

import (
	"context"
	"embed"

	"github.com/polycube/polycube/bypass"
	"github.com/polycube/polycube/cube"
)

// files are the model and the compiled programs.
//
//go:embed fastpath.yang fastpath.tc.o fastpath.xdp.o
var files embed.FS

func init() { cube.Register(cube.Service{Files: files, New: newFastPath}) }

// toStack are the counters of the packets that the stack gets.
var toStack = bypass.Counters(files)

// Config is the decoded configuration.
type Config struct {
	Outputs []cube.Output `json:"outputs"`
}

func newFastPath(env cube.Env) (cube.Instance, error) {
	b := bypass.New(env, toStack)
	prepare := func(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
		return cube.Plan{Before: b.Prepare(c.New.Outputs)}, nil
	}
	state := func(context.Context, []string) (any, error) {
		n, err := b.State()
		return map[string]any{"to-stack": n}, err
	}
	return cube.Instance{Prepare: cube.Typed(prepare), State: state, ParentChanged: b.ParentChanged, OutputChanged: b.OutputChanged}, nil
}
