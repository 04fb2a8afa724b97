// SPDX-License-Identifier: Apache-2.0

// Package helloworld is the smallest standard cube. Read it first: it shows how a model, an eBPF program and a control
// plane become a network function.
package helloworld

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
//go:embed helloworld.yang helloworld.tc.o helloworld.xdp.o
var files embed.FS

const maxPorts = 2

func init() {
	cube.Register(cube.Service{
		Files:    files,
		MaxPorts: maxPorts,
		New:      func(env cube.Env) (cube.Instance, error) { return newHello(env).instance(), nil },
	})
}

// Config is the decoded configuration.
type Config struct {
	Ports  []cube.Port `json:"ports"`
	Action Action      `json:"action"`
}

// Action is the leaf `action`; its values are those of enum helloworld_action.
type Action uint32

// UnmarshalText parses the model's name of an action.
func (a *Action) UnmarshalText(text []byte) (err error) {
	*a, err = cube.Enum[Action]("action", text, "DROP", "SLOWPATH", "FORWARD")
	return err
}

type hello struct {
	env   cube.Env
	ports table.Table[uint32, uint32]
}

func newHello(env cube.Env) *hello {
	return &hello{env: env, ports: table.New[uint32, uint32](env, "ports")}
}

// instance returns the functions that the framework calls.
func (h *hello) instance() cube.Instance {
	return cube.Instance{Prepare: cube.Typed(h.prepare), PacketIn: h.PacketIn}
}

func (h *hello) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	slots, err := h.slots(c.New)
	return cube.Plan{
		Constants: map[string]any{"action": uint32(c.New.Action)},
		Before:    []cube.Step{table.Replace(h.ports, slots)},
	}, err
}

// slots returns the contents of the map `ports` for a configuration.
func (h *hello) slots(c *Config) (map[uint32]uint32, error) {
	if len(c.Ports) > maxPorts {
		return nil, fmt.Errorf("%d ports, but a helloworld has at most %d ports: %w", len(c.Ports), maxPorts, cube.ErrFull)
	}
	slots := map[uint32]uint32{}
	for i, p := range c.Ports {
		index, ok := h.env.PortIndex(p.Name)
		if !ok {
			return nil, fmt.Errorf("port %s: %w", p.Name, cube.ErrNotFound)
		}
		slots[uint32(i)] = uint32(index) + 1
	}
	return slots, nil
}

// PacketIn logs a packet that action SLOWPATH sent to user space.
func (h *hello) PacketIn(p *cube.PacketIn) {
	port, _ := h.env.PortName(p.Port)
	if len(p.Data) < 14 {
		h.env.Logger().Info("packet", "port", port, "length", p.Length)
		return
	}
	h.env.Logger().Info("packet", "port", port, "length", p.Length,
		"from", net.HardwareAddr(p.Data[6:12]).String(), "to", net.HardwareAddr(p.Data[:6]).String(),
		"ethertype", fmt.Sprintf("0x%04x", binary.BigEndian.Uint16(p.Data[12:])))
}
