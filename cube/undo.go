// SPDX-License-Identifier: Apache-2.0

package cube

import (
	"errors"
	"slices"
)

// Undo takes back what was done in several steps: the reverse of each is pushed when it is done, and
// Run runs them. A nil Undo keeps nothing.
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
