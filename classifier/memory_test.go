// SPDX-License-Identifier: Apache-2.0

package classifier

import (
	"errors"
	"testing"

	"github.com/polycube/polycube/cube"
)

// TestASetOfAnotherCubeIsRefused: the number after a cube's last set is that of the next cube's first one.
func TestASetOfAnotherCubeIsRefused(t *testing.T) {
	plan, err := New(nil, setsOfCube).Prepare(nil)
	if err == nil {
		err = cube.Carry(plan.Before, nil)
	}
	if !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("the error is %v, want %v", err, cube.ErrInvalid)
	}
}
