// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestWhoHasBegunToExitIsDying(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := child.Process.Pid
	if dying(pid) || dying(os.Getpid()) || dying(0) {
		t.Error("a process that runs, or none, is taken for dying")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); !dying(pid); { // a zombie, until it is waited for
		if time.Now().After(end) {
			t.Fatal("a killed process does not count as dying")
		}
	}
	_ = child.Wait() // it was killed
	if !dying(pid) {
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
