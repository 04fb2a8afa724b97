// SPDX-License-Identifier: Apache-2.0

package gtppath

// Peers that another process, such as polycube-upf, writes into the map of their MAC addresses.

import "net/netip"

// Follow synchronises the peers with the map `stations`, which only another process changes: call it periodically in place of Use
// and Unuse, and initially in place of Begin.
func (p *Path) Follow() error {
	limits, err := newLimits()
	if err != nil {
		return err
	}
	if err := p.limits.Set(0, limits); err != nil {
		return err
	}
	there := map[netip.Addr]bool{}
	for address, value := range p.macs.All(&err) {
		a := address.Addr()
		there[a] = true
		if p.peers[a] == nil {
			p.peers[a] = &peer{address: a, users: 1, status: Unknown}
		}
		p.peers[a].instance = uint32(value >> macBits)
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
