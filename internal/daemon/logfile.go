// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/polycube/polycube/internal/nofollow"
)

// An unattended log must not fill the disk: a file is rotated when it has grown, and three old ones are kept, like the
// first Polycube did. With logrotate, move the file away and send SIGHUP.

const (
	// maxLogBytes is the size at which the file is rotated, keptLogs how many old ones are kept.
	maxLogBytes = 5 << 20
	keptLogs    = 3
)

// logFile is the log output: a file that can be reopened after rotation, or standard error.
type logFile struct {
	path string
	// limit is the maximum size of the file.
	limit int64

	mu   sync.Mutex
	out  io.Writer
	file *os.File
	// size is the size of the file; tryAt is the size at which it is rotated.
	size, tryAt int64
}

// openLog opens the log; path "" is the stream given.
func openLog(path string, otherwise io.Writer) (*logFile, error) {
	l := &logFile{path: path, out: otherwise, limit: maxLogBytes}
	return l, l.Reopen()
}

// Reopen opens the file again by its name. On an error, the old one stays in use.
func (l *logFile) Reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reopen()
}

func (l *logFile) reopen() error {
	if l.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
		return fmt.Errorf("create the log's directory: %w", err)
	}
	f, err := nofollow.Open(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	size := int64(0)
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	old := l.file
	l.file, l.out, l.size, l.tryAt = f, f, size, l.limit
	if old != nil {
		return old.Close()
	}
	return nil
}

// Write appends one line, to a new file if the old one has grown enough. A line is never split.
func (l *logFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil && l.size > 0 && l.size+int64(len(line)) > l.tryAt {
		if err := l.replace(); err != nil {
			// The log continues in the old file, with a line about the failed rotation.
			l.tryAt = l.size + l.limit
			n, _ := fmt.Fprintf(l.out, "the log was not rotated: %v\n", err)
			l.size += int64(n)
		}
	}
	n, err := l.out.Write(line)
	l.size += int64(n)
	return n, err
}

// replace renames the file and the old ones, and opens a new one.
func (l *logFile) replace() error {
	info, err := l.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return errors.Join(errors.New("not a regular file"), err)
	}
	named, err := os.Stat(l.path)
	if err == nil && os.SameFile(info, named) {
		for i := keptLogs - 1; i >= 1; i-- {
			err := os.Rename(l.old(i), l.old(i+1))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("keep an old log: %w", err)
			}
		}
		if err := os.Rename(l.path, l.old(1)); err != nil {
			return fmt.Errorf("rename the log: %w", err)
		}
	}
	// Otherwise the file was already moved, and the one there now is not ours.
	return l.reopen()
}

// old is the name of an old log; 1 is the newest.
func (l *logFile) old(n int) string { return fmt.Sprintf("%s.%d", l.path, n) }

// Close closes the file; later lines are lost.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	l.out = io.Discard
	err := l.file.Close()
	l.file = nil
	return err
}
