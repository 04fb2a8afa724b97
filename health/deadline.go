// SPDX-License-Identifier: Apache-2.0

package health

// A failed server is down within Fall intervals, even if it is silent and its checks end by their timeouts alone. After the
// start of the last successful check, the next ones start one interval later, two, and so on. The last one would start when
// it has to have failed already, so it starts earlier, by its timeout. If the timeout is longer than half an interval, the
// last two checks share one:
//
//	Fall 3, timeout    ok            fails         fails    fails: down
//	0.3 intervals      |-------------|===----------|===-----|===|
//	0.9 intervals      |-------------|============-|=====---|===|
//	                   0             1             2            3 intervals
//
// The times of healthy servers stay as they are, except with Fall 1, where any check may be the last.

import "time"

// slack is how much longer than its timeout a check may occupy: it starts and ends with a tick of the wheel, up to one
// late each, and half a tick is for the thread.
const slack = 2*tick + tick/2

// falling is how many more failures in a row make the server down; 0 if it is down.
func (s *server) falling() int {
	switch {
	case s.judge.status == Down:
		return 0
	case !s.judge.decided:
		return 1
	}
	return s.check.Fall - s.judge.streak
}

// allowForDelay moves the deadline if a check starts late, because this host was busy or asleep: the server gets no less time
// between its checks for it.
func (s *server) allowForDelay(now time.Duration) {
	if over := now - s.due; over > slack {
		s.good += over
	}
}

// lastStart is when a check has to be due to end within Fall intervals after the last successful check.
func (s *server) lastStart() time.Duration {
	return s.good + time.Duration(s.check.Fall)*s.check.Interval - s.check.short() - slack
}

// patience is the timeout of the next check. Servers that are down get the same as those that are up, or they would not
// stay up.
func (s *server) patience() time.Duration {
	if left := s.falling(); s.check.Fall <= 2 || s.judge.decided && (left == 1 || left == 2) {
		return s.check.short()
	}
	return min(s.check.Timeout, s.check.Interval-slack)
}

// short is the timeout of the last two checks.
func (p *prepared) short() time.Duration { return min(p.Timeout, p.Interval/2-slack) }
