// SPDX-License-Identifier: Apache-2.0

package repeat

import (
	"slices"
	"time"
)

// Times runs do several times, with the number of the run, and returns the median time and the longest.
func Times(runs int, do func(i int)) (median, longest time.Duration) {
	took := make([]time.Duration, runs)
	for i := range took {
		begin := time.Now()
		do(i)
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	return took[runs/2], took[runs-1]
}
