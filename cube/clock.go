// SPDX-License-Identifier: Apache-2.0

package cube

// The clocks of the programs, read by Go code: values that a program writes to a map can be compared with them.

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Time returns the nanoseconds of pcn_time().
func Time() (uint64, error) { return kernelTime(unix.CLOCK_MONOTONIC) }

// TimeCoarse returns the nanoseconds of pcn_time_coarse().
func TimeCoarse() (uint64, error) { return kernelTime(unix.CLOCK_MONOTONIC_COARSE) }

// kernelTime reads a monotonic clock as programs see it: they ignore time namespaces, in which containers may have
// other clocks.
func kernelTime(clock int32) (uint64, error) {
	offset, err := clockOffset()
	if err != nil {
		return 0, err
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		return 0, fmt.Errorf("read the monotonic clock: %w", err)
	}
	return uint64(ts.Nano() - offset.Nanoseconds()), nil
}

// clockOffset is the difference between the process's monotonic clock and the machine's. A multi-threaded process stays
// in the time namespace in which it was started.
var clockOffset = sync.OnceValues(func() (time.Duration, error) {
	f, err := os.Open("/proc/self/timens_offsets")
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat("/proc/self"); err == nil {
			return 0, nil // a kernel without time namespaces
		}
	}
	if err != nil {
		return 0, fmt.Errorf("read the offset of the monotonic clock (mount /proc): %w", err)
	}
	defer func() { _ = f.Close() }() // no data was written
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var seconds, nanoseconds int64
		if line := lines.Text(); strings.HasPrefix(line, "monotonic ") {
			if _, err := fmt.Sscanf(line, "monotonic %d %d", &seconds, &nanoseconds); err != nil {
				return 0, fmt.Errorf("read the offset of the monotonic clock from %q: %w", line, err)
			}
			return time.Duration(seconds)*time.Second + time.Duration(nanoseconds), nil
		}
	}
	return 0, errors.New("read the offset of the monotonic clock: /proc/self/timens_offsets does not have it")
})
