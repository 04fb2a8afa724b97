// SPDX-License-Identifier: Apache-2.0

// Package align gives netdevs the addresses of the ports that they are the peers of, and removes them when the ports leave
// (ADR 0038).
package align

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/neighbours"
	"github.com/polycube/polycube/internal/topology/world"
)

// Netdevs reads and changes network devices.
type Netdevs interface {
	// Status returns how a device looks to others; its error wraps [netdev.ErrNotFound] for a device that does not exist.
	Status(name string) (netdev.Status, error)
	// Put changes that, whole or not at all. A device that is gone is no error.
	Put(index int, d netdev.Settings) error
}

// Aligner changes netdevs.
type Aligner struct {
	netdevs    Netdevs
	neighbours *neighbours.Neighbours
	log        *slog.Logger
	synced     func() bool
}

// New returns an aligner. synced reports whether the netdevs that exist at the start have all been reported: until then, a
// netdev may have addresses of its port that are not known here.
func New(netdevs Netdevs, n *neighbours.Neighbours, log *slog.Logger, synced func() bool) *Aligner {
	return &Aligner{netdevs: netdevs, neighbours: n, log: log, synced: synced}
}

// Change is what one transaction changes at netdevs.
type Change struct {
	*Aligner
	aligned map[string]*world.Aligned
	undo    []func() error
}

// Begin begins a change. It keeps aligned up to date: the netdevs that have the addresses of their ports.
func (a *Aligner) Begin(aligned map[string]*world.Aligned) *Change {
	return &Change{Aligner: a, aligned: aligned}
}

// Undo undoes the change, last step first.
func (c *Change) Undo() error {
	var errs []error
	for _, undo := range slices.Backward(c.undo) {
		errs = append(errs, undo())
	}
	return errors.Join(errs...)
}

// Set gives a netdev the addresses of its port. A netdev that has just disappeared is no error.
func (c *Change) Set(p *world.Port, want cube.Alignment) error {
	err := c.set(p, want)
	if errors.Is(err, netdev.ErrNotFound) {
		delete(c.aligned, p.Peer) // with all that it was given
		p.OwnMAC = ""
		return nil
	}
	return err
}

// set is Set with an error for a netdev that has disappeared.
func (c *Change) set(p *world.Port, want cube.Alignment) error {
	status, err := c.netdevs.Status(p.Peer)
	if err != nil {
		return err
	}
	if want.ReadOnly {
		want = cube.Alignment{}
	}
	var d netdev.Settings
	for _, a := range want.Addresses {
		ours, there := slices.Contains(status.Ours, a), slices.Contains(status.Addresses, a)
		if there != ours || status.NoIPv6 && a.Addr().Is6() {
			continue // somebody else's, or of no use
		}
		if c.neighbours.Elsewhere(p.Peer, a.Addr()) {
			c.log.Warn("an address of a port is not added to its netdev: the host has another netdev in its network",
				"netdev", p.Peer, "address", a)
			continue
		}
		d.Add = append(d.Add, a)
	}
	d.Remove, d.Add = world.Without(status.Ours, d.Add), world.Without(d.Add, status.Ours)
	is := &world.Aligned{PortUUID: p.UUID, Status: status}
	is.Addresses = append(world.Without(status.Addresses, d.Remove), d.Add...)
	is.Ours = append(world.Without(status.Ours, d.Remove), d.Add...)
	own := p.OwnMAC
	c.setMAC(p, want.MAC, status.MAC, &d, is)
	kept, err := c.put(status, d)
	if err != nil {
		return err
	}
	switch {
	case kept:
		p.OwnMAC, is.Given = own, nil
	case d.MAC != nil:
		is.MAC = d.MAC
	}
	c.aligned[p.Peer] = is
	return nil
}

// Release removes from a netdev what a port gave it. A netdev from which it cannot be removed does not keep the port.
func (c *Change) Release(p *world.Port) {
	a := c.aligned[p.Peer]
	if !p.OnNetdev() || a == nil && p.OwnMAC == "" && c.synced() || a != nil && a.PortUUID != p.UUID {
		return
	}
	delete(c.aligned, p.Peer)
	own, noMAC := net.ParseMAC(p.OwnMAC)
	p.OwnMAC = ""
	status, err := c.netdevs.Status(p.Peer)
	if errors.Is(err, netdev.ErrNotFound) {
		return // with all addresses
	}
	if err == nil {
		d := netdev.Settings{Remove: status.Ours}
		if noMAC == nil && a.Gave(status.MAC) {
			d.MAC = own
		}
		_, err = c.put(status, d)
	}
	if err != nil {
		c.log.Warn("a netdev keeps the addresses of a port", "netdev", p.Peer, "error", err)
	}
}

// setMAC decides on the MAC address of a netdev: the port's, if it has one configured, else its own.
func (c *Change) setMAC(p *world.Port, want, has net.HardwareAddr, d *netdev.Settings, is *world.Aligned) {
	own, err := net.ParseMAC(p.OwnMAC)
	was := c.aligned[p.Peer]
	switch {
	case want == nil && err == nil:
		if was.Gave(has) {
			d.MAC = own
		}
		p.OwnMAC = ""
	case want == nil:
	case bytes.Equal(want, has):
		is.Given = want
	default:
		if err != nil {
			p.OwnMAC = has.String()
		}
		d.MAC, is.Given = want, want
	}
}

// put changes a netdev until the change is undone. A device that cannot change its MAC address while it runs keeps it, and
// stays in promiscuous mode.
func (c *Change) put(status netdev.Status, d netdev.Settings) (kept bool, err error) {
	if d.MAC == nil && len(d.Add)+len(d.Remove) == 0 {
		return false, nil
	}
	err = c.netdevs.Put(status.Index, d)
	if d.MAC != nil && (errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EOPNOTSUPP)) {
		c.log.Warn("a netdev keeps its MAC address; frames to that of the port are received in promiscuous mode", "index", status.Index, "error", err)
		d.MAC, kept = nil, true
		err = c.netdevs.Put(status.Index, d)
	}
	if err != nil {
		return false, err
	}
	back := netdev.Settings{Add: d.Remove, Remove: d.Add}
	if d.MAC != nil {
		back.MAC = status.MAC
	}
	c.undo = append(c.undo, func() error { return c.netdevs.Put(status.Index, back) })
	return kept, nil
}
