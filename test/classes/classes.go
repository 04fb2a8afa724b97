// SPDX-License-Identifier: Apache-2.0

// Package classes registers a transparent cube for tests of cubes that use the traffic class of packets: it makes the
// destination port of a UDP packet its class.
package classes

import (
	"context"
	"embed"

	"github.com/polycube/polycube/cube"
)

// files are the model and the compiled programs.
//
//go:embed classes.yang classes.tc.o classes.xdp.o
var files embed.FS

func init() { cube.Register(cube.Service{Files: files, New: newClasses}) }

func newClasses(cube.Env) (cube.Instance, error) {
	return cube.Instance{Prepare: func(context.Context, cube.Change) (cube.Plan, error) { return cube.Plan{}, nil }}, nil
}
