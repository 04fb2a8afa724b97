// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Files that decide about access. Links are followed, because secrets are often mounted that way; what counts is who
// can write the file that they lead to.

// maxTrusted is the size limit of such a file.
const maxTrusted = 4 << 20

// maxListed is the maximum number of files in a directory of certificates.
const maxListed = 10000

// readTrusted reads a file that only root or the daemon's user can write and, if it is
// a secret, that only they and a group can read.
func readTrusted(path string, secret bool) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := checkOwner(f, unix.S_IFREG); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if info, err := f.Stat(); err == nil && secret && info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("%s: every local user can read it (mode %04o): run chmod o-rwx, and replace the key if others may have read it",
			path, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTrusted+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(text) > maxTrusted {
		return nil, fmt.Errorf("%s: larger than %d MiB", path, maxTrusted>>20)
	}
	return text, nil
}

// checkOwner refuses other kinds of files, and those that others can change.
func checkOwner(f *os.File, kind uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("check its owner: %w", err)
	}
	switch {
	case st.Mode&unix.S_IFMT != kind && kind == unix.S_IFDIR:
		return errors.New("is not a directory")
	case st.Mode&unix.S_IFMT != kind:
		return errors.New("is not a regular file")
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("is owned by user %d, who could change it: change the owner to root", st.Uid)
	case st.Mode&0o002 != 0, st.Mode&0o020 != 0 && st.Gid != 0:
		return fmt.Errorf("is writable by users other than root (mode %04o): run chmod go-w", st.Mode&0o7777)
	}
	return nil
}

// OwnDir creates a directory of the daemon if there is none, and refuses one that others could change.
func OwnDir(path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return wrap(path, checkOwner(f, unix.S_IFDIR))
}

// listTrusted lists the files of a directory, sorted, without hidden files, editors' backups and directories.
func listTrusted(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := checkOwner(f, unix.S_IFDIR); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return listFiles(dir)
}

func listFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	if len(entries) > maxListed {
		return nil, fmt.Errorf("%s: contains more than %d files", dir, maxListed)
	}
	var out []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") {
			continue
		}
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			continue
		}
		out = append(out, path)
	}
	return out, nil
}

// stamp changes when a file, or a file in a directory, changes. Errors are part of it.
func stamp(paths ...string) string {
	var b strings.Builder
	for _, path := range paths {
		if path == "" {
			continue
		}
		stampOne(&b, path)
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			continue
		}
		files, err := listFiles(path)
		fmt.Fprintf(&b, "%d %v\n", len(files), err)
		for _, file := range files {
			stampOne(&b, file)
		}
	}
	return b.String()
}

func stampOne(b *strings.Builder, path string) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		fmt.Fprintf(b, "%s: %v\n", path, err)
		return
	}
	fmt.Fprintf(b, "%s: %d %d %d %d %d %d %d.%d %d.%d\n", path, st.Dev, st.Ino, st.Size, st.Mode, st.Uid, st.Gid,
		st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec)
}
