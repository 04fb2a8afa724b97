// SPDX-License-Identifier: Apache-2.0

package counter

import (
	"errors"
	"testing"

	"github.com/polycube/polycube/cube"
)

// TestListsOfOtherNumbersAreRefused: they would have the memory of another list.
func TestListsOfOtherNumbersAreRefused(t *testing.T) {
	if err := NewRules(nil, maxSets).Open(); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("the error is %v, want %v", err, cube.ErrInvalid)
	}
}

// numbered is a cube with a number.
type numbered struct {
	cube.Env
	instance uint16
}

func (e numbered) Instance() uint16 { return e.instance }

// TestEachListHasCountersOfItsOwn: also the last lists of the cubes with the lowest and the highest numbers.
func TestEachListHasCountersOfItsOwn(t *testing.T) {
	seen := map[uint32][2]uint32{}
	for _, instance := range []uint16{0, 1, 2, 4095, 65534, 65535} {
		for number := range uint32(maxSets) {
			set := NewRules(numbered{instance: instance}, number).set()
			if was, is := seen[set]; is {
				t.Fatalf("list %d of cube %d is that of %v", number, instance, was)
			}
			seen[set] = [2]uint32{uint32(instance), number}
		}
	}
	if set := NewRules(numbered{instance: 3}, 5).set(); set != 3*setsOfCube+5 {
		t.Errorf("the first lists have other numbers than before: %d", set)
	}
}
