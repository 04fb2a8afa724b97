// SPDX-License-Identifier: Apache-2.0

// Package bpffs detects problems of the file system in which programs and maps are pinned: for errors of the data
// plane, and for the daemon's status.
package bpffs

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ReadOnlyError is the error for a read-only file system, in which nothing can be pinned or removed.
type ReadOnlyError struct{ dir string }

// ReadOnly returns the error for pins below a directory.
func ReadOnly(dir string) *ReadOnlyError { return &ReadOnlyError{dir} }

func (e *ReadOnlyError) Error() string {
	return fmt.Sprintf("nothing can be pinned in %s, its BPF file system is read-only", e.dir)
}

// Remedy is the command that makes the file system writable.
func (e *ReadOnlyError) Remedy() string { return "mount -o remount,rw " + mountPoint(e.dir) }

// Check returns a ReadOnlyError if nothing can be pinned in a directory.
func Check(dir string) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("check %s: %w", dir, err)
	}
	if fs.Flags&unix.ST_RDONLY != 0 {
		return ReadOnly(dir)
	}
	return nil
}

// mountPoint is the mount point of the file system of a directory.
func mountPoint(dir string) string {
	number := func(at string) uint64 {
		var st unix.Stat_t
		_ = unix.Stat(at, &st) // 0 is no file system's
		return st.Dev
	}
	for above := filepath.Dir(dir); above != dir && number(above) == number(dir); above = filepath.Dir(dir) {
		dir = above
	}
	return dir
}
