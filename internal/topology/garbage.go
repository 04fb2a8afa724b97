// SPDX-License-Identifier: Apache-2.0

package topology

// Memory is returned to the machine after large changes.

import (
	"runtime/debug"
	"sync"
	"time"
)

// A change of manyEntries entries of large lists leaves more garbage behind than it keeps, and the next collection may be
// hours away: it is given back to the machine when no such change has been made for a while.
const (
	manyEntries  = 10_000
	freeMemoryIn = 5 * time.Second
)

func (c *committed) freeMemory() {
	n := 0
	for _, changes := range c.entries {
		n += len(changes)
	}
	for _, u := range c.created {
		n += u.Tree.Tables().Len()
	}
	if n >= manyEntries {
		c.garbage.free()
	}
}

// garbage is the memory that large changes leave unused.
type garbage struct {
	mu    sync.Mutex
	timer *time.Timer
}

// free returns it to the machine soon.
func (g *garbage) free() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer == nil {
		g.timer = time.AfterFunc(freeMemoryIn, debug.FreeOSMemory)
	} else {
		g.timer.Reset(freeMemoryIn)
	}
}
