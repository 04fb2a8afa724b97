// SPDX-License-Identifier: Apache-2.0

// Programs timed by BPF_PROG_TEST_RUN.

package lab

import (
	"fmt"
	"math"
	"runtime"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
)

// Run executes a program repeat times on a frame, and returns its last verdict and the CPU time
// of one execution in ns, what the kernel spends around it included.
func Run(p *ebpf.Program, frame []byte, repeat int) (verdict uint32, ns float64, err error) {
	start := threadTime()
	verdict, err = p.Run(&ebpf.RunOptions{Data: frame, Repeat: uint32(repeat)})
	took := threadTime() - start
	if err != nil {
		return 0, 0, fmt.Errorf("running %s: %w", p, err)
	}
	return verdict, float64(took) / float64(repeat), nil
}

// Effort says how a program is timed: runs calls of repeat executions, the best of which counts,
// since interruptions only add.
type Effort struct{ Runs, Repeat int }

// EffortFor is the effort for a hook. A call for an XDP program costs a third of a millisecond by
// itself (the kernel patches its dispatcher), which must not show; one for a TC program nothing
// to speak of, so many short ones can be made.
func EffortFor(hook cube.Hook) Effort {
	if hook == cube.XDP {
		return Effort{Runs: 3, Repeat: 200_000}
	}
	return Effort{Runs: 10, Repeat: 20_000}
}

// Best is the least CPU time of one execution.
func Best(p *ebpf.Program, frame []byte, e Effort) (float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := math.Inf(1)
	for range e.Runs {
		_, ns, err := Run(p, frame, e.Repeat)
		if err != nil {
			return 0, err
		}
		best = min(best, ns)
	}
	return best, nil
}

// Durations runs a program on a frame in groups, and returns what a packet of each group took by
// the kernel's clock, in ns.
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
