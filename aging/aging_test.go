// SPDX-License-Identifier: Apache-2.0

package aging

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestAges(t *testing.T) {
	now := uint64(time.Hour)
	const boot = 1<<64 - 10 // before the machine booted
	for _, tt := range []struct {
		name      string
		now, then uint64
		limit     time.Duration
		age       time.Duration
		aged      bool
	}{
		{"just seen", now, now, time.Second, 0, false},
		{"as old as may be", now, now - uint64(time.Second), time.Second, time.Second, false},
		{"older", now, now - uint64(time.Second) - 1, time.Second, time.Second + 1, true},
		{"older, but nothing ages", now, 0, 0, time.Hour, false},
		{"seen later, by another clock tick", now, now + 1, time.Second, 0, false},
		{"seen before the machine booted", 5, boot, 10, 15, true},
	} {
		if age, aged := Age(tt.now, tt.then), Aged(tt.now, tt.then, tt.limit); age != tt.age || aged != tt.aged {
			t.Errorf("%s: age is %v, aged is %v, want %v and %v", tt.name, age, aged, tt.age, tt.aged)
		}
	}
	if !Later(5, boot) || Later(boot, 5) || Later(now, now) {
		t.Error("times are not ordered by their difference")
	}
}

func TestPeriodsFollowTheLimit(t *testing.T) {
	for limit, want := range map[time.Duration]struct{ refresh, period time.Duration }{
		0:                      {time.Second, 10 * time.Second},
		time.Second:            {100 * time.Millisecond, time.Second},
		2 * time.Second:        {200 * time.Millisecond, time.Second},
		20 * time.Second:       {time.Second, 5 * time.Second},
		time.Hour:              {time.Second, 10 * time.Second},
		100 * time.Millisecond: {10 * time.Millisecond, time.Second},
	} {
		if r, p := Refresh(limit), Period(limit); r != want.refresh || p != want.period {
			t.Errorf("with a limit of %v, times are written again after %v and tables swept every %v, want %v", limit, r, p, want)
		}
	}
}

// clock records the timers that were started and stopped.
type clock []string

func (c *clock) Every(period time.Duration, call func()) func() {
	*c = append(*c, fmt.Sprint("begin ", period))
	call()
	return func() { *c = append(*c, fmt.Sprint("end ", period)) }
}

func TestATimerWithTheSamePeriodKeepsItsBeat(t *testing.T) {
	var c clock
	var timer Timer
	swept := 0
	timer.Stop()
	for _, period := range []time.Duration{time.Second, time.Second, time.Minute} {
		timer.Every(&c, period, func() { swept++ })
	}
	timer.Stop()
	timer.Stop()
	timer.Every(&c, time.Minute, func() { swept++ })
	want := []string{"begin 1s", "end 1s", "begin 1m0s", "end 1m0s", "begin 1m0s"}
	if !slices.Equal(c, want) || swept != 3 {
		t.Errorf("%d sweeps, timers %q, want 3 and %q", swept, []string(c), want)
	}
}
