// SPDX-License-Identifier: Apache-2.0

// Package collect frees replaced objects later: a packet that entered a generation before the swap still runs in it,
// and would find its program array empty once the last descriptor is closed.
package collect

import (
	"log/slog"
	"sync"
	"time"

	"github.com/polycube/polycube/internal/kernel"
)

// retryFreeing is the interval of retries for objects that could not be freed: pins in a file system that is currently
// read-only.
const retryFreeing = 2 * time.Second

// Collector frees objects that packets may still use: replaced generations, and root programs. It first waits for an
// RCU grace period, outside of changes.
type Collector struct {
	log *slog.Logger

	mu      sync.Mutex
	waiting []freeing
	// left could not be freed.
	left []func() error
	kick chan struct{}
	done chan struct{}
	end  sync.Once
}

// freeing is an object that waits for a grace period. Removing pins is repeated until they are gone.
type freeing struct {
	free func() error
	pins bool
}

// New starts a Collector; Stop stops it.
func New(log *slog.Logger) *Collector {
	c := &Collector{log: log, kick: make(chan struct{}, 1), done: make(chan struct{})}
	go c.run()
	return c
}

// Add frees something after the next grace period.
func (c *Collector) Add(free func() error) { c.wait(freeing{free: free}) }

// Unpin is Add for the removal of pins, which may be repeated.
func (c *Collector) Unpin(free func() error) { c.wait(freeing{free: free, pins: true}) }

func (c *Collector) wait(f freeing) {
	c.mu.Lock()
	c.waiting = append(c.waiting, f)
	c.mu.Unlock()
	c.wake()
}

// Again queues pins that could not be removed, for later.
func (c *Collector) Again(free func() error, err error) {
	c.leave(free, err)
	c.wake()
}

// OrLater frees a pinned object, now or as soon as possible.
func (c *Collector) OrLater(free func() error) error {
	err := free()
	if err != nil {
		c.Again(free, err)
	}
	return err
}

func (c *Collector) leave(free func() error, err error) {
	c.log.Warn("pinned objects cannot be freed, trying again", "err", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = append(c.left, free)
}

func (c *Collector) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

func (c *Collector) run() {
	defer close(c.done)
	retry := time.NewTimer(retryFreeing)
	defer retry.Stop()
	for more := true; more; {
		select {
		case _, more = <-c.kick:
			c.sweep()
		case <-retry.C:
		}
		if c.retry() {
			retry.Reset(retryFreeing)
		}
	}
}

// retry frees remaining objects; true if some are left.
func (c *Collector) retry() bool {
	c.mu.Lock()
	batch := c.left
	c.left = nil
	c.mu.Unlock()
	var left []func() error
	for _, free := range batch {
		if free() != nil { // logged the first time
			left = append(left, free)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = append(left, c.left...)
	return len(c.left) > 0
}

func (c *Collector) sweep() {
	c.mu.Lock()
	batch := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	if err := kernel.WaitForPrograms(); err != nil {
		c.log.Warn("wait for packets in flight", "err", err)
	}
	for _, f := range batch {
		switch err := f.free(); {
		case err != nil && f.pins:
			c.leave(f.free, err)
		case err != nil:
			c.log.Warn("free an old generation", "err", err)
		}
	}
}

// Stop frees waiting objects and stops.
func (c *Collector) Stop() {
	c.end.Do(func() { close(c.kick) })
	<-c.done
}
