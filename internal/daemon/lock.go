// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/access"
)

// One daemon per instance: the process that holds the lock owns the run directory, the socket, the pins and the state
// of that name. The kernel releases the lock however the process ends.

// instanceLock is a locked file; it is never removed, or two daemons could lock two files.
type instanceLock struct{ file *os.File }

// lockInstance takes the lock of a run directory, which it creates if missing.
func lockInstance(runDir, instance string) (*instanceLock, error) {
	if err := access.OwnDir(runDir); err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	path := filepath.Join(runDir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := flock(f); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("polycubed%s is already running%s: stop it first, or choose another --instance",
				describe(instance), holder(f))
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := writePid(f); err != nil {
		return nil, errors.Join(fmt.Errorf("write the lock: %w", err), f.Close())
	}
	return &instanceLock{f}, nil
}

// exitTime is how long a killed daemon may take to exit.
const exitTime = 5 * time.Second

// flock locks the file. It waits for a holder that is exiting: the kernel removes a killed daemon's maps and links
// before it releases the lock.
func flock(f *os.File) error {
	for end := time.Now().Add(exitTime); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) || !isExiting(holderPid(f)) {
			return err
		}
	}
}

// isExiting reports whether a process has begun to exit, or has exited.
func isExiting(pid int) bool {
	if pid == 0 {
		return false // another process's lock
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	// "pid (comm) state ppid pgrp session tty tpgid flags ...", and comm may contain anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 7 {
		return false
	}
	const exiting = 0x4 // PF_EXITING
	flags, err := strconv.ParseUint(fields[6], 10, 32)
	return err == nil && flags&exiting != 0 || fields[0] == "Z" || fields[0] == "X"
}

func describe(instance string) string {
	if instance == "" {
		return ""
	}
	return " instance " + instance
}

// holder names the process that wrote the lock last.
func holder(f *os.File) string {
	if pid := holderPid(f); pid != 0 {
		return fmt.Sprintf(" (pid %d)", pid)
	}
	return ""
}

// holderPid is the process that wrote the lock last, 0 if none did.
func holderPid(f *os.File) int {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	pid, convErr := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || convErr != nil {
		return 0
	}
	return pid
}

func writePid(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// release releases the lock.
func (l *instanceLock) release() error { return unlock(l.file) }

// unlock releases a lock. Closing it is not enough: a process that is being started has the descriptor for a moment.
func unlock(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// pidFile is where service managers and scripts look for the process. It is also locked: otherwise, another daemon
// with the same pid file by mistake would have its signals sent to this one.
type pidFile struct {
	path string
	file *os.File
}

// takePidFile locks the file and writes the process id into it.
func takePidFile(path string) (*pidFile, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("create the pid file's directory: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the pid file: %w", err)
	}
	p := &pidFile{path, f}
	if err := p.take(); err != nil {
		return nil, errors.Join(fmt.Errorf("pid file %s: %w", path, err), f.Close())
	}
	return p, nil
}

func (p *pidFile) take() error {
	if err := flock(p.file); errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("another daemon uses it%s: give each its own --pidfile", holder(p.file))
	} else if err != nil {
		return err
	}
	text, err := io.ReadAll(io.NewSectionReader(p.file, 0, 64))
	if err != nil {
		return err
	}
	if _, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil && len(text) > 0 {
		return errors.New("does not contain a process id, so it is not overwritten")
	}
	return writePid(p.file)
}

// remove removes the file while it is still locked.
func (p *pidFile) remove() error { return errors.Join(removePidFile(p.path), unlock(p.file)) }

// removePidFile removes a pid file, but no other kind of file.
func removePidFile(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the pid file: %w", err)
	}
	if _, err := strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
		return fmt.Errorf("pid file %s does not contain a process id, so it is not removed", path)
	}
	return os.Remove(path)
}

// removeSocket removes the socket of a killed daemon, but no other kind of file.
func removeSocket(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check the socket: %w", err)
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s is not a socket, so it is not removed", path)
	}
	return os.Remove(path)
}

// removeEmpty removes a directory unless it contains files of others.
func removeEmpty(dir string) error {
	err := os.Remove(dir)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}
