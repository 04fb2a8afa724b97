// SPDX-License-Identifier: Apache-2.0

// Package undo records how to go back from steps that were done, so that a change is applied whole or
// not at all.
package undo

import (
	"errors"
	"slices"
)

// Stack is a stack of steps back.
type Stack []func() error

// Push adds the way back from a step that was done.
func (u *Stack) Push(f func() error) { *u = append(*u, f) }

// Run goes back, last step first.
func (u *Stack) Run() error {
	var errs []error
	for _, f := range slices.Backward(*u) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}
