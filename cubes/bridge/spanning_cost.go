// SPDX-License-Identifier: Apache-2.0

package bridge

// Path costs that are not configured follow the speed of the netdev that is the port's peer, as on a Linux bridge, so
// that bridges of both kinds elect the same ports.

import (
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cubes/bridge/stp"
)

// costSource is the origin of a path cost.
type costSource uint32

// The origins.
const (
	costConfigured costSource = iota
	costOfSpeed
	costByDefault
)

var costSources = []string{costConfigured: "configured", costOfSpeed: "speed", costByDefault: "default"}

// String returns the model's name.
func (c costSource) String() string { return costSources[c] }

// pathCost returns the cost of a port with a configuration, and where it comes from.
func (s *spanning) pathCost(port string, c PortSTP) (uint32, costSource) {
	peer := s.peers[port]
	switch {
	case c.PathCost != 0:
		return c.PathCost, costConfigured
	case peer.Index == 0: // another cube's port, or a missing netdev
		return stp.CostWithoutSpeed, costByDefault
	case peer.Speed == 0:
		return stp.PathCost(0), costByDefault
	}
	return stp.PathCost(peer.Speed), costOfSpeed
}

// peerChanged records the properties of a port's peer, which affect the trees of all its VLANs.
func (s *spanning) peerChanged(port string, peer cube.Peer) {
	s.peers[port] = peer
	index, ok := s.b.env.PortIndex(port)
	if !ok || s.b.config == nil {
		return
	}
	p := s.b.config.port(port)
	if p == nil {
		return
	}
	changed := false
	for vlan, t := range s.trees {
		was, member := t.ports[index]
		if is := s.parameters(p, vlan, index); member && is != was {
			t.ports[index] = is
			t.SetPort(int(index), is)
			changed = true
		}
	}
	if changed {
		s.b.env.Logger().Info("path cost of a port updated from its peer", "port", port, "peer", peer.Name, "speed", peer.Speed)
	}
	s.settle()
}
