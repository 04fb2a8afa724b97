// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"runtime"
	"testing"
	"time"
)

func TestTimedAHandlerThatNeverPausesLetsOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one goroutine at a time
	ran := make(chan time.Duration, 1)
	start := time.Now()
	go func() { ran <- time.Since(start) }()
	var slice TimeSlice
	for time.Since(start) < 8*time.Millisecond { // the runtime stops it after 10
		slice.Next()
	}
	select {
	case <-ran:
	default:
		t.Error("the other goroutine did not run in 8 ms")
	}
}

func TestATimeSliceLastsAWhile(t *testing.T) {
	var slice TimeSlice
	slice.Next()
	began := slice.began
	if slice.Next(); began.IsZero() || slice.began != began && time.Since(began) < sliceLength {
		t.Errorf("a time slice that began at %v was over at %v", began, slice.began)
	}
}
