// SPDX-License-Identifier: Apache-2.0

// Package hybrid tests chains of hybrid network functions: each packet passes each function once and in order, whichever of
// its fast and slow path it takes.
package hybrid

import (
	"context"
	_ "embed" // for the model and the compiled programs
	"fmt"
	"os"
	"testing"

	"github.com/polycube/polycube/bypass"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/test/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

var (
	//go:embed stage.yang
	stageModel string
	//go:embed stage.tc.o
	stageTC []byte
	//go:embed stage.xdp.o
	stageXDP []byte
)

// does is enum stage_does.
type does uint32

// UnmarshalText parses the value of the model.
func (d *does) UnmarshalText(text []byte) (err error) {
	*d, err = cube.Enum[does]("does", text, "NOTHING", "ASKS_USER", "ASKS_STACK")
	return err
}

// config is the model's tree.
type config struct {
	Outputs  []cube.Output `json:"outputs"`
	Incoming does          `json:"incoming"`
	Outgoing does          `json:"outgoing"`
	Number   uint32        `json:"number"`
	Letter   string        `json:"letter"`
}

var stage = cube.Service{Model: stageModel, New: newStage, Objects: map[cube.Hook][]byte{cube.TC: stageTC, cube.XDP: stageXDP}}

func newStage(env cube.Env) (cube.Instance, error) {
	way := bypass.New(env, nil)
	letter := byte(0)
	prepare := func(_ context.Context, c cube.ChangeOf[config]) (cube.Plan, error) {
		letter = c.New.Letter[0]
		return cube.Plan{Before: way.Prepare(c.New.Outputs), Constants: map[string]any{
			"incoming": uint32(c.New.Incoming), "outgoing": uint32(c.New.Outgoing), "number": c.New.Number, "letter": uint32(letter),
		}}, nil
	}
	return cube.Instance{
		Prepare: cube.Typed(prepare), ParentChanged: way.ParentChanged, OutputChanged: way.OutputChanged,
		PacketIn: func(p *cube.PacketIn) {
			is, ok := flow.Read(p.Data)
			if at := int(is.L4) + 8; ok && len(p.Data) >= at+8 {
				sign(p.Data[at:], letter|0x20)
			}
			out := cube.PacketOut{Direction: p.Direction, TrafficClass: p.TrafficClass, Trip: p.Trip, Offload: p.Offload, Data: p.Data}
			if err := env.Send(&out); err != nil {
				env.Logger().Error("a packet is lost", "err", err)
			}
		},
	}, nil
}

// sign writes a letter behind those that are there: struct letters.
func sign(payload []byte, letter byte) {
	if n := payload[0]; n < 7 {
		payload[1+n] = letter
		payload[0]++
	}
}

// signed returns the letters in a payload.
func signed(payload []byte) (string, error) {
	if len(payload) < 8 || payload[0] > 7 {
		return "", fmt.Errorf("%x is no payload", payload)
	}
	return string(payload[1 : 1+payload[0]]), nil
}
