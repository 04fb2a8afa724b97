// SPDX-License-Identifier: Apache-2.0

package repeat

import (
	"slices"
	"testing"
	"time"
)

func TestShrinkFindsTheTwoThatMatter(t *testing.T) {
	var ops []int
	for i := range 100 {
		ops = append(ops, i)
	}
	fails := func(some []int) bool { return slices.Contains(some, 17) && slices.Contains(some, 83) }
	if got := Shrink(ops, time.Now().Add(time.Minute), fails); !slices.Equal(got, []int{17, 83}) {
		t.Errorf("shrunk to %v", got)
	}
	if got := Shrink(ops, time.Now(), fails); len(got) != len(ops) {
		t.Errorf("without time, %d operations are left", len(got))
	}
}
