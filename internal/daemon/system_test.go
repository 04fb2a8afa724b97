// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestEnsureBPFFS: pins go to a BPF file system or nowhere.
func TestEnsureBPFFS(t *testing.T) {
	err := ensureBPFFS(filepath.Join(t.TempDir(), "pins"))
	if err == nil || !strings.Contains(err.Error(), "mount -t bpf") {
		t.Errorf("a directory of another file system: error %v", err)
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes a directory in a BPF file system")
	}
	dir := filepath.Join(bpffsRoot, fmt.Sprintf("daemon-test-%d", os.Getpid()))
	if err := ensureBPFFS(dir); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(dir)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
	if err := ensureBPFFS(dir); err != nil {
		t.Errorf("a second time: %v", err)
	}
	defer os.Remove(dir + "/theirs")
	if err := os.Mkdir(dir+"/theirs", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := ensureBPFFS(dir); err == nil || !strings.Contains(err.Error(), "theirs") {
		t.Errorf("a directory with the pins of something else: error %v", err)
	}
	defer os.Remove(dir + "/core")
	if err := os.Mkdir(dir+"/core", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := ensureBPFFS(dir); err != nil {
		t.Errorf("a directory of ours: %v", err)
	}
}

// TestRaiseFileLimit: the soft limit is at least what it was, and never above the hard one.
func TestRaiseFileLimit(t *testing.T) {
	var before, after unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := raiseFileLimit(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &after); err != nil {
		t.Fatal(err)
	}
	if after.Cur < before.Cur || after.Cur > after.Max || (after.Max >= wantFiles && after.Cur < wantFiles) {
		t.Errorf("from %+v to %+v", before, after)
	}
}

// TestPinsOutlive: a directory for pins that the machine does not have under that name goes with the daemon.
func TestPinsOutlive(t *testing.T) {
	dir := t.TempDir()
	if err := pinsOutlive(dir, "/"); err != nil {
		t.Errorf("the same directory: %v", err)
	}
	if err := pinsOutlive("/proc/self", dir); err == nil || !strings.Contains(err.Error(), "before the daemon starts") {
		t.Errorf("one that the machine does not have: %v", err)
	}
	if err := os.Mkdir(dir+"/proc", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := pinsOutlive("/proc", dir); err == nil {
		t.Error("another file system under the same name passes")
	}
}
