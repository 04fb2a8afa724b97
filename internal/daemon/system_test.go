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
	if err := checkPinsPersist(dir, "/"); err != nil {
		t.Errorf("the same directory: %v", err)
	}
	if err := checkPinsPersist("/proc/self", dir); err == nil || !strings.Contains(err.Error(), "before the daemon starts") {
		t.Errorf("one that the machine does not have: %v", err)
	}
	if err := os.Mkdir(dir+"/proc", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := checkPinsPersist("/proc", dir); err == nil {
		t.Error("another file system under the same name passes")
	}
}

// TestPinsThatAreGoneAreMissed: the file system is unmounted, or another one is mounted over it.
func TestPinsThatAreGoneAreMissed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts BPF file systems")
	}
	at := t.TempDir()
	mount := func() {
		t.Helper()
		if err := unix.Mount("bpf", at, "bpf", 0, "mode=0700"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) }) // it may be unmounted already
	}
	mount()
	d := &daemon{opts: Options{BPFFS: filepath.Join(at, "pins")}}
	if err := os.Mkdir(d.opts.BPFFS, 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if d.pinsOn, err = pinsDevice(d.opts.BPFFS); err != nil {
		t.Fatal(err)
	}
	if err := d.pinsMissing(); err != nil {
		t.Errorf("all is well: %v", err)
	}
	mount()
	if err := d.pinsMissing(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("another file system: %v", err)
	}
	if err := os.Mkdir(d.opts.BPFFS, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.pinsMissing(); err == nil || !strings.Contains(err.Error(), "no longer in the file system") {
		t.Errorf("another file system with the directory in it: %v", err)
	}
	for range 2 {
		if err := unix.Unmount(at, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(d.opts.BPFFS, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.pinsMissing(); err == nil || !strings.Contains(err.Error(), "no longer in a BPF file system") {
		t.Errorf("unmounted: %v", err)
	}
}
