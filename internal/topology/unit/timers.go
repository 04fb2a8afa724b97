// SPDX-License-Identifier: Apache-2.0

package unit

// Timers of cubes. When a timer expires, its call is queued in the cube's mailbox with other events, so a cube's code
// needs no lock against its own timers. While the call waits or runs, the timer does not queue another.

import (
	"sync"
	"sync/atomic"
	"time"
)

// minPeriod is the shortest period of a timer.
const minPeriod = time.Millisecond

// timers are those of one unit.
type timers struct {
	mu     sync.Mutex
	ended  bool
	active map[*timer]bool
}

// timer is one timer of a cube.
type timer struct {
	u      *Unit
	fn     func()
	period time.Duration // 0: once
	next   time.Time
	// waiting is set while a call is in the mailbox or runs.
	waiting atomic.Bool
	stopped atomic.Bool
	clock   *time.Timer // under timers.mu
}

// start starts a timer. The cube's turn is not needed.
func (u *Unit) start(d time.Duration, repeat bool, fn func()) (stop func()) {
	d = max(d, minPeriod)
	t := &timer{u: u, fn: fn, next: time.Now().Add(d)}
	if repeat {
		t.period = d
	}
	u.timers.mu.Lock()
	defer u.timers.mu.Unlock()
	if u.timers.ended {
		return func() {}
	}
	if u.timers.active == nil {
		u.timers.active = map[*timer]bool{}
	}
	u.timers.active[t] = true
	t.clock = time.AfterFunc(d, t.due)
	return t.stop
}

// due queues the call in the mailbox, and sets the clock again.
func (t *timer) due() {
	if t.waiting.CompareAndSwap(false, true) {
		t.u.mail.post(Task{What: "timer", Run: t.call, Dropped: func() { t.waiting.Store(false) }})
	}
	t.u.timers.mu.Lock()
	defer t.u.timers.mu.Unlock()
	switch {
	case t.u.timers.ended || t.stopped.Load():
	case t.period == 0:
		delete(t.u.timers.active, t)
	default:
		// Periods that have already passed are skipped, the others stay on schedule.
		if t.next = t.next.Add(t.period); time.Until(t.next) < 0 {
			t.next = time.Now().Add(t.period)
		}
		t.clock.Reset(time.Until(t.next))
	}
}

// call runs in the cube's turn.
func (t *timer) call() {
	defer t.waiting.Store(false)
	if !t.stopped.Load() {
		t.fn()
	}
}

func (t *timer) stop() {
	t.stopped.Store(true)
	t.u.timers.mu.Lock()
	defer t.u.timers.mu.Unlock()
	t.clock.Stop()
	delete(t.u.timers.active, t)
}

// stop ends all timers permanently.
func (ts *timers) stop() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.ended = true
	for t := range ts.active {
		t.stopped.Store(true)
		t.clock.Stop()
	}
	ts.active = nil
}
