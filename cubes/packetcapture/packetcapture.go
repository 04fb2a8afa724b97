// SPDX-License-Identifier: Apache-2.0

// Package packetcapture captures packets. A program whose code is the filter copies packets to a ring; this package reads
// them from there, and writes them to files or keeps them for clients.
package packetcapture

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/ring"
)

// files are the model and the compiled programs.
//
//go:embed packetcapture.yang packetcapture.tc.o packetcapture.xdp.o
var files embed.FS

func init() {
	cube.Register(cube.Service{
		Files: files,
		New:   func(env cube.Env) (cube.Instance, error) { return newControl(env).instance(), nil },
	})
}

// flushInterval is how long a packet waits at most for others before it is written.
const flushInterval = 100 * time.Millisecond

// control is the control plane of one cube.
type control struct {
	env    cube.Env
	config *Config
	filter programs
	intake *intake
	// reader is nil before the first plan; ended is closed when it does not read any more.
	reader *ring.Reader
	ended  chan struct{}
	cancel context.CancelFunc
}

func newControl(env cube.Env) *control {
	c := &control{env: env, intake: newIntake(env.Logger())}
	env.Every(flushInterval, c.flush)
	return c
}

// instance returns the functions that the framework calls.
func (c *control) instance() cube.Instance {
	return cube.Instance{Prepare: cube.Typed(c.prepare), State: c.state, Action: c.action, Close: c.close}
}

// prepare compiles the filter, if it is another one. What is done with packets changes before the programs do when a
// capture begins, and after them when it ends.
func (c *control) prepare(ctx context.Context, change cube.ChangeOf[Config]) (cube.Plan, error) {
	old, conf := change.Old, change.New
	if err := conf.check(old); err != nil {
		return cube.Plan{}, err
	}
	var plan cube.Plan
	if change.Created() || old.Capture != conf.Capture || old.Filter != conf.Filter || old.SnapLen != conf.SnapLen {
		var err error
		if plan.Programs, err = c.filter.of(ctx, conf); err != nil {
			return cube.Plan{}, err
		}
	}
	apply := cube.Effect(func() (func() error, error) { return c.apply(conf) })
	if conf.captures() || change.Created() {
		plan.Before = []cube.Step{apply}
	} else {
		plan.After = []cube.Step{apply}
	}
	return plan, nil
}

// apply follows a configuration.
func (c *control) apply(conf *Config) (undo func() error, err error) {
	back := c.intake.use(conf) // before the reader takes the first packet
	if c.reader == nil {
		if err := c.start(conf); err != nil {
			back()
			return nil, err
		}
	}
	was := c.config
	c.config = conf
	return func() error {
		c.config = was
		back()
		return nil
	}, nil
}

// start reads the ring until the cube is closed. What an earlier daemon has left there is part of the capture.
func (c *control) start(conf *Config) error {
	reader, err := ring.Open(c.env, "copies")
	if err != nil {
		return err
	}
	if !conf.captures() {
		if err := reader.Skip(); err != nil {
			return errors.Join(err, reader.Close())
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.reader, c.cancel, c.ended = reader, cancel, make(chan struct{})
	go func() {
		defer close(c.ended)
		defer c.carry()
		if err := reader.Run(ctx, c.intake.take); err != nil && !errors.Is(err, ring.ErrTaken) && !errors.Is(err, ring.ErrClosed) {
			c.env.Logger().Error("the reader of captured packets stopped", "error", err)
		}
	}()
	c.intake.files.start(c.carry)
	return nil
}

// carry ends a goroutine that panics without ending the daemon: the cube is degraded instead.
func (c *control) carry() {
	if v := recover(); v != nil {
		go func() { _ = c.env.Do(func() { panic(v) }) }() // not from here: Close waits for this goroutine in its turn
	}
}

// flush writes what waits for more packets. At the end of a capture it closes the file, once the ring is empty.
func (c *control) flush() {
	if c.reader != nil {
		c.intake.flush(c.reader.Used() == 0)
	}
}

// close writes what is in memory, but does not wait for a disk that is stuck. Packets in the ring are for the next daemon.
func (c *control) close() {
	if c.reader == nil {
		return
	}
	c.cancel()
	<-c.ended
	if err := c.reader.Close(); err != nil {
		c.env.Logger().Warn("close the ring", "error", err)
	}
	if !c.intake.close(closeTime) {
		c.env.Logger().Warn("packets in memory are lost: they could not be written to disk in time", "waited", closeTime)
	}
}

// closeTime is how long close waits for the disk.
const closeTime = 2 * time.Second

// counts returns the numbers of packets that programs have copied, and of those that found the ring full.
func (c *control) counts() (captured, lost uint64, err error) {
	counts, err := c.env.Map("copies" + ring.CountsSuffix)
	if err != nil {
		return 0, 0, err
	}
	sum, err := ring.Sum(counts)
	if err != nil {
		return 0, 0, fmt.Errorf("packetcapture %s: %w", c.env.Name(), err)
	}
	return sum.Written, sum.Lost, nil
}
