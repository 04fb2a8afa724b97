// SPDX-License-Identifier: Apache-2.0

// Package repeat provides the seeds of random tests, so that a failing one can be repeated.
package repeat

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Variable is the environment variable with the seed of a run to repeat.
const Variable = "POLYCUBE_SEED"

// Seed returns the seed of a test, a different one each time unless Variable sets it. A failing test prints how to
// repeat it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(Variable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s=%s: %v", Variable, text, err)
		}
	}
	t.Logf("%s=%d repeats it", Variable, seed)
	return seed
}
