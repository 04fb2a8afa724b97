// SPDX-License-Identifier: Apache-2.0

package cube

import (
	"errors"
	"slices"
)

// Undo reverses several steps: the reverse of each is pushed when it is done, and Run runs them. A nil Undo records
// nothing.
type Undo struct {
	steps []func() error
}

// Push adds the reverse of a step.
func (u *Undo) Push(step func() error) {
	if u != nil {
		u.steps = append(u.steps, step)
	}
}

// Run reverses the steps, last first and each once, and continues after errors, which it returns together.
func (u *Undo) Run() error {
	var errs []error
	for _, step := range slices.Backward(u.steps) {
		errs = append(errs, step())
	}
	u.steps = nil
	return errors.Join(errs...)
}
