// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestToken: it is private, survives a restart, and is not taken from a file that others
// could read or that is not ours to trust.
func TestToken(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	first, err := loadToken(dir)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 || len(first) != 2*tokenBytes {
		t.Fatalf("mode %v, %v, token %q", info.Mode(), err, first)
	}
	if again, err := loadToken(dir); err != nil || again != first {
		t.Errorf("a restart has token %q, %v, want %q", again, err, first)
	}
	for name, spoil := range map[string]func() error{
		"others can read it":     func() error { return os.Chmod(path, 0o644) },
		"the group can write it": func() error { return os.Chmod(path, 0o660) },
		"it is short":            func() error { return os.Truncate(path, 10) },
		"it is no token":         func() error { return os.WriteFile(path, bytes.Repeat([]byte{'x'}, 100), 0o600) },
		"it is a link": func() error {
			return errors.Join(os.Rename(path, path+".elsewhere"), os.Symlink(path+".elsewhere", path))
		},
	} {
		before, err := loadToken(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		after, err := loadToken(dir)
		if err != nil || after == before {
			t.Errorf("%s: the token stays %q, %v", name, after, err)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode() != 0o640 {
			t.Errorf("%s: the new file has mode %v, %v", name, info.Mode(), err)
		}
	}
}
