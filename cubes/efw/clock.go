// SPDX-License-Identifier: Apache-2.0

package efw

// A clock that wakes up only one thread of the daemon: each tick of a time.Ticker wakes up two more, which find nothing to do. On an
// otherwise idle daemon, that is most of the cost of polling.

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// clock ticks.
type clock struct {
	file *os.File // a timerfd, for which the network poller of Go waits
	wait func() bool
}

// newClock returns a stopped clock.
func newClock() (*clock, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create a timer: %w", err)
	}
	c := &clock{file: os.NewFile(uintptr(fd), "timerfd")}
	raw, err := c.file.SyscallConn()
	if err != nil {
		c.file.Close()
		return nil, fmt.Errorf("wait for a timer: %w", err)
	}
	ticks := make([]byte, 8)
	read := func(fd uintptr) bool {
		_, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&ticks[0])), uintptr(len(ticks)))
		return errno == 0 && binary.NativeEndian.Uint64(ticks) > 0
	}
	c.wait = func() bool { return raw.Read(read) == nil }
	return c, nil
}

// set makes the clock tick now, and then periodically.
func (c *clock) set(period time.Duration) error {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("set a timer: %w", err)
	}
	is := unix.ItimerSpec{Interval: unix.NsecToTimespec(period.Nanoseconds()), Value: unix.NsecToTimespec(1)}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.TimerfdSettime(int(fd), 0, &is, nil) }); err != nil {
		return fmt.Errorf("set a timer: %w", err)
	}
	if failed != nil {
		return fmt.Errorf("set a timer: %w", failed)
	}
	return nil
}

// close frees it.
func (c *clock) close() { c.file.Close() }
