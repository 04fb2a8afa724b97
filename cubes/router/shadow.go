// SPDX-License-Identifier: Apache-2.0

package router

// A router with a namespace: addresses are the same on both sides, and the router forwards by routes that programs add
// there, for example a routing daemon.

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/polycube/polycube/cube"
)

// Interfaces returns the interfaces of ports in the namespace.
func (r *router) Interfaces(conf json.RawMessage) (map[string]cube.Interface, error) {
	c := new(Config)
	if err := json.Unmarshal(conf, c); err != nil {
		return nil, fmt.Errorf("decode the configuration: %w", err)
	}
	l, err := newLayout(c, r.env, r.macOf)
	if err != nil {
		return nil, err
	}
	out := make(map[string]cube.Interface, len(l.ports))
	for _, p := range l.ports {
		m := p.mac.Bytes()
		i := cube.Interface{MAC: net.HardwareAddr(m[:])}
		for _, a := range p.addresses {
			if !a.Addr().Is6() || !a.Addr().IsLinkLocalUnicast() {
				i.Addresses = append(i.Addresses, a)
			}
		}
		out[p.name] = i
	}
	return out, nil
}

// portFollows returns the edits that give a port the addresses of its interface in the namespace, or of its netdev.
func (r *router) portFollows(port string, was, is cube.Interface) ([]cube.Edit, error) {
	var edits []cube.Edit
	if is.MAC != nil && !slices.Equal(was.MAC, is.MAC) {
		edits = append(edits, cube.Edit{Path: []string{"ports", port, "mac"}, Value: is.MAC.String()})
	}
	return append(edits, addressEdits(port, was.Addresses, is.Addresses)...), nil
}

// addressEdits returns the edits that give a port the addresses of its interface. The primary one stays as long as it
// exists; then the first remaining one replaces it.
func addressEdits(port string, was, is []netip.Prefix) []cube.Edit {
	var edits []cube.Edit
	stay := slices.DeleteFunc(slices.Clone(was), func(a netip.Prefix) bool { return !slices.Contains(is, a) })
	come := slices.DeleteFunc(slices.Clone(is), func(a netip.Prefix) bool { return slices.Contains(was, a) })
	all := append(stay, come...)
	if len(all) == 0 {
		if len(was) > 0 {
			edits = append(edits, cube.Edit{Delete: true, Path: []string{"ports", port, "secondaryip"}},
				cube.Edit{Delete: true, Path: []string{"ports", port, "ip"}})
		}
		return edits
	}
	secondary := func(a netip.Prefix) []string { return []string{"ports", port, "secondaryip", a.String()} }
	for i, a := range was {
		if i > 0 && (!slices.Contains(is, a) || a == all[0]) {
			edits = append(edits, cube.Edit{Delete: true, Path: secondary(a)})
		}
	}
	if len(was) == 0 || was[0] != all[0] {
		edits = append(edits, cube.Edit{Path: []string{"ports", port, "ip"}, Value: all[0].String()})
	}
	for _, a := range all[1:] {
		if !slices.Contains(was, a) {
			edits = append(edits, cube.Edit{Path: secondary(a), Value: map[string]string{"ip": a.String()}})
		}
	}
	return edits
}

// RoutesChanged updates the routes of the namespace.
func (r *router) RoutesChanged(changes []cube.RouteChange, complete bool) {
	r.learned.take(changes, complete)
	if complete {
		r.sweepRoutes()
	}
}
