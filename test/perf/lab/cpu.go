// SPDX-License-Identifier: Apache-2.0

// CPU time is measured: wall time would include other load on the machine.

package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
)

// threadTime is the CPU time of the calling thread in nanoseconds.
func threadTime() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err) // the clock is always there
	}
	return ts.Nano()
}

// CPUTime runs fn on one CPU and returns the CPU time in ns that it took: of the thread, and of that CPU's ksoftirqd,
// which sometimes takes over.
func CPUTime(cpu int, fn func() error) (ns int64, err error) {
	pid, err := ksoftirqd(cpu)
	if err != nil {
		return 0, err
	}
	err = netns.OnCPU(cpu, func() error {
		soft, err := processTime(pid)
		if err != nil {
			return err
		}
		start := threadTime()
		if err := fn(); err != nil {
			return err
		}
		ns = threadTime() - start
		later, err := processTime(pid)
		ns += later - soft
		return err
	})
	return ns, err
}

// SoftirqTime is the CPU time in ns that ksoftirqd has used so far, on all CPUs together.
func SoftirqTime() (sum int64, err error) {
	for cpu := range runtime.NumCPU() {
		pid, err := ksoftirqd(cpu)
		if err != nil {
			return 0, err
		}
		ns, err := processTime(pid)
		if err != nil {
			return 0, err
		}
		sum += ns
	}
	return sum, nil
}

// lastCPU is the highest number of a CPU that the process may use.
func lastCPU() int { return runtime.NumCPU() - 1 }

// processTime is the CPU time in ns that the first thread of a process has used.
func processTime(pid int) (int64, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "schedstat"))
	if err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	ns, err := strconv.ParseInt(strings.Fields(string(data))[0], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return ns, nil
}

// ksoftirqd is the process that handles remaining softirqs of a CPU.
func ksoftirqd(cpu int) (int, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		comm, err := os.ReadFile(path)
		if err == nil && strings.TrimSpace(string(comm)) == "ksoftirqd/"+strconv.Itoa(cpu) {
			return strconv.Atoi(filepath.Base(filepath.Dir(path)))
		}
	}
	return 0, fmt.Errorf("no ksoftirqd of CPU %d among the processes", cpu)
}
