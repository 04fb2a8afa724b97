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

// A log that nobody looks after must not fill the disk: a file is replaced when it has grown, and three old ones are kept,
// as the first Polycube did. Who has logrotate moves the file away and sends SIGHUP.

const (
	// maxLogBytes is how large a file grows before it is replaced, keptLogs how many old ones stay.
	maxLogBytes = 5 << 20
	keptLogs    = 3
)

// logFile is where lines go: a file that can be opened anew after it was rotated, or
// standard error.
type logFile struct {
	path string
	// limit is how large the file may grow.
	limit int64

	mu   sync.Mutex
	out  io.Writer
	file *os.File
	// size is that of the file; tryAt is where it is replaced.
	size, tryAt int64
}

// openLog opens the log; path "" is the stream given.
func openLog(path string, otherwise io.Writer) (*logFile, error) {
	l := &logFile{path: path, out: otherwise, limit: maxLogBytes}
	return l, l.Reopen()
}

// Reopen opens the file again by its name. On an error the old one stays in use.
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

// Write appends one line, to a new file if the old one has grown enough. A line is never cut.
func (l *logFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil && l.size > 0 && l.size+int64(len(line)) > l.tryAt {
		if err := l.replace(); err != nil {
			// The log goes on in the old file, and that it could not be replaced is worth a line of its own.
			l.tryAt = l.size + l.limit
			n, _ := fmt.Fprintf(l.out, "the log was not rotated: %v\n", err)
			l.size += int64(n)
		}
	}
	n, err := l.out.Write(line)
	l.size += int64(n)
	return n, err
}

// replace moves the file and the old ones one place on, and opens a new one.
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
	// Else somebody has moved it already, and what is there now is not ours to move.
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
