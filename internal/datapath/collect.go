// SPDX-License-Identifier: Apache-2.0

// What has been swapped out goes later: a packet that entered a generation before the swap
// still runs in it, and finds its program array empty once the last descriptor is closed.

package datapath

import (
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const membarrierGlobal = 1 // MEMBARRIER_CMD_GLOBAL of <linux/membarrier.h>

// collector frees what packets may still be inside: generations that were swapped out, and
// root programs. It waits for an RCU grace period first, off the path of changes.
type collector struct {
	log *slog.Logger
	// after lists pins of an earlier daemon that go with the first commit.
	after []string

	mu      sync.Mutex
	waiting []func() error
	kick    chan struct{}
	done    chan struct{}
	end     sync.Once
}

func newCollector(log *slog.Logger) *collector {
	c := &collector{log: log, kick: make(chan struct{}, 1), done: make(chan struct{})}
	go c.run()
	return c
}

// add frees something after the next grace period.
func (c *collector) add(free func() error) {
	c.mu.Lock()
	c.waiting = append(c.waiting, free)
	c.mu.Unlock()
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// addStale frees the pins of an earlier daemon.
func (c *collector) addStale() {
	for _, pin := range c.after {
		c.add(func() error { return os.Remove(pin) })
	}
	c.after = nil
}

func (c *collector) run() {
	defer close(c.done)
	for range c.kick {
		c.sweep()
	}
	c.sweep()
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
	for _, free := range batch {
		if err := free(); err != nil {
			c.log.Warn("freeing an old generation", "err", err)
		}
	}
}

// stop frees what is waiting and ends.
func (c *collector) stop() {
	c.end.Do(func() { close(c.kick) })
	<-c.done
}
