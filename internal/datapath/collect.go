// SPDX-License-Identifier: Apache-2.0

// What has been swapped out goes later: a packet that entered a generation before the swap
// still runs in it, and finds its program array empty once the last descriptor is closed.

package datapath

import (
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// retryFreeing is how soon what could not be freed is tried again: pins in a file system that is
// read-only at the moment.
const retryFreeing = 2 * time.Second

const membarrierGlobal = 1 // MEMBARRIER_CMD_GLOBAL of <linux/membarrier.h>

// collector frees what packets may still be inside: generations that were swapped out, and
// root programs. It waits for an RCU grace period first, off the path of changes.
type collector struct {
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

func newCollector(log *slog.Logger) *collector {
	c := &collector{log: log, kick: make(chan struct{}, 1), done: make(chan struct{})}
	go c.run()
	return c
}

// add frees something after the next grace period.
func (c *collector) add(free func() error) { c.wait(freeing{free: free}) }

// unpin is add for what removes pins, however often it is called.
func (c *collector) unpin(free func() error) { c.wait(freeing{free: free, pins: true}) }

func (c *collector) wait(f freeing) {
	c.mu.Lock()
	c.waiting = append(c.waiting, f)
	c.mu.Unlock()
	c.wake()
}

// again takes what could not be unpinned, for later.
func (c *collector) again(free func() error, err error) {
	c.leave(free, err)
	c.wake()
}

// orLater frees what is pinned, now or as soon as it can be.
func (c *collector) orLater(free func() error) error {
	err := free()
	if err != nil {
		c.again(free, err)
	}
	return err
}

func (c *collector) leave(free func() error, err error) {
	c.log.Warn("what is pinned cannot be freed, it is tried again", "err", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = append(c.left, free)
}

func (c *collector) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

func (c *collector) run() {
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
func (c *collector) retry() bool {
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

func (c *collector) sweep() {
	c.mu.Lock()
	batch := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	// It returns after a grace period of RCU, under which programs run.
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0); errno != 0 {
		c.log.Warn("waiting for packets in flight", "err", errno)
	}
	for _, f := range batch {
		switch err := f.free(); {
		case err != nil && f.pins:
			c.leave(f.free, err)
		case err != nil:
			c.log.Warn("freeing an old generation", "err", err)
		}
	}
}

// stop frees what is waiting and ends.
func (c *collector) stop() {
	c.end.Do(func() { close(c.kick) })
	<-c.done
}
