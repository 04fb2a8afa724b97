// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"slices"
)

// undo is a stack of steps back.
type undo []func() error

func (u *undo) push(f func() error) { *u = append(*u, f) }

// run goes back, last step first.
func (u *undo) run() error {
	var errs []error
	for _, f := range slices.Backward(*u) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}
