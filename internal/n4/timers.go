// SPDX-License-Identifier: Apache-2.0

package n4

// Timers of the goroutine that owns the state. A timer is not stopped: what it calls checks whether something is due.

import (
	"container/heap"
	"time"

	"golang.org/x/sys/unix"
)

type timer struct {
	at   time.Time
	call func()
}

// timers is a heap, the earliest first.
type timers []timer

// Len, Less, Swap, Push and Pop are those of heap.Interface.
func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t timers) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)        { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	last := len(*t) - 1
	is := (*t)[last]
	(*t)[last] = timer{}
	*t = (*t)[:last]
	return is
}

// after calls a function in the goroutine that owns the state.
func (s *endpoint) after(d time.Duration, call func()) { s.at(time.Now().Add(d), call) }

func (s *endpoint) at(when time.Time, call func()) { heap.Push(&s.timers, timer{when, call}) }

// maxDue is the number of timers between two batches, so that messages get their turn.
const maxDue = 1024

// runTimers calls what is due.
func (s *endpoint) runTimers() {
	now := time.Now()
	for range maxDue {
		if len(s.timers) == 0 || s.timers[0].at.After(now) {
			return
		}
		heap.Pop(&s.timers).(timer).call()
	}
}

// untilNext is the time until the next timer.
func (s *endpoint) untilNext() time.Duration {
	if len(s.timers) == 0 {
		return time.Hour
	}
	return max(0, time.Until(s.timers[0].at))
}

// monotonic is the clock of packets in the data plane.
func monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0 // it has no error on Linux
	}
	return time.Duration(now.Nano())
}

// wall returns the time of day of a packet.
func wall(packet time.Duration) time.Time { return time.Now().Add(packet - monotonic()) }
