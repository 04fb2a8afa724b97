// SPDX-License-Identifier: Apache-2.0

// Package netdevs attaches root programs to network devices, and does to a device what its packets
// need to pass. It owns the root programs; which one leads to which segment is planned for each graph.
package netdevs

import (
	"errors"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/collect"
	"github.com/polycube/polycube/internal/datapath/framework"
	"github.com/polycube/polycube/internal/kernel"
)

// Netdevs are the network devices that carry root programs, and the root programs.
type Netdevs struct {
	dir, instance string
	clsact        bool
	askMTU        func(ifindex int) (int, error)
	kernel        kernel.Features
	log           *slog.Logger
	fw            *framework.Framework
	collect       *collect.Collector
	notes         *Notes
	// promisc and prepared remember by ifindex what was switched for a program, after a restart too.
	promisc, prepared *ebpf.Map

	// mu guards what follows.
	mu       sync.Mutex
	attached map[spot]*attachment
	roots    map[*root]bool
	lastRoot int
}

// Options says with what netdevs get programs.
type Options struct {
	// Dir is the directory of a Plane's pins, Instance the name of the daemon in filters.
	Dir, Instance string
	// Clsact forces filters on clsact where tcx would do.
	Clsact bool
	// MTU returns the MTU of a netdev; nil asks the kernel.
	MTU       func(ifindex int) (int, error)
	Kernel    kernel.Features
	Loop      framework.Loop
	Taps      map[cube.Hook]int
	Logger    *slog.Logger
	Framework *framework.Framework
	Collector *collect.Collector
}

// Open finds what an earlier daemon left on the netdevs.
func Open(s Options) (*Netdevs, error) {
	n := &Netdevs{
		dir: s.Dir, instance: s.Instance, clsact: s.Clsact, askMTU: s.MTU, kernel: s.Kernel, log: s.Logger,
		fw: s.Framework, collect: s.Collector, notes: &Notes{log: s.Logger},
		attached: map[spot]*attachment{}, roots: map[*root]bool{},
	}
	core := filepath.Join(s.Dir, "core")
	var err error
	if n.promisc, err = openPromisc(core); err != nil {
		return nil, err
	}
	if n.prepared, err = openPrepared(core); err == nil {
		err = n.openAttachments()
	}
	if err == nil {
		err = n.forgetNetdevs()
	}
	if err != nil {
		n.closeMaps()
		return nil, err
	}
	return n, nil
}

// Notes returns the notes about netdevs, which are read while a change is under way.
func (n *Netdevs) Notes() *Notes { return n.notes }

// Count is how many places of netdevs carry a root program.
func (n *Netdevs) Count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.attached)
}

// Close lets go of everything and leaves it where it is.
func (n *Netdevs) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range n.attached {
		a.hold.close()
	}
	for r := range n.roots {
		r.close()
	}
	n.closeMaps()
}

func (n *Netdevs) closeMaps() {
	for _, m := range []*ebpf.Map{n.promisc, n.prepared} {
		if m != nil {
			_ = m.Close()
		}
	}
}

// DetachAll takes the programs off all netdevs.
func (n *Netdevs) DetachAll() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for s, a := range n.attached {
		errs = append(errs, a.hold.detach(), n.promiscOff(s), n.undoForXDP(s))
		delete(n.attached, s)
	}
	return errors.Join(errs...)
}

// locked makes a step back one that holds the lock.
func (n *Netdevs) locked(step func() error) func() error {
	return func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		return step()
	}
}
