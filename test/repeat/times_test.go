// SPDX-License-Identifier: Apache-2.0

package repeat

import "testing"

func TestTimesNumbersItsRuns(t *testing.T) {
	sum := 0
	median, longest := Times(5, func(i int) { sum += i })
	if sum != 10 || median > longest {
		t.Errorf("the numbers add up to %d; median %v, longest %v", sum, median, longest)
	}
}
