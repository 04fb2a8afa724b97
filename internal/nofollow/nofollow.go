// SPDX-License-Identifier: Apache-2.0

// Package nofollow opens files for writing by their given name, and never through a symbolic link: otherwise, another
// user could redirect root's output to a file of their choice.
package nofollow

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Open is os.OpenFile for a path that must not be a symbolic link.
func Open(path string, flags int, perm os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s is a symbolic link, which is not followed: give the path of its target", path)
	}
	return f, err
}
