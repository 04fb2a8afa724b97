// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/pace"
)

func TestWhoHasBegunToExitIsDying(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := child.Process.Pid
	if isExiting(pid) || isExiting(os.Getpid()) || isExiting(0) {
		t.Error("a process that runs, or none, is taken for dying")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(pace.Stretch(10 * time.Second)); !isExiting(pid); { // a zombie, until it is waited for
		if time.Now().After(end) {
			t.Fatal("a killed process does not count as dying")
		}
	}
	_ = child.Wait() // it was killed
	if !isExiting(pid) {
		t.Error("a process that is gone does not count as dying")
	}
}

func TestALockIsWaitedForWhileItsHolderDies(t *testing.T) {
	child := exec.Command("sleep", "0")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, []byte(strconv.Itoa(child.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() }) // again, for one of them
		return f
	}
	held, waits := open(), open()
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	got := make(chan error)
	go func() { got <- flock(waits) }()
	if err := held.Close(); err != nil { // as the kernel does in the end
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("the lock of a process that is gone: %v", err)
	}
}

// TestPidFile: two daemons cannot have one pid file, and a file that is something else is left alone.
func TestPidFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run", "x.pid")
	p, err := takePidFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != strconv.Itoa(os.Getpid())+"\n" {
		t.Errorf("it holds %q, %v", text, err)
	}
	if _, err := takePidFile(path); err == nil || !strings.Contains(err.Error(), "another daemon uses it (pid "+strconv.Itoa(os.Getpid())+")") {
		t.Errorf("a second time: %v", err)
	}
	if err := p.remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
	// What a killed daemon left is taken over.
	if err := os.WriteFile(path, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err = takePidFile(path); err != nil {
		t.Fatalf("one that was left: %v", err)
	}
	if err := p.remove(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := takePidFile(path); err == nil || !strings.Contains(err.Error(), "not overwritten") {
		t.Errorf("notes: %v", err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := takePidFile(link); err == nil {
		t.Error("a link is followed")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "notes" {
		t.Errorf("the notes are now %q, %v", text, err)
	}
}
