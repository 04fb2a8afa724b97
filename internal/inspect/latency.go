// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// latency counts durations by the power of two of their microseconds.
type latency struct{ of [32]atomic.Uint64 }

// add adds a duration.
func (l *latency) add(d time.Duration) {
	us := max(0, d).Microseconds()
	l.of[min(bits.Len64(uint64(us)), len(l.of)-1)].Add(1)
}

// quantile is a duration below which a part of all are: the upper end of its power of two.
func (l *latency) quantile(part float64) time.Duration {
	var sum, at uint64
	for i := range l.of {
		sum += l.of[i].Load()
	}
	for i := range l.of {
		if at += l.of[i].Load(); sum > 0 && float64(at) >= part*float64(sum) {
			return time.Duration(uint64(1)<<i) * time.Microsecond
		}
	}
	return 0
}
