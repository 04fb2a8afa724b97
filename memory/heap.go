// SPDX-License-Identifier: Apache-2.0

package memory

// The daemon's heap grows to twice its size between two collections, whatever is available: where memory is scarce, it has
// to be collected earlier, or the kernel kills the daemon.

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// plenty is how much must be available for the heap to grow as usual.
	plenty = 1 << 30
	// watchEvery is how often Watch looks: others take memory of the same machine, or control group, too.
	watchEvery = time.Second
)

// heap is the limit of the heap, in bytes.
var heap = struct {
	sync.Mutex
	limit int64
}{limit: math.MaxInt64}

// Watch makes the daemon collect garbage before its heap takes all that is available, until ctx ends.
func Watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		confine(Available().Bytes)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	confine(plenty)
}

// confine lets the heap take half of what is available, as the other half is for what is not on it, such as the verifier's
// memory.
func confine(available uint64) {
	heap.Lock()
	defer heap.Unlock()
	limit := int64(math.MaxInt64)
	if available < plenty {
		var is runtime.MemStats
		runtime.ReadMemStats(&is)
		limit = int64(is.Sys - is.HeapReleased + available/2)
	}
	if limit != heap.limit {
		heap.limit = limit
		debug.SetMemoryLimit(limit)
	}
}
