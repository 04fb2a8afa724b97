// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestTheHeapIsConfinedWhereMemoryIsScarce(t *testing.T) {
	t.Cleanup(func() { confine(plenty) })
	for _, c := range []struct {
		available uint64
		more      uint64 // than is held, 0 for no limit
	}{{plenty, 0}, {64 << 20, 32 << 20}, {2 << 20, 1 << 20}, {math.MaxUint64, 0}} {
		confine(c.available)
		var is runtime.MemStats
		runtime.ReadMemStats(&is)
		limit, held := debug.SetMemoryLimit(-1), int64(is.Sys-is.HeapReleased)
		if c.more == 0 && limit != math.MaxInt64 {
			t.Errorf("with %d bytes available, the limit is %d", c.available, limit)
		}
		if off := limit - held - int64(c.more); c.more > 0 && (off < -1<<20 || off > 1<<20) {
			t.Errorf("with %d bytes available, the limit is %d, %d more than %d are held, want %d", c.available, limit, limit-held, held, c.more)
		}
	}
}

// TestGarbageIsCollectedBeforeItTakesWhatIsAvailable: a heap of 64 MB, which would grow to 128, has 8 MB.
func TestGarbageIsCollectedBeforeItTakesWhatIsAvailable(t *testing.T) {
	t.Cleanup(func() { confine(plenty) })
	live := make([][]byte, 64)
	for i := range live {
		live[i] = make([]byte, 1<<20)
	}
	runtime.GC()
	confine(16 << 20)
	limit := debug.SetMemoryLimit(-1)
	most := int64(0)
	for range 200 {
		garbage := make([]byte, 1<<20)
		runtime.KeepAlive(garbage)
		var is runtime.MemStats
		runtime.ReadMemStats(&is)
		most = max(most, int64(is.Sys-is.HeapReleased))
	}
	runtime.KeepAlive(live)
	if most > limit+16<<20 {
		t.Errorf("%d bytes are held, the limit is %d", most, limit)
	}
}
