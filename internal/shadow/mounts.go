// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// The name of a namespace is a mount. A daemon in a separate mount namespace (as a service manager creates for
// hardened services) sees the machine's mounts, but not the other way round: `ip netns` would not find a cube's
// namespace. So names are created in the machine's mount namespace.

// atNames runs fn where names are created. fn must do all its work on the calling goroutine.
func (k *Keeper) atNames(fn func() error) error {
	if k.o.Mounts == "" {
		return fn()
	}
	result := make(chan error, 1)
	go func() { result <- k.onOwnThread(fn) }()
	return <-result
}

// onOwnThread leaves its thread locked, so that it ends with the goroutine: it no longer shares its file system state
// with the others. The first thread of the process cannot end; while it waits here, the next goroutine is on another.
func (k *Keeper) onOwnThread(fn func() error) error {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		defer runtime.UnlockOSThread()
		result := make(chan error, 1)
		go func() { result <- k.onOwnThread(fn) }()
		return <-result
	}
	if err := enterMounts(k.o.Mounts); err != nil {
		return fmt.Errorf("shadow: %w", err)
	}
	return fn()
}

// enterMounts moves the calling thread to a mount namespace.
func enterMounts(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("mount namespace: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	// Root and working directory are shared with the process until a thread unshares them.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("mount namespace %s: a thread of its own: %w", path, err)
	}
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("mount namespace %s: %w", path, err)
	}
	return nil
}
