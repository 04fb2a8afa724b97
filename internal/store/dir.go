// SPDX-License-Identifier: Apache-2.0

// The directory of a store is accessed through one descriptor, and no symbolic link on the path to it or in it is
// followed: a daemon that runs as root must not write where another user points.

package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const lockName = "lock"

// ErrLocked is the kind of every LockedError.
var ErrLocked = errors.New("the store is in use")

// LockedError says which process owns the store. PID is 0 when the owner has not written it yet.
type LockedError struct {
	Dir string
	PID int
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("store %s: in use by process %d", e.Dir, e.PID)
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// dir is an open directory. fault, if set, is called before each operation and may refuse it; tests use it to stop
// between any two steps.
type dir struct {
	f     *os.File
	path  string
	fault func(op, name string) error
}

func (d *dir) check(op, name string) error {
	if d.fault == nil {
		return nil
	}
	return d.fault(op, name)
}

// openDir opens path, creating what is missing of it with mode 0700.
func openDir(path string) (*dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", path, err)
	}
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open("/", flags, 0)
	if err != nil {
		return nil, fmt.Errorf("store %s: open /: %w", path, err)
	}
	for _, name := range strings.Split(strings.Trim(abs, "/"), "/") {
		if name == "" {
			continue
		}
		next, err := openOrMake(fd, name, flags)
		_ = unix.Close(fd) // only read from
		if err != nil {
			return nil, fmt.Errorf("store %s: directory %q: %w", path, name, err)
		}
		fd = next
	}
	d := &dir{f: os.NewFile(uintptr(fd), abs), path: abs}
	if err := d.makePrivate(); err != nil {
		d.f.Close()
		return nil, err
	}
	return d, nil
}

func openOrMake(parent int, name string, flags int) (int, error) {
	fd, err := unix.Openat(parent, name, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		if err := unix.Mkdirat(parent, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return -1, err
		}
		if err := unix.Fsync(parent); err != nil {
			return -1, err
		}
		fd, err = unix.Openat(parent, name, flags, 0)
	}
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return -1, fmt.Errorf("is a symbolic link or not a directory, give the resolved path: %w", err)
	}
	return fd, err
}

// makePrivate makes the directory accessible only to its owner. It refuses to change one that is not a store's: a
// mistyped path must not close /etc to everyone.
func (d *dir) makePrivate() error {
	var st unix.Stat_t
	if err := unix.Fstat(int(d.f.Fd()), &st); err != nil {
		return fmt.Errorf("store %s: %w", d.path, err)
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("store %s: owned by user %d, not by %d", d.path, st.Uid, os.Geteuid())
	}
	if st.Mode&0o077 == 0 {
		return nil
	}
	names, err := d.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, _, ok := parseName(name); !ok && name != lockName && !strings.HasSuffix(name, tmpSuffix) {
			return fmt.Errorf("store %s: readable by others, and contains %q: give a separate directory", d.path, name)
		}
	}
	if err := d.f.Chmod(0o700); err != nil {
		return fmt.Errorf("store %s: %w", d.path, err)
	}
	return nil
}

func (d *dir) names() ([]string, error) {
	if _, err := d.f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("store %s: %w", d.path, err)
	}
	names, err := d.f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", d.path, err)
	}
	return names, nil
}

// open opens a regular file of the directory. O_NONBLOCK: a FIFO with this name must not block the daemon.
func (d *dir) open(name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(d.f.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", filepath.Join(d.path, name), err)
	}
	f := os.NewFile(uintptr(fd), filepath.Join(d.path, name))
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("open %s: not a regular file", f.Name())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (d *dir) read(name string) ([]byte, error) {
	f, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := make([]byte, st.Size())
	_, err = io.ReadFull(f, b)
	return b, err
}

// create creates a new file with these bytes, durably; its name is durable after syncDir.
func (d *dir) create(name string, b []byte) (*os.File, error) {
	if err := d.check("create", name); err != nil {
		return nil, err
	}
	f, err := d.open(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return nil, err
	}
	if err = d.check("write", name); err == nil {
		_, err = f.Write(b)
	}
	if err == nil {
		err = d.sync(f, name)
	}
	if err != nil {
		f.Close()
		return nil, errors.Join(err, d.remove(name))
	}
	return f, nil
}

func (d *dir) sync(f *os.File, name string) error {
	if err := d.check("sync", name); err != nil {
		return err
	}
	return f.Sync()
}

func (d *dir) syncDir() error {
	if err := d.check("syncdir", ""); err != nil {
		return err
	}
	return d.f.Sync()
}

func (d *dir) rename(from, to string) error {
	if err := d.check("rename", to); err != nil {
		return err
	}
	if err := unix.Renameat(int(d.f.Fd()), from, int(d.f.Fd()), to); err != nil {
		return fmt.Errorf("rename %s to %s: %w", from, to, err)
	}
	return nil
}

func (d *dir) remove(name string) error {
	if err := d.check("remove", name); err != nil {
		return err
	}
	if err := unix.Unlinkat(int(d.f.Fd()), name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s: %w", filepath.Join(d.path, name), err)
	}
	return nil
}

// unlock releases the lock. Closing it is not enough: a process that is being started has the descriptor for a moment.
func unlock(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// lock locks the store for this process. The kernel releases the lock with the descriptor, so a killed owner leaves
// nothing behind.
func (d *dir) lock() (*os.File, error) {
	f, err := d.open(lockName, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		b, _ := io.ReadAll(io.LimitReader(f, 32))
		pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		err = &LockedError{Dir: d.path, PID: pid}
	} else if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		// Only a hint for LockedError: on a full disk the lock works without it.
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		return f, nil
	}
	f.Close()
	return nil, err
}
