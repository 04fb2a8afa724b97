// SPDX-License-Identifier: Apache-2.0

// The store's path may change. If the directory of a running daemon is removed, or a file system is mounted over it,
// everything written from then on would be silently lost with the process.

package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// missing says what is gone of the open directory and journal, "" if their names still lead to them. s.mu is held.
func (s *Store) missing() string {
	if what := s.dir.missing(); what != "" {
		return what
	}
	if s.broken || s.journal == nil {
		return "" // another one is made
	}
	return s.dir.missingFile(s.journal, journalName(s.gen))
}

// move starts a generation where the path leads now, and leaves the open files. It does not if something else is
// there.
func (s *Store) move() error {
	what := s.missing()
	fail := func(err error) error { return fmt.Errorf("%s: %w", what, errors.Join(err, ErrMissing)) }
	if s.dir.missing() == "" { // the journal alone
		if err := s.rotate(); err != nil {
			return fail(err)
		}
		s.log.Error("wrote the whole configuration to a new journal", "reason", what)
		return nil
	}
	d, err := openDir(s.dir.path)
	if err != nil {
		return fail(err)
	}
	d.fault = s.dir.fault
	lock, err := d.claim()
	if err != nil {
		d.f.Close()
		return fail(err)
	}
	was, wasLock := s.dir, s.lock
	s.dir, s.lock = d, lock
	if err := s.rotate(); err != nil {
		s.dir, s.lock = was, wasLock
		_ = unlock(lock)
		d.f.Close()
		return fail(err)
	}
	clear(s.suspect)
	_ = unlock(wasLock) // of a removed directory
	was.f.Close()
	s.log.Error("wrote the whole configuration to a new directory; the history is lost", "reason", what)
	return nil
}

// claim locks a directory that contains no store.
func (d *dir) claim() (*os.File, error) {
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, _, ok := parseName(name); ok || name != lockName && !strings.HasSuffix(name, tmpSuffix) {
			return nil, fmt.Errorf("%s contains %q, which does not belong to this daemon: move it away", d.path, name)
		}
	}
	return d.lock()
}

// missing says what is wrong if the path does not lead to the open directory, "" if it does.
func (d *dir) missing() string {
	var is, open unix.Stat_t
	if err := unix.Fstat(int(d.f.Fd()), &open); err != nil {
		return fmt.Sprintf("store: cannot read its directory: %v", err)
	}
	err := unix.Lstat(d.path, &is)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return fmt.Sprintf("store: its directory %s was removed", d.path)
	case err != nil:
		return fmt.Sprintf("store: its directory %s cannot be reached: %v", d.path, err)
	case is.Dev != open.Dev || is.Ino != open.Ino:
		return fmt.Sprintf("store: its directory %s was replaced", d.path)
	}
	return ""
}

// missingFile does the same for an open file of the directory.
func (d *dir) missingFile(f *os.File, name string) string {
	var is, open unix.Stat_t
	err := errors.Join(unix.Fstat(int(f.Fd()), &open), unix.Fstatat(int(d.f.Fd()), name, &is, unix.AT_SYMLINK_NOFOLLOW))
	if err != nil || is.Dev != open.Dev || is.Ino != open.Ino {
		return fmt.Sprintf("store: its file %s was removed or replaced", filepath.Join(d.path, name))
	}
	return ""
}

// free is the number of free bytes; false if the file system does not report it.
func (d *dir) free() (int64, bool) {
	var st unix.Statfs_t
	if unix.Fstatfs(int(d.f.Fd()), &st) != nil || st.Blocks == 0 {
		return 0, false
	}
	return int64(st.Bavail) * st.Bsize, true
}
