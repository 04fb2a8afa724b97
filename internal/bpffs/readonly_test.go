// SPDX-License-Identifier: Apache-2.0

package bpffs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
)

func TestAReadOnlyFileSystemIsNamedWithItsRemedy(t *testing.T) {
	mount := netns.Bpffs(t)
	dir := filepath.Join(mount, "a", "b")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Check(dir); err != nil {
		t.Errorf("one that can be written: %v", err)
	}
	if err := unix.Mount("", mount, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	var no *ReadOnlyError
	if err := Check(dir); !errors.As(err, &no) || no.Remedy() != "mount -o remount,rw "+mount {
		t.Errorf("one that cannot: %v, remedy %q", err, no.Remedy())
	}
	if err := os.Mkdir(filepath.Join(dir, "c"), 0o700); !errors.Is(err, unix.EROFS) {
		t.Errorf("a directory in it: %v", err)
	}
	if err := unix.Mount("", mount, "", unix.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	if err := Check(dir); err != nil {
		t.Errorf("one that can be written again: %v", err)
	}
	if err := Check(filepath.Join(dir, "nowhere")); !errors.Is(err, unix.ENOENT) {
		t.Errorf("one that is not there: %v", err)
	}
}
