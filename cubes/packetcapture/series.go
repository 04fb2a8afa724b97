// SPDX-License-Identifier: Apache-2.0

package packetcapture

// The files of a capture, and their names. The daemon is root, and directories such as /tmp belong to everybody: files are
// only created, never opened, and no symbolic link is followed that another user could have made.

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// series is the files of a target.
type series struct {
	of   *target
	base string // of the path of the first one
	path string // of the last one
	last int    // its number; -1: none
}

func newSeries(of *target) series { return series{of: of, last: -1} }

// next creates the next file. Its number follows those of the files that are there: a capture that continues after a
// restart, or begins again, overwrites nothing.
func (s *series) next() (*os.File, error) {
	if s.base == "" {
		s.base = cmp.Or(s.of.base, filepath.Join(defaultDir(), newName()))
	}
	dir, err := openParent(s.base)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	there, err := s.there(dir)
	if err != nil {
		return nil, err
	}
	n := s.last + 1
	if len(there) > 0 {
		n = max(n, there[len(there)-1].number+1)
	}
	const tries = 100 // names that others take at the same time
	for last := n + tries; n < last; n++ {
		path := s.name(n)
		fd, err := unix.Openat(int(dir.Fd()), filepath.Base(path), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err == nil {
			s.last, s.path = n, path
			return os.NewFile(uintptr(fd), path), nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("create %s: %w", path, err)
		}
	}
	return nil, fmt.Errorf("create %s: %w", s.name(n), fs.ErrExist)
}

// newName is a name that nobody else has.
func newName() string {
	return "capture_" + time.Now().Format("20060102-150405") + "_" + strings.ToLower(rand.Text()[:8])
}

// name is the path of the file with a number.
func (s *series) name(n int) string {
	if n == 0 {
		return s.base + suffix
	}
	return fmt.Sprintf("%s_%05d%s", s.base, n, suffix)
}

// numbered is an existing file of the series.
type numbered struct {
	name   string
	number int
}

// there lists the files with names of the series, by number.
func (s *series) there(dir *os.File) ([]numbered, error) {
	if _, err := dir.Seek(0, 0); err != nil {
		return nil, fmt.Errorf("list %s: %w", dir.Name(), err)
	}
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir.Name(), err)
	}
	var out []numbered
	for _, name := range names {
		if n, ok := s.number(name); ok {
			out = append(out, numbered{name, n})
		}
	}
	slices.SortFunc(out, func(a, b numbered) int { return cmp.Compare(a.number, b.number) })
	return out, nil
}

// number returns the number in the name of a file of the series.
func (s *series) number(name string) (int, bool) {
	rest, ok := strings.CutPrefix(name, filepath.Base(s.base))
	if !ok {
		return 0, false
	}
	if rest == suffix {
		return 0, true
	}
	digits, ok := strings.CutSuffix(rest, suffix)
	if digits, ok2 := strings.CutPrefix(digits, "_"); ok && ok2 {
		n, err := strconv.Atoi(digits)
		return n, err == nil && n > 0 && s.name(n) == s.base+rest
	}
	return 0, false
}

// limit deletes the oldest files, if there are more than are to be kept. Only regular files of the daemon's user are.
func (s *series) limit() error {
	keep := int(s.of.rotation.Files)
	if keep == 0 {
		return nil
	}
	dir, err := openParent(s.base)
	if err != nil {
		return err
	}
	defer dir.Close()
	there, err := s.there(dir)
	if err != nil {
		return err
	}
	there = slices.DeleteFunc(there, func(f numbered) bool { return !own(dir, f.name) })
	for ; len(there) > keep; there = there[1:] {
		if err := unix.Unlinkat(int(dir.Fd()), there[0].name, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("delete %s: %w", filepath.Join(dir.Name(), there[0].name), err)
		}
	}
	return nil
}

// own reports whether a name is a regular file that this user has created.
func own(dir *os.File, name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && int(st.Uid) == os.Geteuid()
}

// undo deletes the file that was created last, which is empty.
func (s *series) undo() {
	if dir, err := openParent(s.base); err == nil {
		defer dir.Close()
		_ = unix.Unlinkat(int(dir.Fd()), filepath.Base(s.path), 0) // an empty file is left, at worst
	}
}

// openParent opens the directory of a path. Symbolic links are followed only in directories that nobody but root can
// change.
func openParent(path string) (*os.File, error) {
	at, here := unix.AT_FDCWD, "/"
	fd, err := unix.Openat(at, "/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for _, step := range strings.Split(strings.Trim(filepath.Dir(path), "/"), "/") {
		if err != nil || step == "" {
			break
		}
		at, here = fd, filepath.Join(here, step)
		flags := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
		if !safe(at) {
			flags |= unix.O_NOFOLLOW
		}
		fd, err = unix.Openat(at, step, flags, 0)
		_ = unix.Close(at) // nothing was written
	}
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("open %s: expected a directory, or a symbolic link that only root can modify: %w", here, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open the directory %s: %w", here, err)
	}
	return os.NewFile(uintptr(fd), here), nil
}

// safe reports whether only root, and the daemon's user, can change the entries of a directory.
func safe(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&0o022 == 0 && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}
