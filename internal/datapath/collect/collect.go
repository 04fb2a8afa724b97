// SPDX-License-Identifier: Apache-2.0

// Package collect frees later what has been swapped out: a packet that entered a generation before
// the swap still runs in it, and finds its program array empty once the last descriptor is closed.
package collect

import (
	"log/slog"
	"sync"
	"time"

	"github.com/polycube/polycube/internal/kernel"
)

// retryFreeing is how soon what could not be freed is tried again: pins in a file system that is
// read-only at the moment.
const retryFreeing = 2 * time.Second

// Collector frees what packets may still be inside: generations that were swapped out, and
// root programs. It waits for an RCU grace period first, off the path of changes.
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

// freeing is what a grace period is waited for. pins can be removed again and again until they
// are gone.
type freeing struct {
	free func() error
	pins bool
}

// New starts a Collector; Stop ends it.
func New(log *slog.Logger) *Collector {
	c := &Collector{log: log, kick: make(chan struct{}, 1), done: make(chan struct{})}
	go c.run()
	return c
}

// Add frees something after the next grace period.
func (c *Collector) Add(free func() error) { c.wait(freeing{free: free}) }

// Unpin is add for what removes pins, however often it is called.
func (c *Collector) Unpin(free func() error) { c.wait(freeing{free: free, pins: true}) }

func (c *Collector) wait(f freeing) {
	c.mu.Lock()
	c.waiting = append(c.waiting, f)
	c.mu.Unlock()
	c.wake()
}

// Again takes what could not be unpinned, for later.
func (c *Collector) Again(free func() error, err error) {
	c.leave(free, err)
	c.wake()
}

// OrLater frees what is pinned, now or as soon as it can be.
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

// retry frees what is left; true if something is still.
func (c *Collector) retry() bool {
	c.mu.Lock()
	batch := c.left
	c.left = nil
	c.mu.Unlock()
	var left []func() error
	for _, free := range batch {
		if free() != nil { // which was said the first time
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

// Stop frees what is waiting and ends.
func (c *Collector) Stop() {
	c.end.Do(func() { close(c.kick) })
	<-c.done
}
