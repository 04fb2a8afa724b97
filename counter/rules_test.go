// SPDX-License-Identifier: Apache-2.0

package counter

import (
	"errors"
	"testing"

	"github.com/polycube/polycube/cube"
)

// TestCountersOfAnotherCubeAreRefused: the number after a cube's last list of rules is that of the next cube's first one.
func TestCountersOfAnotherCubeAreRefused(t *testing.T) {
	if err := NewRules(nil, setsOfCube).Open(); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("the error is %v, want %v", err, cube.ErrInvalid)
	}
}
