// SPDX-License-Identifier: Apache-2.0

// Package undo records how to undo completed steps, so that a change is applied whole or not at all.
package undo

import (
	"errors"
	"slices"
)

// Stack is a stack of undo functions.
type Stack []func() error

// Push adds the function that undoes a completed step.
func (u *Stack) Push(f func() error) { *u = append(*u, f) }

// Run undoes the steps, last step first.
func (u *Stack) Run() error {
	var errs []error
	for _, f := range slices.Backward(*u) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}
