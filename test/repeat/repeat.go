// SPDX-License-Identifier: Apache-2.0

// Package repeat is where random tests get their seed from, so that one that fails can be repeated.
package repeat

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Variable is the environment variable with the seed of a run that is to be repeated.
const Variable = "POLYCUBE_SEED"

// Seed returns the seed of a test, another one each time unless Variable has it. A test that fails says how it is repeated.
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
