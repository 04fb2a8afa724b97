// SPDX-License-Identifier: Apache-2.0

package nsname_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/nsname"
	"github.com/polycube/polycube/test/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// booted runs fn on a machine on which no namespace has been given a name since it booted: in a mount namespace
// of its thread.
func booted(t *testing.T, fn func() error) {
	t.Helper()
	netns.NeedRoot(t)
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends here
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = errors.Join(unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""), unix.Mount("machine", "/run", "tmpfs", 0, ""))
		}
		if err == nil {
			err = fn()
		}
		result <- err
	}()
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// ip runs `ip netns` and returns what it says.
func ip(words ...string) (string, error) {
	out, err := exec.Command("ip", append([]string{"netns"}, words...)...).CombinedOutput()
	if err != nil {
		return "", errors.New("ip netns " + strings.Join(words, " ") + ": " + string(out))
	}
	return string(out), nil
}

// TestNamesOnAFreshMachine: names are removed, whoever made the first one since the machine booted.
func TestNamesOnAFreshMachine(t *testing.T) {
	ours := filepath.Join(nsname.Dir, "ours")
	add := func() error { return nsname.Add(ours, "/proc/thread-self/ns/net") }
	theirs := func() error { _, err := ip("add", "theirs"); return err }
	for name, order := range map[string][]func() error{"ours is first": {add, theirs}, "theirs is first": {theirs, add}} {
		t.Run(name, func(t *testing.T) {
			booted(t, func() error {
				if err := errors.Join(order[0](), order[1]()); err != nil {
					return err
				}
				if names, err := ip("list"); err != nil || !strings.Contains(names, "ours") || !strings.Contains(names, "theirs") {
					t.Errorf("names: %s, %v", names, err)
				}
				if err := add(); !errors.Is(err, os.ErrExist) {
					t.Errorf("a name that is there: %v", err)
				}
				if err := errors.Join(nsname.Remove(ours), nsname.Remove(ours)); err != nil { // again: nothing to do
					return err
				}
				if names, err := ip("list"); err != nil || strings.Contains(names, "ours") || !strings.Contains(names, "theirs") {
					t.Errorf("afterwards: %s, %v", names, err)
				}
				if err := add(); err != nil {
					return err
				}
				_, err := ip("del", "ours")
				return err
			})
		})
	}
}

// TestManyFirstNames: one mount of the directory, however many make the first name at once.
func TestManyFirstNames(t *testing.T) {
	booted(t, func() error {
		const many = 8
		start, errs := make(chan struct{}), make([]error, many)
		mounts, err := os.Open("/proc/thread-self/ns/mnt")
		if err != nil {
			return err
		}
		defer mounts.Close()
		var all sync.WaitGroup
		for i := range many {
			all.Go(func() {
				runtime.LockOSThread() // the thread ends here
				errs[i] = errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(int(mounts.Fd()), unix.CLONE_NEWNS))
				<-start
				path := filepath.Join(nsname.Dir, "n"+string(rune('a'+i)))
				errs[i] = errors.Join(errs[i], nsname.Add(path, "/proc/thread-self/ns/net"), nsname.Remove(path))
			})
		}
		close(start)
		all.Wait()
		table, err := os.ReadFile("/proc/thread-self/mountinfo")
		n := 0
		for line := range strings.Lines(string(table)) {
			if f := strings.Fields(line); len(f) > 4 && f[4] == nsname.Dir && slices.Contains(f, "machine") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d mounts of %s:\n%s", n, nsname.Dir, table)
		}
		return errors.Join(errors.Join(errs...), err)
	})
}

// TestNamesElsewhere: a directory that `ip netns` does not look at is left as it is.
func TestNamesElsewhere(t *testing.T) {
	netns.NeedRoot(t)
	path := filepath.Join(t.TempDir(), "names", "one")
	if err := errors.Join(nsname.Add(path, "/proc/thread-self/ns/net"), nsname.Remove(path)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Dir(path)); err != nil { // EBUSY if it is a mount
		t.Error(err)
	}
	if err := nsname.Add(path, "/nowhere"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a namespace that is none: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it left the name: %v", err)
	}
}
