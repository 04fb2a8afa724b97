// SPDX-License-Identifier: Apache-2.0

// Package counters reads the programs' counters: the packets of ports, which accounts turn into totals since the port
// was created, and the fates of packets.
package counters

import (
	"fmt"
	"path/filepath"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// account turns the raw counters of a slot into those of its current port.
//
// Slots are reused, so a port's counters start from the previous value of the slot. And a packet that crosses from one
// cube to another is counted once, as sent: the number received from a linked port is the number that port has sent
// since the link was made. When the link is removed, the sum is added to the base.
type account struct {
	Base PortCounters
	// Peer is the slot of the linked port plus one, 0 for none; PeerPackets and PeerBytes are the values of its
	// counters of sent packets when the link was made.
	Peer                   uint64
	PeerPackets, PeerBytes uint64
}

// Counters read the counters of ports.
type Counters struct{ raws, accounts *ebpf.Map }

// Open opens the accounts, which are pinned in a directory, and the framework's counters.
func Open(dir string, raws *ebpf.Map) (*Counters, error) {
	accounts, err := bpfmap.Open(filepath.Join(dir, abi.MapAccounts), &ebpf.MapSpec{
		Name: abi.MapAccounts, Type: ebpf.Array, KeySize: 4, MaxEntries: link.Pages * link.Slots,
		ValueSize: uint32(unsafe.Sizeof(account{})),
	})
	if err != nil {
		return nil, err
	}
	return &Counters{raws, accounts}, nil
}

// Accounts are the starting values of the ports' counters. They are written while a change is committed.
type Accounts struct{ c *Counters }

// NewAccounts returns the accounts of counters.
func NewAccounts(c *Counters) *Accounts { return &Accounts{c} }

// Close closes the accounts.
func (a *Accounts) Close() { _ = a.c.accounts.Close() }

// PortCounters are totals since the port was created.
type PortCounters struct {
	RxPackets, RxBytes, TxPackets, TxBytes uint64
}

// PortCounters returns a port's totals since the port was created.
func (c *Counters) PortCounters(slot uint16) (PortCounters, error) {
	return c.settled(slot, c.raw)
}

// settled computes a port's totals from raw counters.
func (c *Counters) settled(slot uint16, raw func(uint16) (PortCounters, error)) (PortCounters, error) {
	now, err := raw(slot)
	if err != nil {
		return PortCounters{}, err
	}
	a, err := c.account(slot)
	if err != nil {
		return PortCounters{}, err
	}
	if a.Peer != 0 {
		sent, err := raw(uint16(a.Peer - 1))
		if err != nil {
			return PortCounters{}, err
		}
		now.RxPackets += sent.TxPackets - a.PeerPackets
		now.RxBytes += sent.TxBytes - a.PeerBytes
	}
	return now.minus(a.Base), nil
}

func (c PortCounters) minus(b PortCounters) PortCounters {
	return PortCounters{
		RxPackets: c.RxPackets - b.RxPackets, RxBytes: c.RxBytes - b.RxBytes,
		TxPackets: c.TxPackets - b.TxPackets, TxBytes: c.TxBytes - b.TxBytes,
	}
}

func (c *Counters) account(slot uint16) (account, error) {
	var a account
	if err := c.accounts.Lookup(uint32(slot), &a); err != nil {
		return a, fmt.Errorf("account of slot %d: %w", slot, err)
	}
	return a, nil
}

// rawCounters sums a slot over the CPUs.
func (c *Counters) raw(s uint16) (PortCounters, error) {
	if s > graph.MaxSlot {
		return PortCounters{}, fmt.Errorf("counter slot %d is above %d: %w", s, graph.MaxSlot, cube.ErrInvalid)
	}
	pg, place := abi.SlotAddress(s)
	var pages []abi.Page
	if err := c.raws.Lookup(uint32(pg), &pages); err != nil {
		return PortCounters{}, fmt.Errorf("counters of slot %d: %w", s, err)
	}
	var sum PortCounters
	for i := range pages {
		s := &pages[i].Slot[place]
		sum.RxPackets += s.RxPackets
		sum.RxBytes += s.RxBytes
		sum.TxPackets += s.TxPackets
		sum.TxBytes += s.TxBytes
	}
	return sum, nil
}

// Keep creates accounts for new ports of stale cubes and updates those of ports whose link changed. was is the graph in
// use, nil before the first.
func (a *Accounts) Keep(u *undo.Stack, was, now *graph.Wiring, s graph.Stale) error {
	before := map[uint16]uint64{}
	if was != nil {
		before = linkedSlots(was, s)
	}
	for slot, peer := range linkedSlots(now, s) {
		linked, known := before[slot]
		if known && linked == peer {
			continue
		}
		if err := a.settle(u, slot, peer, !known && was != nil); err != nil {
			return err
		}
	}
	return nil
}

// linkedSlots maps the slot of each port of stale cubes to that of the linked port plus one, or 0.
func linkedSlots(w *graph.Wiring, s graph.Stale) map[uint16]uint64 {
	out := map[uint16]uint64{}
	for id, n := range w.Graph.Cubes {
		if !s.Has(id) {
			continue
		}
		for _, port := range n.Ports {
			out[port.Slot] = 0
			if q := w.PeerOf(id, port); q != nil {
				out[port.Slot] = uint64(q.Slot) + 1
			}
		}
	}
	return out
}

// settle sets the linked port of a slot's account to peer (a slot plus one, or 0). A new port's account starts at zero;
// others keep their counts.
func (a *Accounts) settle(u *undo.Stack, slot uint16, peer uint64, isNew bool) error {
	was, err := a.c.account(slot)
	if err != nil {
		return err
	}
	if !isNew && was.Peer == peer {
		return nil // restored after a restart
	}
	next := account{Base: was.Base, Peer: peer}
	if isNew {
		if next.Base, err = a.c.raw(slot); err != nil {
			return err
		}
	} else if was.Peer != 0 {
		sent, err := a.c.raw(uint16(was.Peer - 1))
		if err != nil {
			return err
		}
		next.Base.RxPackets -= sent.TxPackets - was.PeerPackets
		next.Base.RxBytes -= sent.TxBytes - was.PeerBytes
	}
	if peer != 0 {
		sent, err := a.c.raw(uint16(peer - 1))
		if err != nil {
			return err
		}
		next.PeerPackets, next.PeerBytes = sent.TxPackets, sent.TxBytes
	}
	accounts := a.c.accounts
	u.Push(func() error { return accounts.Put(uint32(slot), was) })
	if err := accounts.Put(uint32(slot), next); err != nil {
		return fmt.Errorf("account of slot %d: %w", slot, err)
	}
	return nil
}
