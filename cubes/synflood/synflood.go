// SPDX-License-Identifier: Apache-2.0

// Package synflood protects the host's own TCP servers from floods of SYNs: programs answer them with cookies of the
// kernel. The control plane tells the programs what the configuration, the kernel and the netdev allow, and reports what
// happens.
package synflood

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
)

// files are the model and the compiled programs.
//
//go:embed synflood.yang synflood.tc.o synflood.xdp.o
var files embed.FS

func init() { cube.Register(cube.Service{Files: files, New: newSynflood}) }

// counters are those of the cube.
var counters = counter.Of(files, "synflood_counter")

// interval is how often the kernel's settings and counters are read.
const interval = time.Second

type synflood struct {
	env       cube.Env
	settings  table.Table[uint32, settings]
	ports     table.Table[uint32, uint64]
	addresses table.Table[inet.Address, uint8]
	pace      table.Table[uint32, floodPace]

	kernel *kernel
	// config is nil before the first change, when maps cannot be used yet.
	config *Config
	// parent is nil until the cube is notified, also after a restart.
	parent *cube.Parent
	facts  facts
	stats  statistics
	// reported is the status that was logged last, with its reason.
	reported status
}

// newSynflood creates a cube in the namespace of the daemon.
func newSynflood(env cube.Env) (cube.Instance, error) {
	return newIn(func(fn func() error) error { return fn() }, env)
}

// newIn creates a cube whose namespace is the one in which `in` calls a function.
func newIn(in func(fn func() error) error, env cube.Env) (cube.Instance, error) {
	var k *kernel
	if err := in(func() (err error) { k, err = openKernel(); return err }); err != nil {
		return cube.Instance{}, fmt.Errorf("synflood %s: %w", env.Name(), err)
	}
	s := &synflood{
		env: env, kernel: k,
		settings:  table.New[uint32, settings](env, "settings"),
		ports:     table.New[uint32, uint64](env, "ports"),
		addresses: table.New[inet.Address, uint8](env, "addresses"),
		pace:      table.New[uint32, floodPace](env, "pace"),
		reported:  status{Status: statusOff},
	}
	s.look()
	env.Every(interval, s.tick)
	return cube.Instance{
		Prepare: cube.Typed(s.prepare), State: s.state, ParentChanged: s.parentChanged, Close: s.close,
	}, nil
}

// prepare checks the rate, the only part that the model cannot check. The rest is in what apply writes.
func (s *synflood) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	if _, err := c.New.forwardLimit(); err != nil {
		return cube.Plan{}, err
	}
	configure := cube.Effect(func() (func() error, error) {
		was := s.config
		s.config = c.New
		undo, err := s.apply()
		if err != nil {
			s.config = was
			return nil, err
		}
		return func() error { s.config = was; return undo() }, nil
	})
	return cube.Plan{
		Constants: map[string]any{"protection": uint32(c.New.Protection)},
		Before:    []cube.Step{configure},
	}, nil
}

// apply makes the maps match the configuration, the netdev and the kernel's settings.
func (s *synflood) apply() (undo func() error, err error) {
	values, err := s.config.settings(s.netdev(), s.facts)
	if err != nil {
		return nil, err
	}
	steps := []cube.Step{table.Replace(s.ports, s.config.ports())}
	if s.parent != nil {
		steps = append(steps, table.Replace(s.addresses, s.config.addresses(*s.parent)))
	} else if err := s.keepNetdev(&values); err != nil {
		return nil, err
	}
	var all cube.Undo
	err = cube.Carry(append(steps, table.Put(s.settings, 0, values)), &all)
	if err != nil {
		return nil, errors.Join(err, all.Run())
	}
	return all.Run, nil
}

// netdev is the netdev that the cube is on, as far as it is known.
func (s *synflood) netdev() cube.Parent {
	if s.parent == nil {
		return cube.Parent{}
	}
	return *s.parent
}

// keepNetdev lets programs keep what they know of the netdev: a restarted daemon does not know it yet.
func (s *synflood) keepNetdev(values *settings) error {
	was, _, err := s.settings.Get(0)
	if err == nil && was.MAC != 0 {
		values.MAC, values.MSS4, values.MSS6 = was.MAC, was.MSS4, was.MSS6
	}
	return err
}

// follow applies a change that is not one of the configuration.
func (s *synflood) follow(what string) {
	if s.config == nil {
		return
	}
	if _, err := s.apply(); err != nil {
		s.env.Logger().Error("the protection does not follow "+what, "error", err)
	}
	s.report()
}

// parentChanged notes the netdev whose addresses are protected. On a port there is no stack to protect.
func (s *synflood) parentChanged(p cube.Parent) {
	s.parent = &p
	s.follow("its netdev")
}

// tick follows the kernel's settings, and updates the statistics.
func (s *synflood) tick() {
	if s.look() {
		s.follow("the kernel's settings")
	}
	s.report()
	sample, err := s.kernel.counters()
	if err != nil {
		s.env.Logger().Warn("read the kernel's counters", "error", err)
		return
	}
	s.stats.update(sample, time.Now())
}

// look reads the kernel's settings, and reports whether they have changed.
func (s *synflood) look() bool {
	was := s.facts
	s.facts = s.kernel.facts()
	return s.facts != was
}

// report logs the start and the end of protection, and why it is not possible.
func (s *synflood) report() {
	if s.config == nil {
		return
	}
	is, err := s.status()
	if err != nil {
		s.env.Logger().Warn("read the state of the protection", "error", err)
		return
	}
	was := s.reported
	s.reported = is
	log := s.env.Logger()
	switch {
	case is == was:
	case is.Status == statusUnavailable:
		log.Warn("no protection from SYN floods", "reason", is.Reason)
	case is.Status == statusActive:
		log.Info("protection from SYN floods starts", "protection", protectionNames[s.config.Protection], "netdev", s.netdev().Netdev)
	case was.Status == statusActive:
		log.Info("protection from SYN floods ends", "netdev", s.netdev().Netdev)
	case was.Status == statusUnavailable:
		log.Info("protection from SYN floods is possible now", "netdev", s.netdev().Netdev)
	}
}

func (s *synflood) close() {
	if err := s.kernel.close(); err != nil {
		s.env.Logger().Error("close the kernel's settings", "error", err)
	}
}
