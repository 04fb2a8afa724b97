// SPDX-License-Identifier: Apache-2.0

package bpftest

// The same frame on two CPUs at the same moment, as when a client's packet and its copy come in by two queues of a NIC.

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

// AtOnce runs the program of a netdev on each frame on two CPUs at the same moment, and returns the resulting bytes of both, nil for one
// that was dropped. It does not check counters. It skips the test if there is only one CPU.
func (l *Lab) AtOnce(dev string, frames [][]byte) (got [][2][]byte) {
	l.t.Helper()
	cpus, err := netns.CPUs()
	if err != nil {
		l.t.Fatal(err)
	}
	if len(cpus) < 2 {
		l.t.Skip("two CPUs are needed for packets at the same moment")
	}
	got = make([][2][]byte, len(frames))
	var wg sync.WaitGroup
	var errs [2]error
	start := meeting{others: 2}
	for i, cpu := range cpus[:2] {
		wg.Go(func() {
			errs[i] = l.Do(func() error {
				return netns.OnCPU(cpu, func() error { return l.runAt(dev, frames, &start, func(n int, bytes []byte) { got[n][i] = bytes }) })
			})
		})
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		l.t.Fatalf("frames on %s: %v", dev, err)
	}
	return got
}

// runAt runs each frame when all threads are ready for it.
func (l *Lab) runAt(dev string, frames [][]byte, start *meeting, each func(n int, bytes []byte)) (err error) {
	defer func() { start.broken.Store(err != nil || start.broken.Load()) }()
	prog, ifindex, err := l.program(dev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, prog.Close()) }()
	dropped := uint32(tcShot)
	if l.Type.Hook() == cube.XDP {
		dropped = xdpDrop
	}
	for n, frame := range frames {
		opts := l.testRun(ifindex, frame)
		if !start.wait(n) {
			return nil // the other thread says why
		}
		verdict, err := prog.Run(opts)
		if err != nil {
			return err
		}
		if verdict != dropped {
			each(n, opts.DataOut)
		}
	}
	return nil
}

// meeting is where threads wait for each other. They do not sleep, or they would not continue at the same moment.
type meeting struct {
	others int64
	came   atomic.Int64
	broken atomic.Bool
}

// wait returns when all threads are there for the nth time; false if one has failed.
func (m *meeting) wait(n int) bool {
	m.came.Add(1)
	for m.came.Load() < m.others*int64(n+1) {
		if m.broken.Load() {
			return false
		}
	}
	return true
}
