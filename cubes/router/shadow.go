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

// learnedRoutes are the routes of the namespace to one prefix, by metric. The lowest one is in the table.
type learnedRoutes struct {
	by    map[uint32]cube.Route
	table []route
}

// RoutesChanged updates the routes of the namespace.
func (r *router) RoutesChanged(changes []cube.RouteChange, complete bool) {
	touched := map[netip.Prefix]bool{}
	if complete {
		for p, l := range r.learned {
			touched[p] = true
			clear(l.by)
		}
	}
	for _, c := range changes {
		p := c.Prefix.Masked()
		touched[p] = true
		l := r.learned[p]
		if l == nil {
			l = &learnedRoutes{by: map[uint32]cube.Route{}}
			r.learned[p] = l
		}
		if c.Deleted {
			delete(l.by, c.Metric)
		} else {
			l.by[c.Metric] = c.Route
		}
	}
	r.learn(touched)
	if complete {
		r.sweepRoutes()
	}
}

// learnAtOnce is the number of prefixes changed at once.
const learnAtOnce = 8192

// learn updates the table to the routes of the namespace for some prefixes. If there is no room for all, those that fit
// are learned.
func (r *router) learn(touched map[netip.Prefix]bool) {
	var list []netip.Prefix
	var changes []ribChange
	flush := func() {
		if _, err := r.rib.apply(changes); err != nil {
			r.learnEach(list)
		} else {
			for _, p := range list {
				r.settle(p)
			}
		}
		list, changes = nil, nil
	}
	for p := range touched {
		list, changes = append(list, p), append(changes, r.learnedChanges(p)...)
		if len(list) >= learnAtOnce {
			flush()
		}
	}
	flush()
}

// learnEach learns prefixes one by one, removals first.
func (r *router) learnEach(list []netip.Prefix) {
	slices.SortFunc(list, func(a, b netip.Prefix) int { return len(r.learned[a].by) - len(r.learned[b].by) })
	var last error
	missing := 0
	for _, p := range list {
		if _, err := r.rib.apply(r.learnedChanges(p)); err != nil {
			missing, last = missing+1, err
			continue
		}
		r.settle(p)
	}
	if missing > 0 {
		r.env.Logger().Error("routes of the namespace are not used for forwarding", "routes", missing, "error", last)
	}
}

// learnedChanges returns the changes of the table for a prefix.
func (r *router) learnedChanges(p netip.Prefix) []ribChange {
	l := r.learned[p]
	is := r.bestLearned(l)
	var out []ribChange
	for _, was := range l.table {
		if !slices.ContainsFunc(is, was.same) {
			out = append(out, ribChange{prefix: p, route: was, gone: true})
		}
	}
	for _, now := range is {
		out = append(out, ribChange{prefix: p, route: now})
	}
	return out
}

// settle records that the table matches the namespace for a prefix.
func (r *router) settle(p netip.Prefix) {
	l := r.learned[p]
	if l.table = r.bestLearned(l); len(l.table) == 0 && len(l.by) == 0 {
		delete(r.learned, p)
	}
}

// bestLearned returns the routes with the lowest metric, one per next hop.
func (r *router) bestLearned(l *learnedRoutes) []route {
	best, found := cube.Route{}, false
	for _, c := range l.by {
		if !found || c.Metric < best.Metric {
			best, found = c, true
		}
	}
	if !found {
		return nil
	}
	return r.routesOf(best)
}

// routesOf returns a route of the namespace as routes of the table, one per next hop.
func (r *router) routesOf(c cube.Route) []route {
	of := func(t target) route {
		return route{target: t, origin: learned, cost: c.Metric, protocol: c.Protocol}
	}
	switch c.Kind {
	case cube.RouteBlackhole:
		return []route{of(target{kind: kindBlackhole})}
	case cube.RouteUnreachable:
		return []route{of(target{kind: kindUnreachable})}
	case cube.RouteProhibit:
		return []route{of(target{kind: kindProhibit})}
	case cube.RouteUnicast:
	}
	var out []route
	for _, h := range c.NextHops {
		if index, ok := r.env.PortIndex(h.Port); ok {
			out = append(out, of(unicast(h.Gateway, index)))
		}
	}
	return out
}
