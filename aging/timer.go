// SPDX-License-Identifier: Apache-2.0

package aging

import "time"

// Clock calls a function again and again, in turn with the other calls of a cube, until stop is called. It is a part of
// cube.Env.
type Clock interface {
	Every(period time.Duration, call func()) (stop func())
}

// Timer calls the sweep of a table. The zero value does not run.
type Timer struct {
	period time.Duration
	stop   func()
}

// Every sets the period, and the sweep when the timer does not run yet. A period that stays keeps its beat.
func (t *Timer) Every(c Clock, period time.Duration, sweep func()) {
	if t.stop != nil && period == t.period {
		return
	}
	t.Stop()
	t.period, t.stop = period, c.Every(period, sweep)
}

// Stop ends the calls.
func (t *Timer) Stop() {
	if t.stop != nil {
		t.stop()
	}
	*t = Timer{}
}
