// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestTheSocketOfAProgramThatWasKilledIsReplaced, and is for root alone.
func TestTheSocketOfAProgramThatWasKilledIsReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(file); err == nil {
		t.Error("a file was replaced")
	}
}
