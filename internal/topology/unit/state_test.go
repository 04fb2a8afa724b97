// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"math"
	"testing"
)

func TestStateIsAnObject(t *testing.T) {
	if _, err := encodeState(math.Inf(1)); err == nil {
		t.Error("what JSON cannot hold is accepted")
	}
	if _, err := encodeState([]int{1}); err == nil {
		t.Error("an array is accepted as the state of a cube")
	}
}
