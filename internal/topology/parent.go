// SPDX-License-Identifier: Apache-2.0

package topology

// What a transparent cube inherits from where it is attached. It is computed anew after everything that may have changed
// it, compared with what the cube was told last, and told if it differs. One lock keeps the order; what is told is put
// together when the cube is ready to hear it, so a burst of changes is told once.

import (
	"bytes"
	"net"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/world"
)

// heard is what a cube was told of its parent, or will be.
type heard struct {
	cube.Parent
	// from and device are what it was computed from: both are never changed, so the same ones say the same.
	from   *world.Cube
	device netdev.Info
	// posted says that a call is in the mailbox: it takes what is here then.
	posted bool
}

// noteNetdev keeps what is known of the netdevs, for those who inherit from them.
func (m *Manager) noteNetdev(e netdev.Event) {
	m.parents.Lock()
	defer m.parents.Unlock()
	forget := func(i netdev.Info) {
		if m.infos[i.Name].Index == i.Index {
			delete(m.infos, i.Name)
		}
	}
	switch e.Kind {
	case netdev.Added, netdev.Changed:
		if e.Old != nil && e.Old.Name != e.Info.Name {
			forget(*e.Old)
		}
		m.infos[e.Info.Name] = e.Info
	case netdev.Removed:
		forget(e.Info)
	case netdev.Synced: // says nothing of a device
	}
}

// tellParents tells transparent cubes what changed of their parents, and standard cubes what changed of their peers.
func (m *Manager) tellParents() {
	m.parents.Lock()
	defer m.parents.Unlock()
	w := m.view.Load()
	for name, rec := range w.Cubes {
		u := w.units[name]
		if !rec.Transparent {
			m.tellPeers(w, rec, u)
			continue
		}
		watcher, ok := u.inst.(cube.ParentWatcher)
		if !ok || !m.inherit(w, rec, &u.parent) || u.parent.posted {
			continue
		}
		u.parent.posted = true
		m.tell(u, "ParentChanged", func() {
			m.parents.Lock()
			u.parent.posted = false
			parent := u.parent.Parent
			m.parents.Unlock()
			watcher.ParentChanged(parent)
		})
	}
}

// ownStation says whether the stack sends from a MAC address: a netdev has it that no port is connected to.
func (m *Manager) ownStation(mac net.HardwareAddr) bool {
	var names []string
	m.parents.Lock()
	for name, info := range m.infos {
		if bytes.Equal(info.MAC, mac) {
			names = append(names, name)
		}
	}
	m.parents.Unlock()
	if len(names) == 0 {
		return false
	}
	for _, rec := range m.view.Load().Cubes {
		for _, p := range rec.Ports {
			if i := slices.Index(names, p.Peer); i >= 0 {
				names = slices.Delete(names, i, i+1)
			}
		}
	}
	return len(names) > 0
}

// inherit brings what a cube hears of its parent up to date, and says whether it changed.
func (m *Manager) inherit(w *snapshot, rec *world.Cube, h *heard) bool {
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
	device := m.infos[p.Netdev]
	if h.Name == p.Name && h.Netdev == p.Netdev && h.from == from && sameNetdev(h.device, device) {
		return false
	}
	world.Fill(&p, from, device)
	changed := !h.Equal(p)
	h.Parent, h.from, h.device = p, from, device
	return changed
}

// sameNetdev says whether nothing changed that is inherited.
func sameNetdev(a, b netdev.Info) bool {
	return a.Index == b.Index && a.MTU == b.MTU && slices.Equal(a.MAC, b.MAC) && slices.Equal(a.Addresses, b.Addresses)
}
