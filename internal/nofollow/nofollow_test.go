// SPDX-License-Identifier: Apache-2.0

package nofollow

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLinksAreNotFollowed(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	const flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	for range 2 { // the target is missing, then it is there
		if f, err := Open(link, flags, 0o600); err == nil || !strings.Contains(err.Error(), link+" is a symbolic link") {
			t.Errorf("opened %v, %v", f, err)
		}
		if err := os.WriteFile(target, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "x" {
		t.Errorf("the target holds %q, %v", text, err)
	}
	f, err := Open(target, flags, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
