// SPDX-License-Identifier: Apache-2.0

package cube_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/polycube/polycube/cube"
)

func TestStepsAreTakenBackLastFirst(t *testing.T) {
	var done []string
	step := func(name string, err error) func() error {
		return func() error { done = append(done, name); return err }
	}
	broken := errors.New("broken")
	var u cube.Undo
	u.Push(step("first", nil))
	u.Push(step("second", broken))
	u.Push(step("third", nil))
	if err := u.Run(); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	if want := []string{"third", "second", "first"}; !slices.Equal(done, want) {
		t.Errorf("taken back: %v, want %v", done, want)
	}
	if err := u.Run(); err != nil || len(done) != 3 {
		t.Errorf("once more: %v, %v", done, err)
	}
	var none *cube.Undo
	none.Push(step("never", nil))
	if len(done) != 3 {
		t.Errorf("done: %v", done)
	}
}
