// SPDX-License-Identifier: Apache-2.0

// A body may arrive on standard input, but most runs inherit one that has nothing to do with them: a terminal,
// /dev/null, a pipe of cron or ssh that nobody ever writes to. Input of the first kind must be read, and the second
// kind must not block.

package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/cli/output"
)

// stdinUse says how a command uses standard input.
type stdinUse uint8

const (
	stdinNever    stdinUse = iota // show, del, help and most aliases
	stdinOffered                  // read if data is available immediately
	stdinExpected                 // wait for it, continue without it
	stdinRequired                 // wait for it, an error without it
	stdinExplicit                 // "-": read until end of file, whatever it is
)

// patience is how long a pipe or socket may stay silent: before its first byte if input is optional, and at any time
// once it has begun or is required.
type patience struct {
	offered time.Duration
	awaited time.Duration
}

var defaultPatience = patience{offered: 50 * time.Millisecond, awaited: 10 * time.Second}

// readInput returns the content of standard input for a command, nil for none.
func readInput(f *os.File, use stdinUse, p patience) ([]byte, error) {
	if f == nil || use == stdinNever {
		return nil, nil
	}
	if use == stdinExplicit {
		return readLimited(f)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil //nolint:nilerr // a closed descriptor is an absent body, not a mistake of the user
	}
	switch {
	case info.Mode().IsRegular():
		return readLimited(f)
	case info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0:
		first := p.awaited
		if use == stdinOffered {
			first = p.offered
		}
		return readStream(f, first, p.awaited)
	default:
		return nil, nil
	}
}

func readLimited(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, output.MaxBody+1))
	if err != nil {
		return nil, usagef("read standard input: %v", err)
	}
	return data, checkSize(data)
}

func checkSize(data []byte) error {
	if len(data) > output.MaxBody {
		return usagef("the body on standard input is larger than %d MiB", output.MaxBody>>20)
	}
	return nil
}

// readStream reads to the end of file, and gives up when nothing arrives: silently before the first byte, with an
// error after it (half a body is not usable).
func readStream(f *os.File, first, next time.Duration) ([]byte, error) {
	var data []byte
	buf := make([]byte, 64<<10)
	for wait := first; ; wait = next {
		ready, err := pollReadable(int(f.Fd()), wait)
		if err != nil {
			return nil, usagef("wait for standard input: %v", err)
		}
		if !ready && len(data) == 0 {
			return nil, nil
		}
		if !ready {
			return nil, usagef("standard input stalled: no data for %s after %d bytes", next, len(data))
		}
		n, err := f.Read(buf)
		data = append(data, buf[:n]...)
		if sizeErr := checkSize(data); sizeErr != nil {
			return nil, sizeErr
		}
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return nil, usagef("read standard input: %v", err)
		}
	}
}

// pollReadable reports whether a read on fd would return immediately, with bytes or end of file.
func pollReadable(fd int, wait time.Duration) (bool, error) {
	deadline := time.Now().Add(wait)
	for {
		left := max(time.Until(deadline), 0)
		ms := int((left + time.Millisecond - 1) / time.Millisecond)
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, ms)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return n > 0, err
	}
}
