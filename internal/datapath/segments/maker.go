// SPDX-License-Identifier: Apache-2.0

// Package segments describes parts of the graph for the linker, and links and loads their programs.
package segments

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/polycube/polycube/internal/datapath/collect"
	"github.com/polycube/polycube/internal/datapath/framework"
	"github.com/polycube/polycube/internal/datapath/state"
	"github.com/polycube/polycube/internal/kernel"
)

// Maker describes segments of a graph, and links and loads their programs.
type Maker struct {
	fw    *framework.Framework
	state *state.State
	// kernel contains the features that programs may use.
	kernel  kernel.Features
	askMTU  func(ifindex int) (int, error)
	collect *collect.Collector
	dir     string // where generations are pinned
	// tap and loopOut are the interfaces through which packets re-enter programs, at TC and at XDP.
	tap, loopOut int
	sequence     atomic.Uint64 // of generations
	activity     activity
}

// Options are the parameters of a maker.
type Options struct {
	Framework *framework.Framework
	State     *state.State
	Kernel    kernel.Features
	// MTU returns the MTU of a netdev; nil asks the kernel.
	MTU       func(ifindex int) (int, error)
	Collector *collect.Collector
	// Dir is where generations are pinned.
	Dir string
	// Tap and LoopOut are the interfaces through which packets re-enter programs, at TC and at XDP.
	Tap, LoopOut int
}

// New creates a Maker.
func New(s Options) *Maker {
	return &Maker{
		fw: s.Framework, state: s.State, kernel: s.Kernel, askMTU: s.MTU, collect: s.Collector, dir: s.Dir,
		tap: s.Tap, loopOut: s.LoopOut, activity: newActivity(),
	}
}

// Stale lists the pins of generations of a previous daemon; they can be removed once the first commit has replaced
// them.
func (m *Maker) Stale() ([]string, error) {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return nil, fmt.Errorf("read generations: %w", err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, filepath.Join(m.dir, e.Name()))
		var n uint64
		if _, err := fmt.Sscan(e.Name(), &n); err == nil && n > m.sequence.Load() {
			m.sequence.Store(n)
		}
	}
	return out, nil
}

// Dispose closes a generation that no packet is in, now or, if its pins cannot be removed, later.
func (m *Maker) Dispose(gen *Generation) {
	_ = m.collect.OrLater(gen.Close) // the collector has logged it
}
