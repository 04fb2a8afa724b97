// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/undo"
)

// account is what turns the raw counters of a slot into those of the port that has it now.
//
// Slots are used again, so a port's counters start from where the slot stood. And a packet
// that crosses from one cube to another is counted once, as sent: what a port received from
// a linked port is what that port has sent since the link was made. When the link goes, the
// sum goes into the base.
type account struct {
	Base PortCounters
	// Peer is the slot of the linked port plus one, 0 for none; PeerPackets and PeerBytes
	// are where its counters of sent packets stood when the link was made.
	Peer                   uint64
	PeerPackets, PeerBytes uint64
}

// PortCounters returns a port's totals since the port was made.
func (p *Plane) PortCounters(slot uint16) (PortCounters, error) {
	return p.settled(slot, p.rawCounters)
}

// settled makes a port's totals of raw counters.
func (p *Plane) settled(slot uint16, raw func(uint16) (PortCounters, error)) (PortCounters, error) {
	now, err := raw(slot)
	if err != nil {
		return PortCounters{}, err
	}
	a, err := p.account(slot)
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

func (p *Plane) account(slot uint16) (account, error) {
	var a account
	if err := p.fw.maps[abi.MapAccounts].Lookup(uint32(slot), &a); err != nil {
		return a, fmt.Errorf("account of slot %d: %w", slot, err)
	}
	return a, nil
}

// rawCounters sums a slot over the CPUs.
func (p *Plane) rawCounters(s uint16) (PortCounters, error) {
	if s > MaxSlot {
		return PortCounters{}, fmt.Errorf("counter slot %d is above %d: %w", s, MaxSlot, cube.ErrInvalid)
	}
	pg, place := abi.SlotAddress(s)
	var pages []abi.Page
	if err := p.fw.maps[abi.MapCounters].Lookup(uint32(pg), &pages); err != nil {
		return PortCounters{}, fmt.Errorf("counters of slot %d: %w", s, err)
	}
	var sum PortCounters
	for i := range pages {
		c := &pages[i].Slot[place]
		sum.RxPackets += c.RxPackets
		sum.RxBytes += c.RxBytes
		sum.TxPackets += c.TxPackets
		sum.TxBytes += c.TxBytes
	}
	return sum, nil
}

// keepAccounts opens accounts for new ports and settles those of ports whose link changed.
func (ch *change) keepAccounts(u *undo.Stack) error {
	before := map[uint16]uint64{}
	if ch.p.graph != nil {
		before = linkedSlots(ch.p.wiring, ch.stale)
	}
	for slot, peer := range linkedSlots(ch.wiring, ch.stale) {
		was, known := before[slot]
		if known && was == peer {
			continue
		}
		if err := ch.p.settle(u, slot, peer, !known && ch.p.graph != nil); err != nil {
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

// settle makes the account of a slot say that its port is linked to peer (a slot plus one, or
// 0). A new port's account starts at zero; others keep what they have counted.
func (p *Plane) settle(u *undo.Stack, slot uint16, peer uint64, isNew bool) error {
	was, err := p.account(slot)
	if err != nil {
		return err
	}
	if !isNew && was.Peer == peer {
		return nil // restored after a restart
	}
	a := account{Base: was.Base, Peer: peer}
	if isNew {
		if a.Base, err = p.rawCounters(slot); err != nil {
			return err
		}
	} else if was.Peer != 0 {
		sent, err := p.rawCounters(uint16(was.Peer - 1))
		if err != nil {
			return err
		}
		a.Base.RxPackets -= sent.TxPackets - was.PeerPackets
		a.Base.RxBytes -= sent.TxBytes - was.PeerBytes
	}
	if peer != 0 {
		sent, err := p.rawCounters(uint16(peer - 1))
		if err != nil {
			return err
		}
		a.PeerPackets, a.PeerBytes = sent.TxPackets, sent.TxBytes
	}
	accounts := p.fw.maps[abi.MapAccounts]
	u.Push(func() error { return accounts.Put(uint32(slot), was) })
	if err := accounts.Put(uint32(slot), a); err != nil {
		return fmt.Errorf("account of slot %d: %w", slot, err)
	}
	return nil
}
