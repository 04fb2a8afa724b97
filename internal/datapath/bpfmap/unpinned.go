// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/bpffs"
)

// If nothing can be pinned in the BPF file system, changes that need a pin are refused with an error that says what to do.

// Unpinned replaces the error of a failed pin by one that says what to do.
func Unpinned(dir string, err error) error {
	if !errors.Is(err, unix.EROFS) {
		return err
	}
	return &pinError{bpffs.ReadOnly(dir), err}
}

// pinError says what to do, not which pin failed.
type pinError struct {
	*bpffs.ReadOnlyError
	cause error
}

func (e *pinError) Error() string { return e.ReadOnlyError.Error() + ": " + e.Remedy() }

func (e *pinError) Unwrap() []error { return []error{e.ReadOnlyError, cube.ErrUnavailable, e.cause} }
