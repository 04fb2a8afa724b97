// SPDX-License-Identifier: Apache-2.0

package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOwnDirsAreNobodyElses(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "a", "b")
	for range 2 {
		if err := OwnDir(own); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := OwnDir(file); err == nil {
		t.Error("a file is a directory")
	}
	for _, mode := range []os.FileMode{0o777, 0o757} {
		if err := os.Chmod(own, mode); err != nil {
			t.Fatal(err)
		}
		if err := OwnDir(own); err == nil || !strings.Contains(err.Error(), own+": is writable by users other than root") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to give a directory away")
	}
	if err := os.Chmod(own, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(own, 12345, 0); err != nil {
		t.Fatal(err)
	}
	if err := OwnDir(own); err == nil || !strings.Contains(err.Error(), "is owned by user 12345") {
		t.Errorf("another's directory: %v", err)
	}
}
