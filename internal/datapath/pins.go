// SPDX-License-Identifier: Apache-2.0

// What happens when the BPF file system takes no pins: a change that needs one is refused with
// what to do, and a pin that cannot be removed is removed later.

package datapath

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// temporary tells whether the machine had no room for something that it may have room for later.
func temporary(err error) bool {
	return slices.ContainsFunc([]error{unix.EROFS, unix.ENOMEM, unix.EMFILE, unix.ENFILE}, func(e error) bool { return errors.Is(err, e) })
}
