// SPDX-License-Identifier: Apache-2.0

// Waiting for a condition, never for a time.

package netns

import (
	"testing"
	"time"
)

const (
	pollInterval = 10 * time.Millisecond
	// pollSlowly is the maximum interval of Eventually: a long wait takes less and less CPU time from other tests.
	pollSlowly = 100 * time.Millisecond
)

// Eventually calls fn until it returns nil, and ends the test with fn's last error when within has passed.
func Eventually(t testing.TB, within time.Duration, fn func() error) {
	t.Helper()
	start, pause := time.Now(), pollInterval
	for {
		err := fn()
		if err == nil {
			return
		}
		if time.Since(start) > within {
			t.Fatalf("not within %v: %v", within, err)
		}
		time.Sleep(pause)
		pause = min(pause+pause/4, pollSlowly)
	}
}
