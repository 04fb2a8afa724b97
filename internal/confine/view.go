// SPDX-License-Identifier: Apache-2.0

package confine

// The file system as a service sees it: read-only, without users' files, temporary files, sockets of other daemons and
// the kernel's own trees; with a small private /tmp, and one directory for its socket. It is set up in the process's
// own mount namespace, so nothing else is affected and nothing is left when it ends.

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// masked are the directories that are empty for a service, or have the content described below.
var masked = []string{"/tmp", "/var/tmp", "/run", "/home", "/root", "/dev", "/proc", "/sys"}

// emptied are those that are just empty, and parts of /sys that only help attackers.
var emptied = []string{"/var/tmp", "/home", "/root", "/sys/fs", "/sys/kernel", "/sys/firmware", "/var/run"}

// devices are the remaining devices in /dev.
var devices = []string{"null", "zero", "full", "random", "urandom"}

// Where a service finds its directory, and the size of its /tmp.
const (
	viewDir = "/run/polycube-service"
	tmpSize = "size=16m,nr_inodes=4096,mode=1777"
	dark    = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
)

// enterView replaces the file system of the process. dir is a directory that stays, at viewDir.
func enterView(dir string, hidden []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// Opened before the path to it is hidden, and in this namespace, because a mount of another one cannot be bound.
	held, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("find the service's directory: %w", err)
	}
	own := fmt.Sprintf("/proc/self/fd/%d", held)
	if err := makeDev(); err != nil {
		return fmt.Errorf("create /dev: %w", err)
	}
	if err := makeRun(own); err != nil {
		return fmt.Errorf("create /run: %w", err)
	}
	for _, path := range append(append([]string{}, emptied...), hidden...) {
		if err := hide(path); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", dark&^unix.MS_RDONLY, "subset=pid"); err != nil {
		return fmt.Errorf("create /proc: %w", err)
	}
	lock := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &lock); err != nil {
		return fmt.Errorf("make everything read-only: %w", err)
	}
	for _, d := range devices {
		open := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(unix.AT_FDCWD, "/dev/"+d, 0, &open); err != nil {
			return fmt.Errorf("open /dev/%s: %w", d, err)
		}
	}
	open := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY, Attr_set: unix.MOUNT_ATTR_NOEXEC}
	if err := unix.MountSetattr(unix.AT_FDCWD, viewDir, 0, &open); err != nil {
		return fmt.Errorf("open %s: %w", viewDir, err)
	}
	if err := unix.Mount("tmpfs", "/tmp", "tmpfs", dark&^unix.MS_RDONLY, tmpSize); err != nil {
		return fmt.Errorf("create /tmp: %w", err)
	}
	return os.Chdir("/")
}

// hide empties a directory, if it exists.
func hide(path string) error {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if errors.Is(err, unix.ENOENT) || err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil // missing, or a link to a path that is hidden there
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", dark, "size=4k,mode=555"); err != nil {
		return fmt.Errorf("hide %s: %w", path, err)
	}
	return nil
}

// makeDev builds the new /dev in /tmp, because it is built from the old one.
func makeDev() error {
	if err := unix.Mount("tmpfs", "/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "size=64k,mode=755"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	for _, d := range devices {
		if err := os.WriteFile("/tmp/"+d, nil, 0o600); err != nil {
			return fmt.Errorf("create a mount point: %w", err)
		}
		if err := unix.Mount("/dev/"+d, "/tmp/"+d, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	// A script that is executed by descriptor is read through /dev/fd.
	err := errors.Join(os.Symlink("/proc/self/fd", "/tmp/fd"), os.Mkdir("/tmp/shm", 0o555))
	for i, name := range []string{"stdin", "stdout", "stderr"} {
		err = errors.Join(err, os.Symlink(fmt.Sprintf("/proc/self/fd/%d", i), "/tmp/"+name))
	}
	if err != nil {
		return fmt.Errorf("create a mount point: %w", err)
	}
	if err := unix.Mount("/tmp", "/dev", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move it: %w", err)
	}
	return nil
}

// makeRun creates a /run with only the service's directory.
func makeRun(own string) error {
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k,mode=755"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	if err := os.Mkdir(viewDir, 0o700); err != nil {
		return fmt.Errorf("create a mount point: %w", err)
	}
	if err := unix.Mount(own, viewDir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind-mount the service's directory: %w", err)
	}
	return nil
}
