// SPDX-License-Identifier: Apache-2.0

// The other end of a veth is often in a container's namespace, and can only be changed there. The kernel reports a
// number for that namespace; the files of namespaces are tried until one has the same number.

package netdev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// errUnreachable is for a namespace without a file or process that this process can see.
var errUnreachable = errors.New("the namespace is not reachable")

// namespaceFiles are where namespaces have names, the cheapest first; namespaces of container runtimes without names
// are found by their processes.
var namespaceFiles = []string{"/run/netns/*", "/var/run/docker/netns/*", "/proc/[0-9]*/ns/net"}

// openNamespace opens the namespace that the calling thread's namespace knows by the number id.
func openNamespace(id int) (*os.File, error) {
	tried := map[uint64]bool{}
	for _, pattern := range namespaceFiles {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("namespaces %s: %w", pattern, err)
		}
		for _, path := range paths {
			if f := tryNamespace(path, id, tried); f != nil {
				return f, nil
			}
		}
	}
	return nil, fmt.Errorf("network namespace number %d: %w", id, errUnreachable)
}

// tryNamespace returns path opened if it is the namespace with that number. A path that cannot be opened or is
// something else is skipped: processes end, and other users may create files there.
func tryNamespace(path string, id int, tried map[uint64]bool) *os.File {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || tried[st.Ino] {
		return nil
	}
	// O_NONBLOCK: a FIFO with this name must not block the daemon.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), path)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err == nil && fs.Type == unix.NSFS_MAGIC {
		tried[st.Ino] = true
		if got, err := netlink.GetNetNsIdByFd(fd); err == nil && got == id {
			return f
		}
	}
	f.Close()
	return nil
}

// inNamespace runs fn on a thread inside the namespace. A thread that cannot return is not given back to the
// scheduler, because other code would then run in the wrong namespace.
func inNamespace(ns *os.File, fn func() error) error {
	result := make(chan error, 1)
	go func() { result <- visit(ns, fn) }()
	return <-result
}

// visit leaves the thread locked if it could not return; its goroutine then ends, and the thread with it.
func visit(ns *os.File, fn func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("namespace of the thread: %w", err)
	}
	defer home.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter %s: %w", ns.Name(), err)
	}
	err = fn()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, fmt.Errorf("return from %s: %w", ns.Name(), back))
	}
	runtime.UnlockOSThread()
	return err
}
