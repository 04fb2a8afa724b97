// SPDX-License-Identifier: Apache-2.0

package confine

// Files that can be started: only root can have created them, or can change them or the path to them. The path is
// walked once, one name at a time without following links, and the file at its end is the one that runs: it cannot be
// replaced between check and start.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrUnsafe marks a file that must not be started as a service.
var ErrUnsafe = errors.New("not safe to start")

// maxLinks is the maximum number of symbolic links on the path to an interpreter, as in the kernel.
const maxLinks = 40

// maxShebang is how much of a script's first line the kernel reads.
const maxShebang = 256

// Executable is an open file that is safe to start. It stays the same file whatever happens to its path.
type Executable struct {
	// Path is where it was found.
	Path string
	file *os.File
	// script says that the kernel will start an interpreter, which has to open the file itself.
	script bool
}

// Check returns why the file at a path must not be started.
func Check(path string) error {
	e, err := Open(path)
	if err != nil {
		return err
	}
	return e.Close()
}

// Open opens the file at a path, or returns why it must not be started.
func Open(path string) (*Executable, error) {
	e, err := openExecutable(path)
	if err != nil {
		return nil, fmt.Errorf("executable %.200q: %w", path, err)
	}
	return e, nil
}

// Close closes the file; processes that run it continue.
func (e *Executable) Close() error { return e.file.Close() }

func openExecutable(path string) (*Executable, error) {
	if err := checkWords(path); err != nil {
		return nil, err
	}
	fd, err := walk(path, false)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := checkFile(fd); err != nil {
		return nil, err
	}
	// The descriptor is only for the path; reading needs another one for the same file.
	file, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	e := &Executable{Path: path, file: file}
	if err := e.checkInterpreter(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return e, nil
}

// checkWords refuses paths that are not canonical.
func checkWords(path string) error {
	switch {
	case !filepath.IsAbs(path):
		return fmt.Errorf("the path must begin with /: %w", ErrUnsafe)
	case strings.ContainsRune(path, 0) || len(path) >= unix.PathMax:
		return fmt.Errorf("not a valid path: %w", ErrUnsafe)
	case filepath.Clean(path) != path:
		return fmt.Errorf("write it as %s: %w", filepath.Clean(path), ErrUnsafe)
	}
	return checkVisible(path)
}

// checkVisible refuses directories that services cannot see.
func checkVisible(path string) error {
	for _, dir := range masked {
		if strings.HasPrefix(path, dir+"/") {
			return fmt.Errorf("it is in %s, which services cannot see; use for example /usr/local/lib/polycube: %w", dir, ErrUnsafe)
		}
	}
	return nil
}

// walk opens a path. Each directory on it, the links and their targets must be owned by root and writable only by
// root. Links are followed only if the caller allows it.
func walk(path string, links bool) (int, error) {
	at, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open /: %w", err)
	}
	trail, rest, followed := []string{}, strings.Split(strings.Trim(path, "/"), "/"), 0
	fail := func(err error) (int, error) {
		return -1, errors.Join(err, unix.Close(at))
	}
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		here := "/" + strings.Join(append(trail, name), "/")
		next, err := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fail(fmt.Errorf("%s: %w", here, err))
		}
		kind, err := checkOwner(next, here)
		if err == nil && kind == unix.S_IFLNK && !links {
			err = fmt.Errorf("%s is a symbolic link; give its target instead: %w", here, ErrUnsafe)
		}
		if err != nil {
			return fail(errors.Join(err, unix.Close(next)))
		}
		if kind != unix.S_IFLNK {
			_ = unix.Close(at)
			at, trail = next, append(trail, name)
			continue
		}
		target, err := readLink(next)
		_ = unix.Close(next)
		if followed++; err == nil && followed > maxLinks {
			err = fmt.Errorf("%s: %w", here, unix.ELOOP)
		}
		if err != nil {
			return fail(err)
		}
		if !filepath.IsAbs(target) {
			target = "/" + strings.Join(trail, "/") + "/" + target
		}
		// Everything walked so far is safe, so ".." can be resolved by name.
		_ = unix.Close(at)
		if at, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			return -1, fmt.Errorf("open /: %w", err)
		}
		trail, rest = nil, append(strings.Split(strings.Trim(filepath.Clean(target), "/"), "/"), rest...)
	}
	if err := checkVisible("/" + strings.Join(trail, "/")); err != nil {
		return fail(err)
	}
	return at, nil
}

func readLink(fd int) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", fmt.Errorf("read a symbolic link: %w", err)
	}
	return string(buf[:n]), nil
}

// checkOwner refuses files that users other than root can change, and returns the kind of the file.
func checkOwner(fd int, where string) (kind uint32, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("%s: %w", where, err)
	}
	kind = st.Mode & unix.S_IFMT
	switch {
	case st.Uid != 0:
		return 0, fmt.Errorf("%s is owned by user %d, who could replace it; it must be owned by root: %w", where, st.Uid, ErrUnsafe)
	case kind != unix.S_IFLNK && st.Mode&0o022 != 0:
		return 0, fmt.Errorf("%s is writable by users other than root (mode %04o): %w", where, st.Mode&0o7777, ErrUnsafe)
	}
	return kind, nil
}

// checkFile refuses files that are not plain programs.
func checkFile(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("read its mode: %w", err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("not a regular file: %w", ErrUnsafe)
	case st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0:
		return fmt.Errorf("it is setuid or setgid (mode %04o): %w", st.Mode&0o7777, ErrUnsafe)
	case st.Mode&0o111 != 0o111:
		return fmt.Errorf("not executable by other users (mode %04o), and a service runs as its own user: %w", st.Mode&0o7777, ErrUnsafe)
	}
	return nil
}

// checkInterpreter applies the same rules to the interpreter of a script; links on the path to it are followed,
// because /usr/bin/python3 is one.
func (e *Executable) checkInterpreter() error {
	head := make([]byte, maxShebang)
	n, err := e.file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read: %w", err)
	}
	line, ok := bytes.CutPrefix(head[:n], []byte("#!"))
	if !ok {
		if !bytes.HasPrefix(head[:n], []byte("\x7fELF")) {
			return fmt.Errorf("neither an ELF program nor a script that begins with #!: %w", ErrUnsafe)
		}
		return nil
	}
	e.script = true
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return fmt.Errorf("its first line has no interpreter: %w", ErrUnsafe)
	}
	fd, err := walkInterpreter(words[0])
	if err != nil {
		return fmt.Errorf("its interpreter %.200q: %w", words[0], err)
	}
	return unix.Close(fd)
}

func walkInterpreter(path string) (int, error) {
	if err := checkWords(path); err != nil {
		return -1, err
	}
	fd, err := walk(path, true)
	if err != nil {
		return -1, err
	}
	if err := checkFile(fd); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}
