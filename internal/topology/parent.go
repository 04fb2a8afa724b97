// SPDX-License-Identifier: Apache-2.0

package topology

// What a transparent cube inherits from where it is attached. It is computed anew after everything that may have changed
// it, compared with what the cube was told last, and told if it differs. One lock keeps the order; what is told is put
// together when the cube is ready to hear it, so a burst of changes is told once.

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// neighbours knows the netdevs, and tells cubes of what is around them: transparent ones of their parents, standard ones of
// their peers.
type neighbours struct {
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

// surroundings is what a cube was told of its parent or its peers, or will be.
type surroundings struct {
	parent parentNews
	peers  peers
}

// of returns what a cube was told. n.mu is held.
func (n *neighbours) of(u *unit.Unit) *surroundings {
	s := n.told[u]
	if s == nil {
		s = &surroundings{}
		n.told[u] = s
	}
	return s
}

// parentNews is what a cube was told of its parent, or will be.
type parentNews struct {
	cube.Parent
	// from and device are what it was computed from: both are never changed, so the same ones say the same.
	from   *world.Cube
	device netdev.Info
	// posted says that a call is in the mailbox: it takes what is here then.
	posted bool
}

// note keeps what is known of the netdevs, for those who inherit from them.
func (n *neighbours) note(e netdev.Event) {
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

// tell tells transparent cubes what changed of their parents, and standard cubes what changed of their peers.
func (n *neighbours) tell() {
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

// ownStation says whether the stack sends from a MAC address: a netdev has it that no port is connected to.
func (n *neighbours) ownStation(mac net.HardwareAddr) bool {
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

// inherit brings what a cube hears of its parent up to date, and says whether it changed.
func (n *neighbours) inherit(w *unit.Snapshot, rec *world.Cube, h *parentNews) bool {
	p := cube.Parent{Name: rec.Parent}
	var from *world.Cube
	if rec.Parent != "" {
		at, err := world.ParsePlace(rec.Parent)
		if err != nil {
			return false
		}
		p.Netdev = at.Netdev
		if at.Netdev == "" {
			from = w.Cubes[at.Cube]
			p.Cube, p.Port, p.Peer, p.Netdev = at.Cube, at.Port, "", ""
			if peer, err := w.PeerOf(at); err == nil {
				p.Peer, p.Netdev = peer.String(), peer.Netdev
			}
		}
	}
	device := n.infos[p.Netdev]
	if h.Name == p.Name && h.Netdev == p.Netdev && h.from == from && sameNetdev(h.device, device) {
		return false
	}
	world.Fill(&p, from, device)
	changed := !h.Equal(p)
	h.Parent, h.from, h.device = p, from, device
	return changed
}

// inNetwork lists the netdevs but one that have an address whose network contains a, the loopback left out.
func (n *neighbours) inNetwork(but string, a netip.Addr) []string {
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

// sameNetdev says whether nothing changed that is inherited.
func sameNetdev(a, b netdev.Info) bool {
	return a.Index == b.Index && a.MTU == b.MTU && slices.Equal(a.MAC, b.MAC) && slices.Equal(a.Addresses, b.Addresses)
}
