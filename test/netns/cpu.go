// SPDX-License-Identifier: Apache-2.0

// A thread that sends from one CPU keeps its frames in order: behind a veth, each CPU has its own queue, and a thread
// that moves to another CPU may overtake its earlier frames.

package netns

import (
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnCPU runs fn on a thread bound to one CPU.
func OnCPU(cpu int, fn func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var was, now unix.CPUSet
	if err := unix.SchedGetaffinity(0, &was); err != nil {
		return fmt.Errorf("reading the thread's CPUs: %w", err)
	}
	now.Set(cpu)
	if err := unix.SchedSetaffinity(0, &now); err != nil {
		return fmt.Errorf("binding the thread to CPU %d: %w", cpu, err)
	}
	return errors.Join(fn(), unix.SchedSetaffinity(0, &was))
}

// Uninterrupted runs fn without Go's preemption signal: that interrupts a test run of many packets, which is then
// restarted, and some packets are counted twice.
func Uninterrupted(fn func() error) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var set, old unix.Sigset_t
	set.Val[0] = 1 << (unix.SIGURG - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old); err != nil {
		return fmt.Errorf("blocking a signal: %w", err)
	}
	defer func() { err = errors.Join(err, unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)) }()
	return fn()
}

// CPUs are the CPUs that the calling thread may run on.
func CPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("reading the thread's CPUs: %w", err)
	}
	var cpus []int
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
