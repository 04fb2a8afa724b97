// SPDX-License-Identifier: Apache-2.0

package datapath

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

// maker describes segments of a graph, and links and loads their programs.
type maker struct {
	fw    *framework.Framework
	state *state.State
	// kernel is what programs may rely on.
	kernel  kernel.Features
	askMTU  func(ifindex int) (int, error)
	collect *collect.Collector
	dir     string // where generations are pinned
	// tap and loopOut are the interfaces by which packets enter programs again, at TC and at XDP.
	tap, loopOut int
	sequence     atomic.Uint64 // of generations
	activity     activity
}

// makerSetup says with what a maker works.
type makerSetup struct {
	Framework *framework.Framework
	State     *state.State
	Kernel    kernel.Features
	// MTU returns the MTU of a netdev; nil asks the kernel.
	MTU       func(ifindex int) (int, error)
	Collector *collect.Collector
	// Dir is where generations are pinned.
	Dir string
	// Tap and LoopOut are the interfaces by which packets enter programs again, at TC and at XDP.
	Tap, LoopOut int
}

func newMaker(s makerSetup) *maker {
	return &maker{
		fw: s.Framework, state: s.State, kernel: s.Kernel, askMTU: s.MTU, collect: s.Collector, dir: s.Dir,
		tap: s.Tap, loopOut: s.LoopOut, activity: newActivity(),
	}
}

// stale lists the pins of generations that an earlier daemon made; they can go once
// the first commit has replaced them.
func (m *maker) stale() ([]string, error) {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return nil, fmt.Errorf("reading generations: %w", err)
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

// dispose closes a generation that no packet is in, now or, where its pins cannot be removed, later.
func (m *maker) dispose(gen *generation) {
	_ = m.collect.OrLater(gen.close) // the collector has logged it
}
