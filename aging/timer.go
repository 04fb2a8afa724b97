// SPDX-License-Identifier: Apache-2.0

package aging

import "time"

// Clock calls a function periodically, in turn with the other calls of a cube, until stop is called. It is a part of
// cube.Env.
type Clock interface {
	Every(period time.Duration, call func()) (stop func())
}

// Timer calls the sweep of a table periodically. The zero value is stopped.
type Timer struct {
	period time.Duration
	stop   func()
}

// Every sets the period, and the sweep if the timer is stopped. An unchanged period keeps its phase.
func (t *Timer) Every(c Clock, period time.Duration, sweep func()) {
	if t.stop != nil && period == t.period {
		return
	}
	t.Stop()
	t.period, t.stop = period, c.Every(period, sweep)
}

// Stop stops the timer.
func (t *Timer) Stop() {
	if t.stop != nil {
		t.stop()
	}
	*t = Timer{}
}
