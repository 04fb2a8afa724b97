// SPDX-License-Identifier: Apache-2.0

// Package transparenthelloworld is the smallest transparent cube: it passes packets, drops them or sends them through
// the slow path, as a leaf says for each direction.
package transparenthelloworld

import (
	"context"
	"embed"
	"fmt"

	"github.com/polycube/polycube/cube"
)

// files are the model and the compiled programs.
//
//go:embed transparenthelloworld.yang transparenthelloworld.tc.o transparenthelloworld.xdp.o
var files embed.FS

func init() {
	cube.Register(cube.Service{
		Files: files,
		New:   func(env cube.Env) (cube.Instance, error) { return newHello(env).instance(), nil },
	})
}

// Config is the decoded configuration.
type Config struct {
	IngressAction Action `json:"ingress-action"`
	EgressAction  Action `json:"egress-action"`
}

// Action is the model's type `action`; its values are those of enum transparenthelloworld_action.
type Action uint32

// UnmarshalText parses the model's name of an action.
func (a *Action) UnmarshalText(text []byte) (err error) {
	*a, err = cube.Enum[Action]("action", text, "DROP", "PASS", "SLOWPATH")
	return err
}

type hello struct {
	env cube.Env
}

func newHello(env cube.Env) *hello { return &hello{env: env} }

// instance returns the functions that the framework calls.
func (h *hello) instance() cube.Instance {
	return cube.Instance{Prepare: cube.Typed(h.prepare), PacketIn: h.PacketIn, ParentChanged: h.ParentChanged}
}

func (h *hello) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	return cube.Plan{Constants: map[string]any{
		"ingress_action": uint32(c.New.IngressAction),
		"egress_action":  uint32(c.New.EgressAction),
	}}, nil
}

// ParentChanged logs the properties of the port or netdev that the cube is attached to.
func (h *hello) ParentChanged(p cube.Parent) {
	h.env.Logger().Debug("parent", "name", p.Name, "peer", p.Peer, "netdev", p.Netdev, "mac", p.MAC.String(), "mtu", p.MTU,
		"addresses", fmt.Sprint(p.Addresses))
}

// PacketIn lets a packet that action SLOWPATH sent up continue after this cube.
func (h *hello) PacketIn(p *cube.PacketIn) {
	direction := [...]string{"ingress", "egress"}[p.Direction]
	if p.Length > len(p.Data) {
		h.env.Logger().Warn("packet dropped: larger than the slow path accepts",
			"direction", direction, "length", p.Length, "taken", len(p.Data))
		return
	}
	h.env.Logger().Debug("packet", "direction", direction, "length", p.Length)
	err := h.env.Send(&cube.PacketOut{
		Direction: p.Direction, TrafficClass: p.TrafficClass, Trip: p.Trip, Offload: p.Offload, Data: p.Data,
	})
	if err != nil {
		h.env.Logger().Warn("packet dropped: cannot be forwarded", "direction", direction, "error", err)
	}
}
