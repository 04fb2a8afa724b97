// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// listenNotify is a service manager's end: it returns what it is told, one by one.
func listenNotify(t *testing.T) func() string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return func() string {
		t.Helper()
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 200)
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
}

// TestNotify: a service manager is told when the daemon is ready, when a reload begins and ends, and when it stops.
func TestNotify(t *testing.T) {
	next := listenNotify(t)
	b := newBench(t)
	p := b.start("main")
	if got := next(); got != "READY=1" {
		t.Errorf("told %q", got)
	}
	p.hup <- syscall.SIGHUP
	state, clock, _ := strings.Cut(next(), "\nMONOTONIC_USEC=")
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	usec, err := strconv.ParseInt(clock, 10, 64)
	if age := now.Nano()/1000 - usec; err != nil || state != "RELOADING=1" || age < 0 || age > int64(patience/time.Microsecond) {
		t.Errorf("told %q, %q: %v, %d µs ago", state, clock, err, age)
	}
	if got := next(); got != "READY=1" {
		t.Errorf("told %q", got)
	}
	p.end()
	if got := next(); got != "STOPPING=1" {
		t.Errorf("told %q", got)
	}
}

// TestWatchdog: a service manager that wants to hear of the daemon does, again and again; one that means another process
// does not.
func TestWatchdog(t *testing.T) {
	next := listenNotify(t)
	t.Setenv("WATCHDOG_USEC", "20000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	b := newBench(t)
	p := b.start("main")
	told := map[string]int{}
	for told["WATCHDOG=1"] < 5 {
		told[next()]++
	}
	p.end()
	if told["READY=1"] != 1 {
		t.Errorf("told %v", told)
	}
	for env, want := range map[[2]string]time.Duration{
		{"20000", ""}: 20 * time.Millisecond, {"20000", "1"}: 0, {"", ""}: 0, {"0", ""}: 0, {"-5", ""}: 0, {"many", ""}: 0,
	} {
		t.Setenv("WATCHDOG_USEC", env[0])
		t.Setenv("WATCHDOG_PID", env[1])
		if got := watchdogPeriod(); got != want {
			t.Errorf("%v: %v, want %v", env, got, want)
		}
	}
}
