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
	var turn Turn
	for time.Since(start) < 8*time.Millisecond { // the runtime takes the turn away after 10
		turn.Next()
	}
	select {
	case <-ran:
	default:
		t.Error("the other goroutine did not run in 8 ms")
	}
}

func TestATurnLastsAWhile(t *testing.T) {
	var turn Turn
	turn.Next()
	began := turn.began
	if turn.Next(); began.IsZero() || turn.began != began && time.Since(began) < turnLength {
		t.Errorf("a turn that began at %v was over at %v", began, turn.began)
	}
}
