// SPDX-License-Identifier: Apache-2.0

package topology

// Memory is returned to the machine after large changes.

import (
	"runtime/debug"
	"sync/atomic"
	"time"
)

// A change of manyEntries entries of large lists leaves more garbage behind than it keeps, and the next collection may be
// hours away: it is given back to the machine when the request has been answered.
const (
	manyEntries  = 10_000
	freeMemoryIn = time.Second
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
	// freeing is set while a call of free is pending.
	freeing atomic.Bool
}

// free returns it to the machine soon.
func (g *garbage) free() {
	if g.freeing.CompareAndSwap(false, true) {
		time.AfterFunc(freeMemoryIn, func() {
			g.freeing.Store(false)
			debug.FreeOSMemory()
		})
	}
}
