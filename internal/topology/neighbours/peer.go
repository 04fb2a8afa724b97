// SPDX-License-Identifier: Apache-2.0

package neighbours

// What the ports of a standard cube are connected to, and where the outputs of a transparent cube lead.

import (
	"maps"
	"slices"
	"strconv"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/vlan"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// peers is the last notification of a cube about the peers of its ports, or of its outputs, by name or number. The lock of
// the neighbours guards it.
type peers struct {
	told map[string]cube.Peer
	// news are the changes that are not delivered yet; while there are some, a call is in the mailbox.
	news map[string]cube.Peer
}

// tellPeers notifies a standard cube of changes of its peers. n.mu is held.
func (n *Neighbours) tellPeers(w *unit.Snapshot, rec *world.Cube, u *unit.Unit) {
	changed := u.Instance().PeerChanged
	if changed == nil {
		return
	}
	is := make(map[string]string, len(rec.Ports))
	for name, port := range rec.Ports {
		is[name] = port.Peer
	}
	n.tellChanges(u, "PeerChanged", is, func(text string) cube.Peer { return n.peerOf(w, text) }, changed)
}

// tellOutputs notifies a transparent cube of changes of the destinations of its outputs. n.mu is held.
func (n *Neighbours) tellOutputs(w *unit.Snapshot, vlans map[int][]vlan.Netdev, rec *world.Cube, u *unit.Unit) {
	changed := u.Instance().OutputChanged
	if changed == nil {
		return
	}
	is := make(map[string]string, len(rec.Outputs))
	for _, o := range rec.Outputs {
		is[strconv.Itoa(int(o.Number))] = o.To
	}
	peerOf := func(text string) cube.Peer {
		p := n.peerOf(w, text)
		p.VLANs = vlans[p.Index]
		return p
	}
	n.tellChanges(u, "OutputChanged", is, peerOf, func(name string, p cube.Peer) {
		number, _ := strconv.ParseUint(name, 10, 8) // it was written above
		changed(uint8(number), p)
	})
}

// tellChanges notifies a cube of what has changed since the last notification. n.mu is held.
func (n *Neighbours) tellChanges(u *unit.Unit, what string, is map[string]string, peerOf func(string) cube.Peer, changed func(string, cube.Peer)) {
	p := &n.of(u).peers
	posted := len(p.news) > 0
	if p.told == nil {
		p.told, p.news = map[string]cube.Peer{}, map[string]cube.Peer{}
	}
	for name := range p.told {
		if _, there := is[name]; !there {
			delete(p.told, name)
			delete(p.news, name)
		}
	}
	for name, text := range is {
		if peer := peerOf(text); !peer.Equal(p.told[name]) {
			p.told[name], p.news[name] = peer, peer
		}
	}
	if posted || len(p.news) == 0 {
		return
	}
	n.news.Tell(u, what, func() {
		n.mu.Lock()
		news := p.news
		p.news = map[string]cube.Peer{}
		n.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(news)) {
			changed(name, news[name])
		}
	})
}

// peerOf returns what is known of the peer of a port or output. A netdev that a request found before its event came is looked up.
func (n *Neighbours) peerOf(w *unit.Snapshot, peer string) cube.Peer {
	out := cube.Peer{Name: peer}
	at, err := world.ParsePlace(peer)
	if err != nil || at.Netdev == "" {
		return out
	}
	i, known := n.infos[at.Netdev]
	if !known && w.Links[at.Netdev].Index != 0 {
		if i, err = n.netdevs.Get(at.Netdev); err != nil {
			i = netdev.Info{} // its event is on the way
		}
	}
	out.Netdev, out.Index, out.MAC, out.Addresses, out.MTU, out.Speed = at.Netdev, i.Index, i.MAC, i.Addresses, i.MTU, i.Speed
	return out
}
