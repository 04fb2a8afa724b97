// SPDX-License-Identifier: Apache-2.0

// Package neighbours tells cubes what is around them: transparent cubes what they inherit from where they are attached,
// standard cubes what their ports are connected to. Both are computed again after everything that may have changed them,
// compared with what the cube was told last, and told if they differ. One lock keeps the order; what is told is put
// together when the cube is ready to hear it, so a burst of changes is told once.
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
	Look(name string) (netdev.Look, error)
}

// Neighbours knows the netdevs, and tells cubes what is around them. Its methods may be called from any goroutine.
type Neighbours struct {
	view    *atomic.Pointer[unit.Snapshot]
	netdevs Netdevs
	news    *unit.News

	// mu orders what cubes are told; it guards what follows.
	mu sync.Mutex
	// infos are the netdevs by name.
	infos map[string]netdev.Info
	// told is what living cubes were told.
	told map[*unit.Unit]*surroundings
}

// New returns neighbours without netdevs. view is the current snapshot, news takes what cubes are told.
func New(view *atomic.Pointer[unit.Snapshot], netdevs Netdevs, news *unit.News) *Neighbours {
	return &Neighbours{view: view, netdevs: netdevs, news: news, infos: map[string]netdev.Info{},
		told: map[*unit.Unit]*surroundings{}}
}

// surroundings is what a cube was told of its parent or its peers, or will be.
type surroundings struct {
	parent parentNews
	peers  peers
}

// of returns what a cube was told. n.mu is held.
func (n *Neighbours) of(u *unit.Unit) *surroundings {
	s := n.told[u]
	if s == nil {
		s = &surroundings{}
		n.told[u] = s
	}
	return s
}

// Note keeps what is known of the netdevs, for those who inherit from them.
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
	case netdev.Synced: // says nothing of a device
	}
}

// Tell tells transparent cubes what changed of their parents, and standard cubes what changed of their peers.
func (n *Neighbours) Tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.view.Load()
	for u := range n.told {
		if w.Units[u.Name] != u {
			delete(n.told, u)
		}
	}
	for name, rec := range w.Cubes {
		u := w.Units[name]
		if !rec.Transparent {
			n.tellPeers(w, rec, u)
			continue
		}
		changed := u.Instance().ParentChanged
		if changed == nil {
			continue
		}
		h := &n.of(u).parent
		if !n.inherit(w, rec, h) || h.posted {
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

// OwnStation says whether the stack sends from a MAC address: a netdev has it that no port is connected to.
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

// Elsewhere says whether the host reaches an address by another netdev: there it is another machine's, or was given to
// that netdev by somebody. What ports gave to netdevs does not count.
func (n *Neighbours) Elsewhere(name string, a netip.Addr) bool {
	contains := func(p netip.Prefix) bool { return p.Contains(a) }
	return slices.ContainsFunc(n.inNetwork(name, a), func(other string) bool {
		look, err := n.netdevs.Look(other)
		return err == nil && slices.ContainsFunc(world.Without(look.Addresses, look.Ours), contains)
	})
}

// Crowded says whether a netdev has an address from its port that the host reaches elsewhere by now.
func (n *Neighbours) Crowded(name string, look netdev.Look) bool {
	return slices.ContainsFunc(look.Ours, func(a netip.Prefix) bool { return n.Elsewhere(name, a.Addr()) })
}
