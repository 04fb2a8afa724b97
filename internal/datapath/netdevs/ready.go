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

// Settings that a netdev needs for XDP are changed when a program is attached, and restored when it is detached: a
// pinned map records them, also across a restart. Problems are stored as a sentence for the port's status.

const mapPrepared = "prepared"

// preparations are the bits of a value of the map, in the order of their meanings. They outlive a daemon: new ones are
// added at the end.
var preparations = []string{
	netdev.GRO, netdev.TxChecksum,
	"tx-vlan-hw-insert", "tx-vlan-stag-hw-insert", "rx-vlan-hw-parse", "rx-vlan-stag-hw-parse",
}

func openPrepared(dir string) (*ebpf.Map, error) {
	return bpfmap.Open(filepath.Join(dir, mapPrepared), &ebpf.MapSpec{
		Name: mapPrepared, Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: graph.MaxSlot,
	})
}

// Notes describe problems of netdevs.
type Notes struct {
	log *slog.Logger
	by  sync.Map // ifindex: string
}

// NetdevNote returns why packets cannot pass a netdev that carries a program, with the remedy; "" if no problem is
// known. It does not wait for changes in progress.
func (n *Notes) NetdevNote(ifindex int) string {
	note, _ := n.by.Load(ifindex)
	s, _ := note.(string)
	return s
}

// set stores a netdev's problems and logs new ones.
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

// readyForXDP changes the settings that a netdev needs to receive redirected frames and to give complete ones to
// programs. Problems that it cannot fix are noted: the owner of the peer may fix it later.
func (n *Netdevs) readyForXDP(u *undo.Stack, w want) error {
	if w.spot.place != kindXDP {
		return nil
	}
	var text string
	var ready netdev.Readiness
	var err error
	if w.link.native { // generic XDP sends like the stack, which every netdev supports
		ready, err = netdev.EnsureCanReceiveRedirects(w.name)
		switch {
		case err != nil:
			text = err.Error()
		case !ready.OK && !ready.WithProgram: // it gets one, and attachedNative looks again
			text = ready.Reason
		}
	}
	changed, err := netdev.PreparePeerForXDP(w.name)
	if errors.Is(err, netdev.ErrNotFound) {
		return nil // it is gone, and the event for it has not arrived yet
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

// attachedNative notes whether a netdev that has got its program takes redirected frames. Before, some drivers cannot say.
func (n *Netdevs) attachedNative(w want) {
	if w.spot.place != kindXDP || !w.link.native || n.notes.NetdevNote(w.spot.ifindex) != "" {
		return
	}
	// If it cannot be read, the netdev is about to go.
	if info, err := netdev.Get(w.name); err != nil || info.Kind == "veth" {
		return
	}
	if ready, err := netdev.TakesRedirects(w.name); err == nil && !ready.OK {
		n.notes.set(w, ready.Reason)
	}
}

// remember adds to the recorded settings of a netdev.
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

// undoForXDP restores the settings that readyForXDP changed. A netdev that is gone has none.
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
	// The other end may be disappearing, or out of reach by now, and remaining settings there do no harm.
	if err := netdev.UndoForXDP(l.Attrs().Name, changed); err != nil && !errors.Is(err, netdev.ErrNotFound) {
		n.log.Warn("offloads stay as XDP required them", "netdev", l.Attrs().Name, "switched", changed, "err", err)
	}
	return nil
}

// forgetNetdevs removes a previous daemon's records of netdevs that no longer carry a program of ours: the index may
// belong to another netdev by now.
func (n *Netdevs) forgetNetdevs(redirected func(ifindex uint32) bool) error {
	for name, m := range map[string]*ebpf.Map{mapPromisc: n.promisc, mapPrepared: n.prepared} {
		var key, value uint32
		var gone []uint32
		rows := m.Iterate()
		for rows.Next(&key, &value) {
			i := int(key)
			if n.attached[spot{i, kindIngress}] == nil && n.attached[spot{i, kindXDP}] == nil && !(m == n.prepared && redirected(key)) {
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
