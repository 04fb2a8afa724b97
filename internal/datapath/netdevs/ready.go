// SPDX-License-Identifier: Apache-2.0

package netdevs

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/undo"
	"github.com/polycube/polycube/internal/netdev"
)

// What a netdev needs to carry XDP is switched when a program comes to it, and back when the
// program goes: a pinned map remembers it, so that a restart in between makes no difference. What
// stands in the way of packets is kept as a sentence for those who ask for the port's status.

const mapPrepared = "prepared"

// preparations are the bits of a value of the map, in the order of what they stand for. They
// outlive a daemon: new ones go to the end.
var preparations = []string{
	netdev.GRO, netdev.TxChecksum,
	"tx-vlan-hw-insert", "tx-vlan-stag-hw-insert", "rx-vlan-hw-parse", "rx-vlan-stag-hw-parse",
}

func openPrepared(dir string) (*ebpf.Map, error) {
	return bpfmap.Open(filepath.Join(dir, mapPrepared), &ebpf.MapSpec{
		Name: mapPrepared, Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: graph.MaxSlot,
	})
}

// Notes say what stands in the way of packets by netdevs.
type Notes struct {
	log *slog.Logger
	by  sync.Map // ifindex: string
}

// NetdevNote says what stands in the way of packets by a netdev that carries a program, and what
// to do; "" when nothing is known. It does not wait for changes under way.
func (n *Notes) NetdevNote(ifindex int) string {
	note, _ := n.by.Load(ifindex)
	s, _ := note.(string)
	return s
}

// set keeps what is known of a netdev and logs what is new.
func (n *Notes) set(w want, text string) {
	old := n.NetdevNote(w.spot.ifindex)
	switch {
	case text == old:
	case text == "":
		n.by.Delete(w.spot.ifindex)
		n.log.Info("the netdev now accepts redirected frames", "netdev", w.name)
	default:
		n.by.Store(w.spot.ifindex, text)
		n.log.Warn("frames through this netdev are lost or damaged", "netdev", w.name, "reason", text)
	}
}

// readyForXDP prepares what a netdev needs to take redirected frames and to hand whole ones to
// programs. What it cannot mend is noted: the peer may be mended later by those it belongs to.
func (n *Netdevs) readyForXDP(u *undo.Stack, w want) error {
	if w.spot.place != kindXDP {
		return nil
	}
	var text string
	var ready netdev.Readiness
	var err error
	if w.link.native { // generic XDP sends as the stack does, which every netdev takes
		ready, err = netdev.EnsureCanReceiveRedirects(w.name)
		switch {
		case err != nil:
			text = err.Error()
		case !ready.OK:
			text = ready.Reason
		}
	}
	changed, err := netdev.PreparePeerForXDP(w.name)
	if errors.Is(err, netdev.ErrNotFound) {
		return nil // it has gone, and the event that says so is under way
	}
	if err != nil && text == "" {
		text = err.Error()
	}
	if ready.Changed {
		changed = append(changed, netdev.GRO)
	}
	if text == "" {
		text = n.mtuNote(w)
	}
	if len(changed) > 0 {
		n.log.Info("prepared the netdev for XDP", "netdev", w.name, "switched", changed)
		u.Push(func() error { return n.undoForXDP(w.spot) })
		if err := n.remember(w.spot, changed); err != nil {
			return fmt.Errorf("netdev %s: %w", w.name, err)
		}
	}
	n.notes.set(w, text)
	return nil
}

// remember adds to what was switched for a netdev.
func (n *Netdevs) remember(s spot, changed []string) error {
	m, key := n.prepared, uint32(s.ifindex)
	var bits uint32
	if err := m.Lookup(key, &bits); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("save the switched offloads: %w", err)
	}
	for _, what := range changed {
		if i := slices.Index(preparations, what); i >= 0 {
			bits |= 1 << i
		}
	}
	if err := m.Put(key, bits); err != nil {
		return fmt.Errorf("save the switched offloads: %w", err)
	}
	return nil
}

// undoForXDP switches back what readyForXDP did. A netdev that is gone takes it along.
func (n *Netdevs) undoForXDP(s spot) error {
	if s.place != kindXDP {
		return nil
	}
	n.notes.by.Delete(s.ifindex)
	m, key := n.prepared, uint32(s.ifindex)
	var bits uint32
	if err := m.LookupAndDelete(key, &bits); errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("netdev %d: offloads switched for XDP: %w", s.ifindex, err)
	}
	l, err := netlink.LinkByIndex(s.ifindex)
	var gone netlink.LinkNotFoundError
	if errors.As(err, &gone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("netdev %d: %w", s.ifindex, err)
	}
	var changed []string
	for i, what := range preparations {
		if bits&(1<<i) != 0 {
			changed = append(changed, what)
		}
	}
	// The other end may be going, or out of reach by now, and what is left there does no harm.
	if err := netdev.UndoForXDP(l.Attrs().Name, changed); err != nil && !errors.Is(err, netdev.ErrNotFound) {
		n.log.Warn("offloads stay as XDP required them", "netdev", l.Attrs().Name, "switched", changed, "err", err)
	}
	return nil
}

// forgetNetdevs forgets what an earlier daemon did to netdevs that carry no program of ours any
// more: the number may be another netdev's by now.
func (n *Netdevs) forgetNetdevs() error {
	for name, m := range map[string]*ebpf.Map{mapPromisc: n.promisc, mapPrepared: n.prepared} {
		var key, value uint32
		var gone []uint32
		rows := m.Iterate()
		for rows.Next(&key, &value) {
			i := int(key)
			if n.attached[spot{i, kindIngress}] == nil && n.attached[spot{i, kindXDP}] == nil {
				gone = append(gone, key)
			}
		}
		if err := rows.Err(); err != nil {
			return fmt.Errorf("read map %s: %w", name, err)
		}
		for _, key := range gone {
			if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("map %s: %w", name, err)
			}
		}
	}
	return nil
}
