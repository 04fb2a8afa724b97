// SPDX-License-Identifier: Apache-2.0

package nat

// Changes of the rule maps, which can be undone.

import (
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// edit records how to undo its changes.
type edit struct {
	n    *nat
	undo cube.Undo
}

// rules applies changed rules to the set and the maps.
func (e *edit) rules(changes []change) error {
	n := e.n
	before := n.rules.forwardEntries(changes)
	if err := n.rules.apply(changes); err != nil {
		return err
	}
	e.undo.Push(func() error { n.rules.takeBack(changes); return nil })
	after := n.rules.forwardEntries(changes)
	// New entries are written first, so that a range that an edit splits always has a rule.
	for k, v := range after {
		if was, ok := before[k]; !ok || was != v {
			if err := e.forward(k, &v, before); err != nil {
				return err
			}
		}
	}
	for k := range before {
		if _, ok := after[k]; !ok {
			if err := e.forward(k, nil, before); err != nil {
				return err
			}
		}
	}
	return e.sources(changes)
}

// forward sets or deletes an entry of `forwards`.
func (e *edit) forward(k forwardKey, to *forward, before map[forwardKey]forward) error {
	set := func(v *forward) error {
		if v == nil {
			_, err := e.n.tables.forwards.Delete(k)
			return err
		}
		is := *v
		is.Origin = is.Origin.of(e.n.place)
		return e.n.tables.forwards.Set(k, is)
	}
	if err := set(to); err != nil {
		return fmt.Errorf("forwarding: %w", err)
	}
	var was *forward
	if v, ok := before[k]; ok {
		was = &v
	}
	e.undo.Push(func() error { return set(was) })
	return nil
}

func (e *edit) sources(changes []change) error {
	for _, c := range changes {
		for _, r := range []rule{c.old, c.new} {
			if r, ok := r.(*SnatEntry); ok {
				if err := e.source(r.InternalNet); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// source updates the entry of a network from rules and masquerade.
func (e *edit) source(net netip.Prefix) error {
	n, k := e.n, sourceKeyOf(net)
	was, had := n.installed[k]
	to, wanted := n.source(net)
	if had == wanted && was == to {
		return nil
	}
	if err := n.setSource(k, to, wanted); err != nil {
		return err
	}
	e.undo.Push(func() error { return n.setSource(k, was, had) })
	return nil
}

// setSource writes or deletes an entry of `sources`.
func (n *nat) setSource(k sourceKey, v source, there bool) error {
	if !there {
		_, err := n.tables.sources.Delete(k)
		if err == nil {
			delete(n.installed, k)
		}
		return err
	}
	is := v
	is.Origin = v.Origin.of(n.place)
	err := n.tables.sources.Set(k, is)
	if err == nil {
		n.installed[k] = v
	}
	return err
}

// source returns the required entry of a network: its rule, or masquerade for the network of all addresses.
func (n *nat) source(net netip.Prefix) (source, bool) {
	if id, ok := n.rules.nets[net]; ok {
		r := n.rules.snat[id]
		first, last, _ := portRange(r.PortFirst, r.PortLast) // it was checked
		return source{Rule: id, Count: 1 << (r.ExternalIP.Addr().BitLen() - r.ExternalIP.Bits()),
			First: inet.AddressOf(r.ExternalIP.Addr()), PortFirst: first, PortLast: last, Origin: originSnat}, true
	}
	if net.Bits() != 0 {
		return source{}, false
	}
	a := n.masqueradeAddress(net.Addr().Is4())
	if !a.IsValid() {
		return source{}, false
	}
	m := n.config.Rule.Masquerade
	first, last, _ := portRange(m.PortFirst, m.PortLast) // it was checked
	return source{Count: 1, First: inet.AddressOf(a), PortFirst: first, PortLast: last, Origin: originMasquerade}, true
}

// adopt takes over the maps of a previous run of the cube, and deletes entries without a rule. forwards are the entries
// of the rules.
func (n *nat) adopt(forwards map[forwardKey]forward) error {
	var err error
	var gone []forwardKey
	for k := range n.tables.forwards.All(&err) {
		if _, ok := forwards[k]; !ok {
			gone = append(gone, k)
		}
	}
	if err == nil {
		_, err = n.tables.forwards.DeleteAll(gone)
	}
	if err != nil {
		return err
	}
	var stale []sourceKey
	for k, v := range n.tables.sources.All(&err) {
		_, ok := n.installed[k]
		v.Origin = v.Origin.kind()
		switch {
		case ok:
		case v.Origin == originMasquerade && n.config.Rule.Masquerade.Enabled && n.parent == nil:
			n.installed[k] = v // until the parent's address is known
		default:
			stale = append(stale, k)
		}
	}
	if err == nil {
		_, err = n.tables.sources.DeleteAll(stale)
	}
	return err
}
