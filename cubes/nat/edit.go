// SPDX-License-Identifier: Apache-2.0

package nat

// Changes of the maps of rules, which can be taken back.

import (
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// edit notes how to take back what was done.
type edit struct {
	n    *nat
	undo cube.Undo
}

// rules brings changed rules into the set and the maps.
func (e *edit) rules(changes []change) error {
	n := e.n
	before := n.rules.forwardEntries(changes)
	if err := n.rules.apply(changes); err != nil {
		return err
	}
	e.undo.Push(func() error { n.rules.takeBack(changes); return nil })
	after := n.rules.forwardEntries(changes)
	// What is added comes first, so that what an edit cuts into pieces is never without a rule.
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
		return e.n.tables.forwards.Set(k, *v)
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

// source brings the entry of a network to what rules and masquerade say.
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
	err := n.tables.sources.Set(k, v)
	if err == nil {
		n.installed[k] = v
	}
	return err
}

// source is what the entry of a network has to be: the rule for it, or masquerade for the network of all.
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

// adopt takes over what the maps of an earlier life of the cube hold, and deletes what is no rule any more. forwards are
// the entries of the rules.
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
		switch {
		case ok:
		case v.Origin == originMasquerade && n.config.Rule.Masquerade.Enabled && n.parent == nil:
			n.installed[k] = v // until it is known which address the parent has
		default:
			stale = append(stale, k)
		}
	}
	if err == nil {
		_, err = n.tables.sources.DeleteAll(stale)
	}
	return err
}
