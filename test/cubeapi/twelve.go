// SPDX-License-Identifier: Apache-2.0

// Package cubeapi tests the promises of the API to cube authors with a cube that uses all of it: programs within a cube
// that change at run time, messages from the fast path, timers, parameters of a parent. Everything except REST is real:
// the topology, the data plane, the slow path.
package cubeapi

import (
	"context"
	_ "embed" // for the models and the compiled programs
	"sync"
	"time"

	"github.com/polycube/polycube/cube"
)

var (
	//go:embed twelve.yang
	twelveModel string
	//go:embed twelve.tc.o
	twelveTC []byte
	//go:embed twelve.xdp.o
	twelveXDP []byte
	//go:embed late.tc.o
	lateTC []byte
	//go:embed late.xdp.o
	lateXDP []byte
)

// config is the model's tree.
type config struct {
	Ports  []cube.Port `json:"ports"`
	What   string      `json:"what"`
	Stages int         `json:"stages"`
	// Restless is a time in milliseconds.
	Restless uint32 `json:"restless"`
}

// twelve is the instance. The functions are the handlers' actions, set by a test.
type twelve struct {
	env cube.Env

	stop func() // of the timer that exchanges the programs
	turn int

	mu       sync.Mutex
	packetIn func(*cube.PacketIn)
	notified func(kind uint32, data []byte)
}

// ingress are the functions of the longest ingress path, in order.
var ingress = []string{"pcn_ingress", "stage1", "stage2", "stage3", "stage4", "stage5", "stage6", "leave"}

// others are the functions that replace them at run time.
var others = []string{"other0", "other1", "other2", "other3", "other4", "other5", "other6", "other7"}

// egress are the functions of the egress path.
var egress = []string{"pcn_egress", "out1", "out2", "out3"}

func slots(d cube.Direction, functions ...string) map[cube.ProgramSlot]*cube.Program {
	set := map[cube.ProgramSlot]*cube.Program{}
	for i, f := range functions {
		set[cube.ProgramSlot{Direction: d, Index: i}] = &cube.Program{Function: f}
	}
	return set
}

// prepare chains the requested number of stages, followed by the last one. A path of fewer programs removes the others.
func (c *twelve) prepare(_ context.Context, change cube.ChangeOf[config]) (cube.Plan, error) {
	old, after := change.Old, change.New
	what := map[string]uint32{"FORWARD": 0, "SLOWPATH": 1, "NOTIFY": 2}[after.What]
	plan := cube.Plan{Constants: map[string]any{"what": what}}
	if old == nil || old.Restless != after.Restless {
		plan.Before = []cube.Step{cube.Effect(func() (func() error, error) { c.rest(after.Restless); return nil, nil })}
	}
	if old != nil && old.Stages == after.Stages {
		return plan, nil
	}
	plan.Programs = slots(cube.Egress, egress...)
	for i, f := range ingress {
		slot := cube.ProgramSlot{Index: i}
		switch {
		case i < after.Stages-1:
			plan.Programs[slot] = &cube.Program{Function: f}
		case i == after.Stages-1:
			plan.Programs[slot] = &cube.Program{Function: "leave"}
		default:
			plan.Programs[slot] = nil
		}
	}
	return plan, nil
}

// rest sets how often the programs are exchanged.
func (c *twelve) rest(milliseconds uint32) {
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
	if milliseconds == 0 {
		return
	}
	c.stop = c.env.Every(time.Duration(milliseconds)*time.Millisecond, func() {
		c.turn++
		if err := c.env.Programs().ReloadAll(slots(cube.Ingress, [][]string{ingress, others}[c.turn%2]...)); err != nil {
			c.env.Logger().Error("exchanging the programs", "error", err)
		}
	})
}

// PacketIn receives a packet of the slow path.
func (c *twelve) PacketIn(p *cube.PacketIn) {
	c.mu.Lock()
	do := c.packetIn
	c.mu.Unlock()
	if do != nil {
		do(p)
	}
}

// Notify receives a message of the programs.
func (c *twelve) Notify(kind uint32, data []byte) {
	c.mu.Lock()
	do := c.notified
	c.mu.Unlock()
	if do != nil {
		do(kind, data)
	}
}

func (c *twelve) set(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// Service is the cube of twelve programs, for a daemon.
func Service() cube.Service { return service(func(*twelve) {}) }

// service creates instances, and passes each to made.
func service(made func(*twelve)) cube.Service {
	return cube.Service{
		Model:   twelveModel,
		Objects: map[cube.Hook][]byte{cube.TC: twelveTC, cube.XDP: twelveXDP},
		New: func(env cube.Env) (cube.Instance, error) {
			c := &twelve{env: env}
			made(c)
			return cube.Instance{Prepare: cube.Typed(c.prepare), PacketIn: c.PacketIn, Notify: c.Notify}, nil
		},
	}
}
