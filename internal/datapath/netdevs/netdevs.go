// SPDX-License-Identifier: Apache-2.0

// Package netdevs attaches root programs to network devices, and prepares the devices for their packets. It owns the
// root programs; a plan for each graph determines which one leads to which segment.
package netdevs

import (
	"errors"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/collect"
	"github.com/polycube/polycube/internal/datapath/framework"
	"github.com/polycube/polycube/internal/kernel"
)

// Netdevs are the network devices with root programs, and the root programs.
type Netdevs struct {
	dir, instance string
	clsact        bool
	askMTU        func(ifindex int) (int, error)
	kernel        kernel.Features
	log           *slog.Logger
	fw            *framework.Framework
	collect       *collect.Collector
	notes         *Notes
	// helpers are the interfaces of the daemon itself.
	helpers map[int]bool
	// promisc and prepared record by ifindex which settings were changed for a program, also across a restart.
	promisc, prepared *ebpf.Map

	// mu guards the following fields.
	mu       sync.Mutex
	attached map[spot]*attachment
	outputs  map[int]linkState // by ifindex; netdevs that are prepared for redirects
	// atIngress are the rows of pcn_tc_ingress.
	atIngress map[uint32]bool
	// withoutXDP are netdevs, by ifindex, that programs at the host could not be attached to at XDP.
	withoutXDP map[int]bool
	roots      map[*root]bool
	lastRoot   int
}

// Options are the parameters of attaching programs to netdevs.
type Options struct {
	// Dir is the directory of a Plane's pins, Instance the name of the daemon in filters.
	Dir, Instance string
	// Clsact forces filters on clsact where tcx would do.
	Clsact bool
	// MTU returns the MTU of a netdev; nil asks the kernel.
	MTU    func(ifindex int) (int, error)
	Kernel kernel.Features
	Loop   framework.Loop
	Taps   map[cube.Hook]int
	Logger *slog.Logger
	// Redirected reports whether programs of a previous daemon send to a netdev.
	Redirected func(ifindex uint32) bool
	Framework  *framework.Framework
	Collector  *collect.Collector
}

// Open finds the programs of a previous daemon on the netdevs.
func Open(s Options) (*Netdevs, error) {
	n := &Netdevs{
		dir: s.Dir, instance: s.Instance, clsact: s.Clsact, askMTU: s.MTU, kernel: s.Kernel, log: s.Logger,
		fw: s.Framework, collect: s.Collector, notes: &Notes{log: s.Logger}, helpers: s.helpers(),
		attached: map[spot]*attachment{}, outputs: map[int]linkState{}, withoutXDP: map[int]bool{}, roots: map[*root]bool{},
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
		err = n.forgetNetdevs(s.Redirected)
	}
	if err == nil {
		err = n.openIngress()
	}
	if err != nil {
		n.closeMaps()
		return nil, err
	}
	return n, nil
}

// Notes returns the notes about netdevs, which are read while a change is in progress.
func (n *Netdevs) Notes() *Notes { return n.notes }

// Count returns the number of attachment points with a root program.
func (n *Netdevs) Count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.attached)
}

// Close closes everything and leaves the programs attached.
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

// DetachAll detaches the programs from all netdevs.
func (n *Netdevs) DetachAll() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for s, a := range n.attached {
		errs = append(errs, a.hold.detach(), n.promiscOff(s), n.undoForXDP(s))
		delete(n.attached, s)
	}
	others := map[uint32]uint32{} // netdevs without a program, to which packets are redirected
	errs = append(errs, bpfmap.ReadHash(n.prepared, others))
	for ifindex := range others {
		errs = append(errs, n.undoForXDP(spot{int(ifindex), kindXDP}))
	}
	return errors.Join(errs...)
}

// locked returns an undo step that holds the lock.
func (n *Netdevs) locked(step func() error) func() error {
	return func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		return step()
	}
}
