// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A service manager (systemd's protocol) is notified when the daemon is ready, reloads its configuration, stops, and,
// if requested, that it is still alive.

// notify tells the service manager the daemon's state. Without NOTIFY_SOCKET it does nothing.
func notify(state string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	_, err = c.Write([]byte(state))
	if err = errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}

// reloading begins a reload; READY=1 ends it. systemd compares the time with that of its request.
func reloading() string {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return "RELOADING=1"
	}
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", ts.Nano()/1000)
}

// watchdogPeriod is how often the service manager expects a sign of life, 0 for never.
func watchdogPeriod() time.Duration {
	usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if pid := os.Getenv("WATCHDOG_PID"); err != nil || usec <= 0 || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	return time.Duration(usec) * time.Microsecond
}

// startWatchdog notifies the service manager twice per period that this process is running. Slowness does not matter:
// a flood of requests is no reason to be killed.
func (d *daemon) startWatchdog() (stop func() error) {
	period := watchdogPeriod()
	if period == 0 {
		return func() error { return nil }
	}
	return background(func(ctx context.Context) {
		tick := time.NewTicker(period / 2)
		defer tick.Stop()
		for {
			d.tell("WATCHDOG=1")
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}
