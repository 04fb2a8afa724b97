// SPDX-License-Identifier: Apache-2.0

package cube

import (
	"errors"
	"slices"
)

// Undo is how the steps of a change are taken back, for a Commit of several: each step that was done
// is pushed, and Plan.Undo is its Run. A nil one keeps nothing.
type Undo struct {
	steps []func() error
}

// Push adds how a step is taken back.
func (u *Undo) Push(step func() error) {
	if u != nil {
		u.steps = append(u.steps, step)
	}
}

// Run takes back what was done, last first and each step once, and goes on after errors, which it
// returns together.
func (u *Undo) Run() error {
	var errs []error
	for _, step := range slices.Backward(u.steps) {
		errs = append(errs, step())
	}
	u.steps = nil
	return errors.Join(errs...)
}
