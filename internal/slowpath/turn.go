// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// A handler that works without a pause must not keep others from theirs: neither the runtime,
// which lets a goroutine run for 10 ms, nor the kernel, which lets a thread run for some ms, gives
// a packet for a quiet cube its turn in time.

// turnLength is how long one handler works before others have their turn.
const turnLength = 200 * time.Microsecond

// spareThreads are threads for goroutines beyond one for each CPU, so that one that becomes ready
// is the kernel's to schedule and does not wait until another blocks.
const spareThreads = 6 // fewer, and p99 of a quiet cube beside a flooded one is some ms now and then

// SpareThreads lets the process run more goroutines at once than there are CPUs. A daemon calls it
// once, at its start.
func SpareThreads() { runtime.GOMAXPROCS(runtime.NumCPU() + spareThreads) }

// Turn is one handler's. The zero value begins with the first call of Next.
type Turn struct{ began time.Time }

// Next gives way to other goroutines and threads if the turn has lasted long enough. Call it every
// now and then; it costs a look at the clock.
func (t *Turn) Next() {
	if time.Since(t.began) < turnLength {
		return
	}
	runtime.Gosched()
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // it never fails
	t.began = time.Now()
}
