// SPDX-License-Identifier: Apache-2.0

// Package nsname gives network namespaces names for `ip netns`, and removes them. A name is a file with the namespace
// mounted on it.
package nsname

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Dir is the directory of `ip netns`.
const Dir = "/run/netns"

// Add mounts the namespace of a file on path, which must not exist.
func Add(path, namespace string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if dir == Dir {
		if err := share(dir); err != nil {
			return err
		}
	}
	name, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o444)
	if err != nil {
		return err
	}
	_ = name.Close() // nothing was written
	if err := unix.Mount(namespace, path, "", unix.MS_BIND, ""); err != nil {
		return errors.Join(fmt.Errorf("bind mount on %s: %w", path, err), os.Remove(path))
	}
	return nil
}

// Remove removes a name; the namespace continues to exist while it is in use. It is not an error if the name is
// already gone.
func Remove(path string) error {
	err := unix.Unmount(path, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) { // EINVAL: nothing is mounted there
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// share makes the directory a mount that is shared with other mount namespaces, like the first `ip netns add` after a
// boot. If that comes second, it mounts a copy of all names over the existing ones: each is then mounted twice, and
// the hidden one keeps it from being removed until the next boot.
func share(dir string) error {
	if mounted, err := isMount(dir); mounted || err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // nothing was written
	// The lock that `ip netns` also takes.
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	if mounted, err := isMount(dir); mounted || err != nil {
		return err
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind mount of %s: %w", dir, err)
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share the mount of %s: %w", dir, err)
	}
	return nil
}

// isMount reports whether something is mounted on the directory.
func isMount(dir string) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, 0, 0, &st); err != nil {
		return false, fmt.Errorf("look at %s: %w", dir, err)
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}
