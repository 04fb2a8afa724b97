// SPDX-License-Identifier: Apache-2.0

package aging

import "time"

// Age is the time since then. It is 0 if then is later: a packet may be newer than now.
func Age(now, then uint64) time.Duration { return max(0, time.Duration(int64(now-then))) }

// Aged reports whether something last seen at then is older than a limit. A limit of 0 means never.
func Aged(now, then uint64, limit time.Duration) bool { return limit > 0 && Age(now, then) > limit }

// Later reports whether a is after b. Times are compared by their difference, as in programs: a time from before the
// machine booted, which tests use, is a large number.
func Later(a, b uint64) bool { return int64(a-b) > 0 }

// Refresh is how old the time of the last packet may be before programs update it: a tenth of the limit, so that an
// entry in use does not expire, and at most a second. It is the last argument of pcn_refresh_due.
func Refresh(limit time.Duration) time.Duration {
	if limit == 0 {
		return time.Second
	}
	return min(time.Second, limit/10)
}

// Limits of the interval between two sweeps: a full table accepts new entries only after a sweep, and reading a large
// one takes milliseconds to seconds.
const (
	minPeriod = time.Second
	maxPeriod = 10 * time.Second
)

// Period is the interval between two sweeps of a table whose entries expire after a limit.
func Period(limit time.Duration) time.Duration {
	if limit == 0 {
		return maxPeriod
	}
	return min(max(limit/4, minPeriod), maxPeriod)
}
