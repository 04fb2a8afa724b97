// SPDX-License-Identifier: Apache-2.0

package nat

// Masquerade: the address of the port or netdev that the cube is attached to.

import (
	"errors"
	"net/netip"

	"github.com/polycube/polycube/cube"
)

// everything contains the networks of all addresses.
var everything = [...]netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}

// addressOfParent returns the first globally usable address of a family; the zero value if there is none or the parent
// is unknown.
func addressOfParent(p *cube.Parent, v4 bool) netip.Addr {
	if p == nil {
		return netip.Addr{}
	}
	for _, prefix := range p.Addresses {
		a := prefix.Addr().Unmap()
		if a.Is4() == v4 && !a.IsUnspecified() && !a.IsLinkLocalUnicast() && !a.IsLoopback() && !a.IsMulticast() {
			return a
		}
	}
	return netip.Addr{}
}

// masqueradeAddress returns the address in use; the zero value if there is none, or masquerade is off.
func (n *nat) masqueradeAddress(v4 bool) netip.Addr {
	if !n.config.Rule.Masquerade.Enabled {
		return netip.Addr{}
	}
	if n.parent == nil {
		// A restarted daemon does not know the parent yet: the fast path keeps its entry.
		net := everything[0]
		if !v4 {
			net = everything[1]
		}
		if is, ok := n.installed[sourceKeyOf(net)]; ok && is.Origin == originMasquerade {
			return is.First.Addr()
		}
		return netip.Addr{}
	}
	return addressOfParent(n.parent, v4)
}

// masquerade updates the masquerade entries from configuration and parent, or leaves both unchanged.
func (n *nat) masquerade() error {
	e := &edit{n: n}
	for _, net := range everything {
		if err := e.source(net); err != nil {
			return errors.Join(err, e.undo.Run())
		}
	}
	return nil
}

// ParentChanged updates the addresses that masquerade uses.
func (n *nat) ParentChanged(p cube.Parent) {
	n.parent = &p
	if n.config.hasTable() {
		if _, err := n.links.refresh(); err != nil {
			n.env.Logger().Error("rules do not match by interface", "error", err)
		}
	}
	was := [2]netip.Addr{}
	for i, net := range everything {
		was[i] = n.installed[sourceKeyOf(net)].First.Addr()
	}
	if err := n.masquerade(); err != nil {
		n.env.Logger().Error("masquerade with the addresses of the parent", "parent", p.Name, "error", err)
		return
	}
	for i, net := range everything {
		is, ok := n.installed[sourceKeyOf(net)]
		if ok && is.Origin == originMasquerade && is.First.Addr() != was[i] {
			n.env.Logger().Info("masquerading", "parent", p.Name, "address", is.First.Addr())
		}
	}
	n.sweep.sweepNow()
}
