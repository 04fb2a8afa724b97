// SPDX-License-Identifier: Apache-2.0

// Package simpleforwarder forwards packets from port to port as a table says. The table is an
// array in the kernel, so an edit of an entry is the update of one element.
package simpleforwarder

import (
	"context"
	_ "embed" // for the model and the compiled programs
	"encoding/binary"
	"fmt"
	"net"

	"github.com/polycube/polycube/cube"
)

var (
	//go:embed simpleforwarder.yang
	model string
	//go:embed simpleforwarder.tc.o
	tc []byte
	//go:embed simpleforwarder.xdp.o
	xdp []byte
)

func init() {
	cube.Register(cube.Service{
		Model:   model,
		Objects: map[cube.Hook][]byte{cube.TC: tc, cube.XDP: xdp},
		New:     func(env cube.Env) (cube.Instance, error) { return newForwarder(env), nil },
	})
}

type forwarder struct {
	cube.Typed[Config]
	env cube.Env
}

func newForwarder(env cube.Env) *forwarder {
	f := &forwarder{env: env}
	f.PrepareConfig = f.prepare
	return f
}

func (f *forwarder) prepare(_ context.Context, old, after *Config) (cube.Plan, error) {
	created := old == nil
	if created {
		old = &Config{}
	}
	before, err := f.entries(old)
	if err != nil {
		return cube.Plan{}, err
	}
	wanted, err := f.entries(after)
	if err != nil {
		return cube.Plan{}, err
	}
	return cube.Plan{
		Commit: func() (err error) {
			if created { // the map may be there from before a restart, with another configuration
				if before, err = f.present(); err != nil {
					return err
				}
			}
			return f.replace(before, wanted)
		},
		Undo: func() error { return f.replace(wanted, before) },
	}, nil
}

// present is what the map `actions` holds now.
func (f *forwarder) present() (map[uint32]entry, error) {
	actions, err := f.env.Map("actions")
	if err != nil {
		return nil, err
	}
	out := map[uint32]entry{}
	var in uint32
	var e entry
	it := actions.Iterate()
	for it.Next(&in, &e) {
		if e != (entry{}) {
			out[in] = e
		}
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("reading the actions: %w", err)
	}
	return out, nil
}

// entries is what the map `actions` holds for a configuration, by input port.
func (f *forwarder) entries(c *Config) (map[uint32]entry, error) {
	out := make(map[uint32]entry, len(c.Actions))
	for _, a := range c.Actions {
		in, ok := f.env.PortIndex(a.Inport)
		if !ok {
			return nil, fmt.Errorf("actions %s: there is no such port: %w", a.Inport, cube.ErrNotFound)
		}
		e := entry{Action: a.Action}
		switch {
		case a.Action == Forward && a.Outport == "":
			e.Action = forwardNowhere
		case a.Action == Forward:
			if e.Outport, ok = f.env.PortIndex(a.Outport); !ok {
				return nil, fmt.Errorf("actions %s: outport %s: there is no such port: %w", a.Inport, a.Outport, cube.ErrNotFound)
			}
		}
		out[uint32(in)] = e
	}
	return out, nil
}

// replace writes the entries in which two tables differ, or none.
func (f *forwarder) replace(from, to map[uint32]entry) error {
	actions, err := f.env.Map("actions")
	if err != nil {
		return err
	}
	differ := map[uint32]bool{}
	for in := range from {
		differ[in] = from[in] != to[in]
	}
	for in := range to {
		differ[in] = from[in] != to[in]
	}
	var done []uint32
	for in, differs := range differ {
		if !differs {
			continue
		}
		if err := actions.Put(in, to[in]); err != nil { // what `to` lacks is the zero entry, none
			for _, in := range done {
				_ = actions.Put(in, from[in]) // the error that is returned says what is wrong with the map
			}
			return fmt.Errorf("writing the action of port %d: %w", in, err)
		}
		done = append(done, in)
	}
	return nil
}

// PacketIn logs a packet that action SLOWPATH sent up.
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
