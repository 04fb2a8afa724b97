// SPDX-License-Identifier: Apache-2.0

// A long sequence of operations that fails is made short: A. Zeller, R. Hildebrandt, "Simplifying and isolating
// failure-inducing input", 2002.

package repeat

import "time"

// Shrink removes operations as long as the rest still fails, until no half, quarter, ... or single one can be removed,
// or the time is over.
func Shrink[O any](ops []O, until time.Time, fails func([]O) bool) []O {
	for size := len(ops) / 2; size > 0; {
		shorter := false
		// Later operations are removed last, because the failure is at the end of the sequence.
		for at := 0; at+size <= len(ops); {
			if !time.Now().Before(until) {
				return ops
			}
			rest := append(append([]O{}, ops[:at]...), ops[at+size:]...)
			if fails(rest) {
				ops, shorter = rest, true
			} else {
				at += size
			}
		}
		if !shorter || size > len(ops) {
			size /= 2
		}
	}
	return ops
}
