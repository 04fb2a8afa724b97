// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/bpffs"
)

// What happens when the BPF file system takes no pins: a change that needs one is refused with what to do.

// Unpinned puts what to do in place of the error of a pin that cannot be made.
func Unpinned(dir string, err error) error {
	if !errors.Is(err, unix.EROFS) {
		return err
	}
	return &pinError{bpffs.ReadOnly(dir), err}
}

// pinError says what to do, and not which of the pins could not be made.
type pinError struct {
	*bpffs.ReadOnlyError
	cause error
}

func (e *pinError) Error() string { return e.ReadOnlyError.Error() + ": " + e.Remedy() }

func (e *pinError) Unwrap() []error { return []error{e.ReadOnlyError, cube.ErrUnavailable, e.cause} }
