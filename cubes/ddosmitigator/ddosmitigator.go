// SPDX-License-Identifier: Apache-2.0

// Package ddosmitigator drops packets from and to listed addresses. The program also lists addresses that exceed a rate, for
// some time; the control plane removes entries whose time is over.
package ddosmitigator

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/sketch"
)

// files are the model and the compiled programs.
//
//go:embed ddosmitigator.yang ddosmitigator.tc.o ddosmitigator.xdp.o
var files embed.FS

var counters = counter.Of(files, "ddosmitigator_counter")

func init() { cube.Register(cube.Service{Files: files, New: newMitigator}) }

// period is how often rates are sampled and entries expire.
const period = time.Second

type mitigator struct {
	env      cube.Env
	lists    *prefixes
	detected *detections
	seeds    table.Table[uint32, sketch.Seed]
	dropped  table.PerCPU[uint32, inet.Count]
	counters counter.Set
	sample   sample
}

// sample is the rate of dropped packets, and what it was computed from.
type sample struct {
	packets uint64
	at      uint64
	pps     uint64
}

func newMitigator(env cube.Env) (cube.Instance, error) {
	m := &mitigator{
		env: env, lists: newPrefixes(env), detected: newDetections(env),
		seeds: table.New[uint32, sketch.Seed](env, "seeds"), dropped: table.NewPerCPU[uint32, inet.Count](env, "dropped"),
		counters: counters.In(env, "counters"),
	}
	env.Every(period, m.tick)
	return cube.Instance{Prepare: cube.Typed(m.prepare), State: m.state, DeleteState: m.deleteState, Close: m.close}, nil
}

func (m *mitigator) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	change, err := m.lists.prepare(c.Created(), c.Entries)
	if err != nil {
		return cube.Plan{}, err
	}
	plan := cube.Plan{MapSizes: change.mapSizes()}
	if c.Created() {
		plan.Before = append(plan.Before, cube.Effect(m.begin))
	}
	plan.Before = append(plan.Before, cube.Effect(change.commit))
	if c.New != nil {
		plan.Constants = c.New.constants()
		plan.Before = append(plan.Before, cube.Effect(m.detected.automatic(c.New.automatic())))
	}
	return plan, nil
}

// begin prepares the maps of a cube that was created or restored.
func (m *mitigator) begin() (undo func() error, err error) {
	seed, _, err := m.seeds.Get(0)
	if err == nil && seed == (sketch.Seed{}) {
		seed = sketch.NewSeed()
		err = m.seeds.Set(0, seed)
	}
	m.lists.seed = seed
	return nil, errors.Join(err, m.detected.begin())
}

// tick is called every second.
func (m *mitigator) tick() {
	for what, err := range map[string]error{"sample the rate": m.measure(), "remove expired entries": m.lists.expire(), "follow the detected addresses": m.detected.follow()} {
		if err != nil {
			m.env.Logger().Error(what, "error", err)
		}
	}
}

// measure samples the rate of dropped packets.
func (m *mitigator) measure() error {
	n, err := m.total()
	if err != nil {
		return err
	}
	now, err := cube.Time()
	if err != nil {
		return err
	}
	m.sample.take(n.Packets, now)
	return nil
}

// take computes the rate since the last sample; now is in ns.
func (s *sample) take(packets, now uint64) {
	if passed := now - s.at; s.at != 0 && passed > 0 {
		s.pps = uint64(float64(packets-s.packets)/(float64(passed)/1e9) + 0.5)
	}
	s.packets, s.at = packets, now
}

// total returns the packets that were dropped.
func (m *mitigator) total() (inet.Count, error) {
	values, _, err := m.dropped.Get(0)
	return inet.Sum(values), err
}

func (m *mitigator) close() {
	if err := m.lists.close(); err != nil {
		m.env.Logger().Error("close the lists", "error", err)
	}
}

// deleteState releases addresses that were listed automatically.
func (m *mitigator) deleteState(_ context.Context, path []string) error {
	if len(path) == 0 || path[0] != "detected" {
		return fmt.Errorf("%v: only automatic entries are state: %w", path, cube.ErrUnsupported)
	}
	return m.detected.release(path[1:])
}
