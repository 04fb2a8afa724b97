// SPDX-License-Identifier: Apache-2.0

// Package classes registers a transparent cube for tests of cubes that use the traffic class of packets: it makes the
// destination port of a UDP packet that comes in its class, and the last byte of its source MAC address its QFI. With
// shows=true it writes the class of any packet to the last four bytes of its destination MAC address instead.
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

type config struct {
	Shows bool `json:"shows"`
}

func init() { cube.Register(cube.Service{Files: files, New: newClasses}) }

func newClasses(cube.Env) (cube.Instance, error) {
	return cube.Instance{Prepare: cube.Typed(func(_ context.Context, c cube.ChangeOf[config]) (cube.Plan, error) {
		return cube.Plan{Constants: map[string]any{"shows": c.New.Shows}}, nil
	})}, nil
}
