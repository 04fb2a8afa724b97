// SPDX-License-Identifier: Apache-2.0

// Package datapath turns a graph of cubes into programs in the kernel: it creates the
// cubes' maps, links the cubes of each component into one program per hook (chain
// fusion), attaches shared root programs to netdevs, swaps generations without losing a
// packet and reads the counters.
//
// A caller prepares a whole new graph, then commits or aborts it. A Plane owns the graph in
// use, its segments, the order of the steps of a change and the lock; everything else has an
// owner of its own, each in a package below this one that imports only those above it here:
//
//	undo, collect            the way back from a step, what is freed later
//	graph                    the desired state, and what follows from it alone
//	abi, bpfmap              structs and names that programs share, helpers for maps
//	framework                the framework's maps and programs, the loop
//	counters                 counters of ports, accounts, fates
//	tables                   rows that programs look up, and those of the graph in use
//	floods                   sets of ports to flood to, and the groups of their copies
//	netdevs                  root programs, where they are attached, what was switched for them
//	state                    services' objects, cubes' maps and what is saved of programs
//	segments                 descriptions for the linker (package link), generations of programs
//	inject, trial            a packet run through a copy, programs loaded before there are cubes
package datapath

import (
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/collect"
	"github.com/polycube/polycube/internal/datapath/counters"
	"github.com/polycube/polycube/internal/datapath/floods"
	"github.com/polycube/polycube/internal/datapath/framework"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/netdevs"
	"github.com/polycube/polycube/internal/datapath/segments"
	"github.com/polycube/polycube/internal/datapath/state"
	"github.com/polycube/polycube/internal/datapath/tables"
	"github.com/polycube/polycube/internal/expedite"
	"github.com/polycube/polycube/internal/kernel"
)

// Options of a Plane.
type Options struct {
	// Dir is the directory on a bpffs where everything is pinned, created with mode 0700. The programs an earlier
	// daemon left there continue to forward packets until the first change is committed.
	Dir string
	// Instance names the daemon in objects that cannot be pinned (filters).
	Instance string
	Logger   *slog.Logger
	// Mode selects how components are linked; empty is automatic.
	Mode Mode
	// Clsact forces filters on clsact where tcx is available; for tests.
	Clsact bool
	// Taps are the interfaces that accept packets from the slow path, by hook.
	Taps map[cube.Hook]int
	// Loop accepts the copies that XDP programs make for other programs; without one, user space makes them.
	Loop Loop
	// SegmentCubes limits the cubes of one segment, for tests; 0 means as many as the kernel can load.
	SegmentCubes int
	// NoSpares builds no spare programs in the background, and keeps none that are not in use; for tests that count programs.
	NoSpares bool
	// MTU returns a netdev's MTU in bytes; nil asks the kernel.
	MTU func(ifindex int) (int, error)
	// Kernel are the kernel's features; nil asks the kernel. A test removes features.
	Kernel *kernel.Features
	// Relinked is called for programs that are now in use, or that cannot be inlined; it must not wait. It may be
	// nil.
	Relinked func(Relinked)
}

// Plane is the data plane of one daemon. Its methods may be called from many goroutines, but only one prepared change
// at a time can be committed.
type Plane struct {
	*framework.Access
	*netdevs.Helpers
	*netdevs.Notes
	*counters.Counters
	*state.Cubes
	opts Options
	log  *slog.Logger
	// kernel are the features that programs may use.
	kernel kernel.Features

	fw          *framework.Framework
	collect     *collect.Collector
	tables      *tables.Tables
	sets        *floods.Sets
	netdevs     *netdevs.Netdevs
	accounts    *counters.Accounts
	fates       *counters.Fates
	maker       *segments.Maker
	partitioner *partitioner
	slots       slots
	inline      *inliner

	// now is the wiring of the graph in use, for callers that must not wait for a change.
	now atomic.Pointer[graph.Wiring]

	// mu guards the following fields, and the tables, the partitioner and what the inliner refused. It is held from
	// the beginning to the end of Prepare and of Commit.
	mu     sync.Mutex
	state  *state.State
	graph  *Graph // committed; nil before the first commit
	wiring *graph.Wiring
	inUse
	kept kept
	// staleGens are pins of an earlier daemon's generations, which the first commit removes.
	staleGens []string
}

// Change is a prepared step to a new graph: it is committed or aborted, once. It is an alias, so that callers need not
// name it.
type Change = interface {
	// Commit switches to the new graph. On an error everything is as before.
	Commit() error
	// Abort discards the prepared change.
	Abort()
}

// Open opens the data plane, adopting what is pinned under Options.Dir.
func Open(o Options) (*Plane, error) {
	if o.Mode == "" {
		o.Mode = ModeAuto
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Plane{opts: o, log: o.Logger, inUse: newInUse()}
	if o.Kernel != nil {
		p.kernel = *o.Kernel
	} else {
		var err error
		if p.kernel, err = kernel.Probe(); err != nil {
			return nil, err
		}
	}
	for _, d := range []string{"", "core", "cubes", "roots", "links", "generations"} {
		if err := bpfmap.EnsureDir(p.dir(d)); err != nil {
			return nil, err
		}
	}
	if err := p.openParts(); err != nil {
		return nil, err
	}
	stale, err := p.maker.Stale()
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.staleGens = stale
	p.inline = newInliner(p)
	return p, nil
}

func (p *Plane) dir(name string) string { return filepath.Join(p.opts.Dir, name) }

// openParts opens what is pinned, except cubes and their programs.
func (p *Plane) openParts() (err error) {
	o := p.opts
	if p.fw, err = framework.Open(p.dir("core")); err != nil {
		return err
	}
	p.Access = framework.NewAccess(p.fw)
	p.collect = collect.New(p.log)
	p.fates = counters.NewFates(p.fw.Maps[abi.MapFates])
	if p.Counters, err = counters.Open(p.dir("core"), p.fw.Maps[abi.MapCounters]); err == nil {
		p.accounts = counters.NewAccounts(p.Counters)
		through := func(n *Node) bool { return p.state.ThroughEgress(n) }
		p.tables, err = tables.Open(p.fw.Maps, tables.Origin{Tap: o.Taps[cube.TC], Loop: o.Loop, ThroughEgress: through})
	}
	if err == nil {
		p.sets, err = floods.Open(p.log, p.fw, o.Loop, p.tables.InUse())
	}
	if err == nil {
		err = p.openNetdevs()
	}
	if err == nil && o.Loop.Out != 0 {
		err = p.fw.OpenLoopExit(o.Loop)
	}
	if err != nil {
		p.collect.Stop()
		p.closeParts()
		return err
	}
	p.state = state.New(state.Options{
		Dir: o.Dir, Logger: p.log, Collector: p.collect, Floods: p.sets, Fates: p.fates, Lock: &p.mu,
		InGraph: func(id CubeID) bool { return p.graph != nil && p.graph.Cubes[id] != nil },
	})
	p.Cubes = state.NewCubes(p.state)
	p.kept = kept{state: p.state, none: o.NoSpares}
	p.maker = segments.New(segments.Options{
		Framework: p.fw, State: p.state, Kernel: p.kernel, MTU: o.MTU, Collector: p.collect, Dir: p.dir("generations"),
		Tap: o.Taps[cube.TC], LoopOut: o.Loop.Out,
	})
	p.partitioner = &partitioner{state: p.state, counters: p.Counters, cubes: o.SegmentCubes, heavier: map[*link.Object]int{},
		shareable: map[CubeID]knownShareable{}, shared: map[string]uint64{}}
	p.slots = slots{p.fw, p.log}
	return nil
}

func (p *Plane) openNetdevs() (err error) {
	o := p.opts
	s := netdevs.Options{
		Dir: o.Dir, Instance: o.Instance, Clsact: o.Clsact, MTU: o.MTU, Kernel: p.kernel, Loop: o.Loop, Taps: o.Taps, Logger: p.log,
		Framework: p.fw, Collector: p.collect, Redirected: p.tables.SendsTo,
	}
	p.Helpers = netdevs.NewHelpers(s)
	if p.netdevs, err = netdevs.Open(s); err != nil {
		return err
	}
	p.Notes = p.netdevs.Notes()
	return nil
}

// Close closes everything and leaves it running: pinned programs continue to forward packets.
func (p *Plane) Close() error {
	if p.inline != nil {
		p.inline.stop()
	}
	p.collect.Stop()
	p.sets.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for gen := range p.users {
		gen.Release()
	}
	for _, c := range p.kept.all {
		c.gen.Release()
	}
	for _, s := range p.shapes {
		if s.spare != nil {
			s.spare.Release()
		}
	}
	p.state.Close()
	p.closeParts()
	return nil
}

// closeParts closes everything except cubes and their programs.
func (p *Plane) closeParts() {
	if p.netdevs != nil {
		p.netdevs.Close()
	}
	if p.accounts != nil {
		p.accounts.Close()
	}
	p.fw.Close()
}

// Cleanup detaches everything from the netdevs and removes all pins: traffic through the cubes stops. The Plane is
// closed.
func (p *Plane) Cleanup() error {
	defer expedite.Begin()()
	p.mu.Lock()
	err := p.netdevs.DetachAll()
	p.mu.Unlock()
	return errors.Join(err, p.Close(), bpfmap.RemoveAll(p.opts.Dir))
}
