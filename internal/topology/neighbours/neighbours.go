// SPDX-License-Identifier: Apache-2.0

// Package neighbours notifies cubes of what is around them: transparent cubes of what they inherit from the place where they
// are attached and of where their outputs lead, standard cubes of what their ports are connected to. Both are recomputed after each change that may affect
// them, and a cube is notified if they differ from the last notification. One lock keeps the order. A notification is
// composed when the cube is ready to receive it, so a burst of changes is one notification.
package neighbours

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// Netdevs finds a network device and tells how it looks to others; errors are as those of [netdev.Get].
type Netdevs interface {
	Get(name string) (netdev.Info, error)
	Status(name string) (netdev.Status, error)
}

// Neighbours knows the netdevs, and notifies cubes of what is around them. Its methods may be called from any goroutine.
type Neighbours struct {
	view    *atomic.Pointer[unit.Snapshot]
	netdevs Netdevs
	news    *unit.News

	// mu orders the notifications; it guards what follows.
	mu sync.Mutex
	// infos are the netdevs by name.
	infos map[string]netdev.Info
	// told is the last notification of each running cube.
	told map[*unit.Unit]*surroundings
}

// New returns neighbours without netdevs. view is the current snapshot, news delivers the notifications.
func New(view *atomic.Pointer[unit.Snapshot], netdevs Netdevs, news *unit.News) *Neighbours {
	return &Neighbours{view: view, netdevs: netdevs, news: news, infos: map[string]netdev.Info{},
		told: map[*unit.Unit]*surroundings{}}
}

// surroundings is the last notification of a cube about its parent or its peers, delivered or not.
type surroundings struct {
	parent parentNews
	peers  peers
}

// of returns the last notification of a cube. n.mu is held.
func (n *Neighbours) of(u *unit.Unit) *surroundings {
	s := n.told[u]
	if s == nil {
		s = &surroundings{}
		n.told[u] = s
	}
	return s
}

// Note takes an event of a netdev in.
func (n *Neighbours) Note(e netdev.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	forget := func(i netdev.Info) {
		if n.infos[i.Name].Index == i.Index {
			delete(n.infos, i.Name)
		}
	}
	switch e.Kind {
	case netdev.Added, netdev.Changed:
		if e.Old != nil && e.Old.Name != e.Info.Name {
			forget(*e.Old)
		}
		n.infos[e.Info.Name] = e.Info
	case netdev.Removed:
		forget(e.Info)
	case netdev.Synced: // about no device
	}
}

// Tell notifies transparent cubes of changes of their parents and outputs, and standard cubes of changes of their peers.
func (n *Neighbours) Tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.view.Load()
	for u := range n.told {
		if w.Units[u.Name] != u {
			delete(n.told, u)
		}
	}
	vlans := n.vlansOn(w)
	for name, rec := range w.Cubes {
		u := w.Units[name]
		if !rec.Transparent {
			n.tellPeers(w, rec, u)
			continue
		}
		n.tellOutputs(w, vlans, rec, u)
		changed := u.Instance().ParentChanged
		if changed == nil {
			continue
		}
		h := &n.of(u).parent
		if !n.inherit(w, vlans, rec, h) || h.posted {
			continue
		}
		h.posted = true
		n.news.Tell(u, "ParentChanged", func() {
			n.mu.Lock()
			h.posted = false
			parent := h.Parent
			n.mu.Unlock()
			changed(parent)
		})
	}
}

// OwnStation reports whether the host's stack sends from a MAC address: a netdev that no port is connected to has it.
func (n *Neighbours) OwnStation(mac net.HardwareAddr) bool {
	var names []string
	n.mu.Lock()
	for name, info := range n.infos {
		if bytes.Equal(info.MAC, mac) {
			names = append(names, name)
		}
	}
	n.mu.Unlock()
	if len(names) == 0 {
		return false
	}
	for _, rec := range n.view.Load().Cubes {
		for _, p := range rec.Ports {
			if i := slices.Index(names, p.Peer); i >= 0 {
				names = slices.Delete(names, i, i+1)
			}
		}
	}
	return len(names) > 0
}

// inNetwork lists the netdevs but one that have an address whose network contains a, the loopback left out.
func (n *Neighbours) inNetwork(but string, a netip.Addr) []string {
	contains := func(p netip.Prefix) bool { return p.Contains(a) }
	var others []string
	n.mu.Lock()
	defer n.mu.Unlock()
	for other, info := range n.infos {
		if other != but && info.Kind != "loopback" && slices.ContainsFunc(info.Addresses, contains) {
			others = append(others, other)
		}
	}
	return others
}

// Elsewhere reports whether the host reaches an address by another netdev: there it is another machine's, or somebody gave
// it to that netdev. Addresses that ports gave to netdevs do not count.
func (n *Neighbours) Elsewhere(name string, a netip.Addr) bool {
	contains := func(p netip.Prefix) bool { return p.Contains(a) }
	return slices.ContainsFunc(n.inNetwork(name, a), func(other string) bool {
		status, err := n.netdevs.Status(other)
		return err == nil && slices.ContainsFunc(world.Without(status.Addresses, status.Ours), contains)
	})
}

// Crowded reports whether a netdev has an address from its port that the host by now reaches by another netdev.
func (n *Neighbours) Crowded(name string, status netdev.Status) bool {
	return slices.ContainsFunc(status.Ours, func(a netip.Prefix) bool { return n.Elsewhere(name, a.Addr()) })
}
