// SPDX-License-Identifier: Apache-2.0

package aging

import "time"

// Age is the time since then. It is 0 when then is later: a packet may be newer than now.
func Age(now, then uint64) time.Duration { return max(0, time.Duration(int64(now-then))) }

// Aged tells whether what was last seen then is older than a limit. A limit of 0 is for ever.
func Aged(now, then uint64, limit time.Duration) bool { return limit > 0 && Age(now, then) > limit }

// Later tells whether a is after b. Times are compared by their difference, as in programs: one from before the machine
// booted, which tests plant, is a large number.
func Later(a, b uint64) bool { return int64(a-b) > 0 }

// Refresh is how old the time of the last packet may be before programs write it again: a tenth of the limit, so that an
// entry in use is not taken for an aged one, and a second at most. It is the last argument of pcn_refresh_due.
func Refresh(limit time.Duration) time.Duration {
	if limit == 0 {
		return time.Second
	}
	return min(time.Second, limit/10)
}

// Limits of the time between two sweeps: a full table takes new entries only after a sweep, and a large one takes
// milliseconds to seconds to read.
const (
	minPeriod = time.Second
	maxPeriod = 10 * time.Second
)

// Period is the time between two sweeps of a table whose entries age after a limit.
func Period(limit time.Duration) time.Duration {
	if limit == 0 {
		return maxPeriod
	}
	return min(max(limit/4, minPeriod), maxPeriod)
}
