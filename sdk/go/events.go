// SPDX-License-Identifier: Apache-2.0

package sdk

// What the daemon tells a cube without being asked: ports, peers, links, parents.

import (
	"net"
	"net/netip"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
)

// tell passes on events, in order.
func (s *server[T]) tell(news <-chan *pb.ToService) {
	for m := range news {
		port, parent, peer, link := m.GetPort(), m.GetParent(), m.GetPeer(), m.GetLink()
		switch { // nobody waits for a response
		case port != nil:
			_ = s.in(port.GetCube(), func(c *opened) error {
				c.instance.(PortWatcher).PortChanged(port.GetPort(), port.GetUp())
				return nil
			})
		case parent != nil:
			_ = s.in(parent.GetCube(), func(c *opened) error { c.instance.(ParentWatcher).ParentChanged(parentOf(parent)); return nil })
		case peer != nil:
			_ = s.in(peer.GetCube(), func(c *opened) error {
				c.instance.(PeerWatcher).PeerChanged(peer.GetPort(), peerOf(peer))
				return nil
			})
		case link != nil:
			_ = s.in(link.GetCube(), func(c *opened) error {
				c.instance.(LinkWatcher).LinkChanged(link.GetPort(), link.GetUp())
				return nil
			})
		}
	}
}

func parentOf(p *pb.ParentChanged) cube.Parent {
	return cube.Parent{Name: p.GetName(), Peer: p.GetPeer(), Netdev: p.GetNetdev(), Index: int(p.GetIndex()),
		MAC: net.HardwareAddr(p.GetMac()), Addresses: prefixes(p.GetAddresses()), MTU: int(p.GetMtu()), Leaves: p.GetLeaves()}
}

func peerOf(p *pb.PeerChanged) cube.Peer {
	return cube.Peer{Name: p.GetName(), Netdev: p.GetNetdev(), Index: int(p.GetIndex()), MAC: p.GetMac(), Addresses: prefixes(p.GetAddresses()),
		MTU: int(p.GetMtu()), Speed: p.GetSpeed()}
}

func prefixes(texts []string) (out []netip.Prefix) {
	for _, a := range texts {
		if prefix, err := netip.ParsePrefix(a); err == nil {
			out = append(out, prefix)
		}
	}
	return out
}
