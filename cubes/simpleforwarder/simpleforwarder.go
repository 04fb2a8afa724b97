// SPDX-License-Identifier: Apache-2.0

// Package simpleforwarder forwards packets from port to port according to a table. The table is an array in the kernel,
// so an edit of an entry updates one element.
package simpleforwarder

import (
	"context"
	"embed"
	"encoding/binary"
	"fmt"
	"net"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// files are the model and the compiled programs.
//
//go:embed simpleforwarder.yang simpleforwarder.tc.o simpleforwarder.xdp.o
var files embed.FS

func init() {
	cube.Register(cube.Service{
		Files: files,
		New:   func(env cube.Env) (cube.Instance, error) { return newForwarder(env).instance(), nil },
	})
}

type forwarder struct {
	env     cube.Env
	actions table.Table[uint32, entry]
}

func newForwarder(env cube.Env) *forwarder {
	return &forwarder{env: env, actions: table.New[uint32, entry](env, "actions")}
}

// instance returns the functions that the framework calls.
func (f *forwarder) instance() cube.Instance {
	return cube.Instance{Prepare: cube.Typed(f.prepare), PacketIn: f.PacketIn}
}

func (f *forwarder) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	entries, err := f.entries(c.New)
	return cube.Plan{Before: []cube.Step{table.Replace(f.actions, entries)}}, err
}

// entries returns the contents of the map `actions` for a configuration, by input port.
func (f *forwarder) entries(c *Config) (map[uint32]entry, error) {
	out := make(map[uint32]entry, len(c.Actions))
	for _, a := range c.Actions {
		in, ok := f.env.PortIndex(a.Inport)
		if !ok {
			return nil, fmt.Errorf("actions %s: no such port: %w", a.Inport, cube.ErrNotFound)
		}
		e := entry{Action: a.Action}
		switch {
		case a.Action == Forward && a.Outport == "":
			e.Action = forwardNowhere
		case a.Action == Forward:
			if e.Outport, ok = f.env.PortIndex(a.Outport); !ok {
				return nil, fmt.Errorf("actions %s: outport %s: no such port: %w", a.Inport, a.Outport, cube.ErrNotFound)
			}
		}
		out[uint32(in)] = e
	}
	return out, nil
}

// PacketIn logs a packet that action SLOWPATH sent to user space.
func (f *forwarder) PacketIn(p *cube.PacketIn) {
	port, _ := f.env.PortName(p.Port)
	if len(p.Data) < 14 {
		f.env.Logger().Info("packet", "port", port, "length", p.Length)
		return
	}
	f.env.Logger().Info("packet", "port", port, "length", p.Length,
		"from", net.HardwareAddr(p.Data[6:12]).String(), "to", net.HardwareAddr(p.Data[:6]).String(),
		"ethertype", fmt.Sprintf("0x%04x", binary.BigEndian.Uint16(p.Data[12:])))
}
