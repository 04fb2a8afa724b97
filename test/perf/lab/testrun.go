// SPDX-License-Identifier: Apache-2.0

// Programs timed by BPF_PROG_TEST_RUN.

package lab

import (
	"fmt"
	"math"
	"net"
	"runtime"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// Place is the netdev where frames of a test run enter. The zero value is the loopback.
type Place struct {
	ns    *netns.Namespace
	hook  cube.Hook
	index int
}

// NewPlace is a netdev of a namespace, for programs of a hook.
func NewPlace(ns *netns.Namespace, hook cube.Hook, dev string) (at Place, err error) {
	at = Place{ns: ns, hook: hook}
	err = ns.Do(func() error {
		d, err := net.InterfaceByName(dev)
		if err == nil {
			at.index = d.Index
		}
		return err
	})
	return at, err
}

// Hook is that of its programs.
func (at Place) Hook() cube.Hook { return at.hook }

// Run executes a program repeat times on a frame, and returns its last verdict and the CPU time of one execution in ns,
// including the kernel's overhead.
func Run(p *ebpf.Program, frame []byte, repeat int) (verdict uint32, ns float64, err error) {
	return Place{}.Run(p, frame, repeat)
}

// Run is the same, for frames that enter at a place.
func (at Place) Run(p *ebpf.Program, frame []byte, repeat int) (verdict uint32, ns float64, err error) {
	opts := &ebpf.RunOptions{Data: frame, Repeat: uint32(repeat)}
	var took int64
	run := func() error {
		start := threadTime()
		verdict, err = p.Run(opts)
		took = threadTime() - start
		return err
	}
	if at.ns == nil {
		err = run()
	} else {
		opts.Context = bpftest.Context(at.hook, at.index, len(frame))
		err = at.ns.Do(run)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("running %s: %w", p, err)
	}
	return verdict, float64(took) / float64(repeat), nil
}

// Singly executes a program once on each frame, and returns how long each took by the kernel's statistics, in ns. check gets the
// verdict and the frame that comes out. Each run comes from user space, which displaces some of what caches and predictors know.
func (at Place) Singly(p *ebpf.Program, frames [][]byte, check func(i int, verdict uint32, out []byte) error) ([]float64, error) {
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		return nil, fmt.Errorf("statistics of programs: %w", err)
	}
	defer func() { _ = stats.Close() }()
	times := make([]float64, 0, len(frames))
	buffer := make([]byte, 2048)
	err = at.ns.Do(func() error {
		before, err := p.Stats()
		for i := 0; err == nil && i < len(frames); i++ {
			opts := &ebpf.RunOptions{Data: frames[i], DataOut: buffer, Repeat: 1, Context: bpftest.Context(at.hook, at.index, len(frames[i]))}
			verdict, rerr := p.Run(opts)
			if rerr != nil {
				return rerr
			}
			var after *ebpf.ProgramStats
			if after, err = p.Stats(); err != nil {
				return err
			}
			if after.RunCount == before.RunCount+1 { // nothing else has run it
				times = append(times, float64(after.Runtime-before.Runtime))
			}
			before = after
			err = check(i, verdict, opts.DataOut)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("running %s: %w", p, err)
	}
	return times, nil
}

// Effort defines how a program is timed: runs calls of repeat executions, of which the best counts, because
// interruptions only add.
type Effort struct{ Runs, Repeat int }

// EffortFor returns the effort for a hook. A call for an XDP program costs a third of a millisecond by itself (the
// kernel patches its dispatcher), which must not matter; one for a TC program costs next to nothing, so many short ones
// can be made.
func EffortFor(hook cube.Hook) Effort {
	if hook == cube.XDP {
		return Effort{Runs: 3, Repeat: 200_000}
	}
	return Effort{Runs: 10, Repeat: 20_000}
}

// Best is the least CPU time of one execution.
func Best(p *ebpf.Program, frame []byte, e Effort) (float64, error) { return Place{}.Best(p, frame, e) }

// Best is the same, for frames that enter at a place.
func (at Place) Best(p *ebpf.Program, frame []byte, e Effort) (float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := math.Inf(1)
	for range e.Runs {
		_, ns, err := at.Run(p, frame, e.Repeat)
		if err != nil {
			return 0, err
		}
		best = min(best, ns)
	}
	return best, nil
}

// Durations runs a program on a frame in groups, and returns the time per packet of each group by the kernel's clock,
// in ns.
func Durations(p *ebpf.Program, frame []byte, groups, size int) ([]float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out := make([]float64, groups)
	for i := range out {
		_, took, err := p.Benchmark(frame, size, nil)
		if err != nil {
			return nil, fmt.Errorf("timing %s: %w", p, err)
		}
		out[i] = float64(took.Nanoseconds())
	}
	return out, nil
}
