// SPDX-License-Identifier: Apache-2.0

// Package pbforwarder forwards packets by rules: policy-based forwarding. Package classifier compiles the rules; this
// package keeps each rule's action and counter.
package pbforwarder

import (
	"context"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
)

// files are the model and the compiled programs.
//
//go:embed pbforwarder.yang pbforwarder.tc.o pbforwarder.xdp.o
var files embed.FS

func init() {
	cube.Register(cube.Service{
		Files: files,
		New:   func(env cube.Env) (cube.Instance, error) { return newForwarder(env).instance(), nil },
	})
}

type forwarder struct {
	env      cube.Env
	set      *classifier.Set
	rules    map[uint32]*entry // by id
	room     uint32            // maximum number of rules
	counters *counter.Rules
}

func newForwarder(env cube.Env) *forwarder {
	return &forwarder{env: env, set: classifier.New(env, 0), rules: map[uint32]*entry{}, counters: counter.NewRules(env, 0)}
}

// instance returns the functions that the framework calls.
func (f *forwarder) instance() cube.Instance {
	return cube.Instance{Prepare: cube.Typed(f.prepare), State: f.State, PacketIn: f.PacketIn, Close: f.Close}
}

func (f *forwarder) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	room := f.room
	if c.Created() {
		room = c.New.MaxRules
	}
	rules, err := f.rulesChange(c.Entries, room, c.Created())
	if err != nil {
		return cube.Plan{}, err
	}
	after := append(rules.set.After, cube.Effect(rules.free))
	return cube.Plan{Before: []cube.Step{cube.Effect(rules.commit)}, After: after}, nil
}

// Close ends the use of the memory of rules and counters.
func (f *forwarder) Close() {
	if err := errors.Join(f.set.Close(), f.counters.Close()); err != nil {
		f.env.Logger().Error("close the rules", "error", err)
	}
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
