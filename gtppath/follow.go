// SPDX-License-Identifier: Apache-2.0

package gtppath

// Peers that another process writes into the map of their places, as polycube-upf does.

import "net/netip"

// Follow makes the peers those that are in the map `stations`, which only another process changes: it is called again and
// again instead of Use and Unuse, and first instead of Begin.
func (p *Path) Follow() error {
	limits, err := newLimits()
	if err != nil {
		return err
	}
	if err := p.limits.Set(0, limits); err != nil {
		return err
	}
	there := map[netip.Addr]bool{}
	for address := range p.macs.All(&err) {
		a := address.Addr()
		there[a] = true
		if p.peers[a] == nil {
			p.peers[a] = &peer{address: a, users: 1, status: Unknown}
		}
	}
	if err != nil {
		return err
	}
	for a := range p.peers {
		if !there[a] {
			delete(p.peers, a)
		}
	}
	return nil
}
