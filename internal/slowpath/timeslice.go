// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// A handler that works without a pause must not block others: neither the Go runtime, which lets a goroutine run for
// 10 ms, nor the kernel, which lets a thread run for some ms, serves a packet for an idle cube in time.

// sliceLength is how long one handler runs before others run.
const sliceLength = 200 * time.Microsecond

// spareThreads are threads for goroutines beyond one for each CPU, so that a goroutine that becomes ready is scheduled
// by the kernel and does not wait until another blocks.
const spareThreads = 6 // with fewer, the p99 latency of an idle cube next to a flooded one is sometimes a few ms

// SpareThreads lets the process run more goroutines concurrently than there are CPUs. A daemon calls it once, at its
// start.
func SpareThreads() { runtime.GOMAXPROCS(runtime.NumCPU() + spareThreads) }

// TimeSlice is one handler's time slice. The zero value starts with the first call of Next.
type TimeSlice struct{ began time.Time }

// Next yields to other goroutines and threads if the time slice is used up. Call it now and then; it only reads the
// clock.
func (t *TimeSlice) Next() {
	if time.Since(t.began) < sliceLength {
		return
	}
	runtime.Gosched()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // it never fails
	t.began = time.Now()
}
