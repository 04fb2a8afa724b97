// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestLinesOfManyWritersStayWhole(t *testing.T) {
	const writers, lines = 8, 200
	var b Buffer
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := range lines {
				fmt.Fprintf(&b, "writer %d line %d\n", w, n)
				if !strings.Contains(b.String(), fmt.Sprintf("writer %d line %d\n", w, n)) {
					t.Errorf("line %d of writer %d is not there", n, w)
				}
			}
		})
	}
	wg.Wait()
	if got := strings.Count(b.String(), "\n"); got != writers*lines {
		t.Errorf("%d lines, want %d", got, writers*lines)
	}
}
