// SPDX-License-Identifier: Apache-2.0

package router

// Routes that the cube's namespace has, such as those of a routing daemon there.

import (
	"net/netip"
	"slices"

	"github.com/polycube/polycube/cube"
)

// learnedRoutes are the routes of the namespace to one prefix, by metric. The lowest one is in the table.
type learnedRoutes struct {
	by    map[uint32]cube.Route
	table []route
}

// learnedTable is the routes of the namespace by prefix, and keeps the table of routes equal with them.
type learnedTable struct {
	env    cube.Env
	rib    *rib
	routes map[netip.Prefix]*learnedRoutes
}

func newLearnedTable(env cube.Env, rib *rib) *learnedTable {
	return &learnedTable{env: env, rib: rib, routes: map[netip.Prefix]*learnedRoutes{}}
}

// take takes changes over; complete says that they are all routes that there are.
func (t *learnedTable) take(changes []cube.RouteChange, complete bool) {
	touched := map[netip.Prefix]bool{}
	if complete {
		for p, l := range t.routes {
			touched[p] = true
			clear(l.by)
		}
	}
	for _, c := range changes {
		p := c.Prefix.Masked()
		touched[p] = true
		l := t.routes[p]
		if l == nil {
			l = &learnedRoutes{by: map[uint32]cube.Route{}}
			t.routes[p] = l
		}
		if c.Deleted {
			delete(l.by, c.Metric)
		} else {
			l.by[c.Metric] = c.Route
		}
	}
	t.learn(touched)
}

// learnAtOnce is the number of prefixes changed at once.
const learnAtOnce = 8192

// learn updates the table to the routes of the namespace for some prefixes. If there is no room for all, those that fit
// are learned.
func (t *learnedTable) learn(touched map[netip.Prefix]bool) {
	var list []netip.Prefix
	var changes []ribChange
	flush := func() {
		if _, err := t.rib.apply(changes); err != nil {
			t.learnEach(list)
		} else {
			for _, p := range list {
				t.settle(p)
			}
		}
		list, changes = nil, nil
	}
	for p := range touched {
		list, changes = append(list, p), append(changes, t.changes(p)...)
		if len(list) >= learnAtOnce {
			flush()
		}
	}
	flush()
}

// learnEach learns prefixes one by one, removals first.
func (t *learnedTable) learnEach(list []netip.Prefix) {
	slices.SortFunc(list, func(a, b netip.Prefix) int { return len(t.routes[a].by) - len(t.routes[b].by) })
	var last error
	missing := 0
	for _, p := range list {
		if _, err := t.rib.apply(t.changes(p)); err != nil {
			missing, last = missing+1, err
			continue
		}
		t.settle(p)
	}
	if missing > 0 {
		t.env.Logger().Error("routes of the namespace are not used for forwarding", "routes", missing, "error", last)
	}
}

// changes returns the changes of the table for a prefix.
func (t *learnedTable) changes(p netip.Prefix) []ribChange {
	l := t.routes[p]
	is := t.best(l)
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
func (t *learnedTable) settle(p netip.Prefix) {
	l := t.routes[p]
	if l.table = t.best(l); len(l.table) == 0 && len(l.by) == 0 {
		delete(t.routes, p)
	}
}

// best returns the routes with the lowest metric, one per next hop.
func (t *learnedTable) best(l *learnedRoutes) []route {
	best, found := cube.Route{}, false
	for _, c := range l.by {
		if !found || c.Metric < best.Metric {
			best, found = c, true
		}
	}
	if !found {
		return nil
	}
	return t.routesOf(best)
}

// routesOf returns a route of the namespace as routes of the table, one per next hop.
func (t *learnedTable) routesOf(c cube.Route) []route {
	of := func(to target) route {
		return route{target: to, origin: learned, cost: c.Metric, protocol: c.Protocol}
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
		if index, ok := t.env.PortIndex(h.Port); ok {
			out = append(out, of(unicast(h.Gateway, index)))
		}
	}
	return out
}
