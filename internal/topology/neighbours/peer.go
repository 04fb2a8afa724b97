// SPDX-License-Identifier: Apache-2.0

package neighbours

// What the ports of a standard cube are connected to.

import (
	"maps"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// peers is the last notification of a cube about the peers of its ports. The lock of the neighbours guards it.
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
	p := &n.of(u).peers
	posted := len(p.news) > 0
	if p.told == nil {
		p.told, p.news = map[string]cube.Peer{}, map[string]cube.Peer{}
	}
	for name := range p.told {
		if rec.Ports[name] == nil {
			delete(p.told, name)
			delete(p.news, name)
		}
	}
	for name, port := range rec.Ports {
		is := n.peerOf(w, port)
		if !is.Equal(p.told[name]) {
			p.told[name], p.news[name] = is, is
		}
	}
	if posted || len(p.news) == 0 {
		return
	}
	n.news.Tell(u, "PeerChanged", func() {
		n.mu.Lock()
		news := p.news
		p.news = map[string]cube.Peer{}
		n.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(news)) {
			changed(name, news[name])
		}
	})
}

// peerOf returns what is known of a port's peer. A netdev that a request found before its event came is looked up.
func (n *Neighbours) peerOf(w *unit.Snapshot, p *world.Port) cube.Peer {
	out := cube.Peer{Name: p.Peer}
	at, err := world.ParsePlace(p.Peer)
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
