// SPDX-License-Identifier: Apache-2.0

package router

// The state of a router.

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
)

// state has the structure of the model.
type state struct {
	Ports    []statePort      `json:"ports,omitempty"`
	Route    []stateRoute     `json:"route,omitempty"`
	ArpTable []stateNeighbour `json:"arp-table,omitempty"`
	SlowPath *slowCounters    `json:"slow-path,omitempty"`
}

type statePort struct {
	Name             string       `json:"name"`
	Mac              string       `json:"mac"`
	DuplicateAddress []netip.Addr `json:"duplicate-address,omitempty"`
}

type stateRoute struct {
	Network   string `json:"network"`
	Nexthop   string `json:"nexthop"`
	Interface string `json:"interface,omitempty"`
	Pathcost  uint32 `json:"pathcost"`
	Protocol  string `json:"protocol,omitempty"`
	Inactive  bool   `json:"inactive,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

// State returns the state: MAC addresses of ports, the routes of addresses and learned ones, and which configured ones
// are not in use.
func (r *router) State(_ context.Context, path []string) (any, error) {
	var s state
	if len(path) == 0 || path[0] == "ports" {
		for _, p := range r.now.ports {
			s.Ports = append(s.Ports, statePort{p.name, p.mac.String(), r.slow.duplicates(p.index)})
		}
		slices.SortFunc(s.Ports, func(a, b statePort) int { return cmp.Compare(a.Name, b.Name) })
	}
	if len(path) == 0 || path[0] == "route" {
		s.Route = r.stateRoutes(path)
	}
	if len(path) == 0 || path[0] == "arp-table" {
		s.ArpTable = r.stateNeighbours(path)
	}
	if len(path) == 0 || path[0] == "slow-path" {
		s.SlowPath = r.slow.count()
	}
	return s, nil
}

// stateRoutes returns the routes that are not configured, and the state of configured ones.
func (r *router) stateRoutes(path []string) []stateRoute {
	if len(path) > 1 {
		var out []stateRoute
		for _, only := range networksOf(path[1]) {
			out = append(append(out, r.showDynamic(only)...), r.showStatics(only)...)
		}
		return sorted(out)
	}
	out := make([]stateRoute, 0, len(r.rib.listed))
	for p := range r.rib.listed {
		out = append(out, r.showDynamic(p)...)
	}
	return sorted(append(out, r.showStatics(netip.Prefix{})...))
}

// networksOf returns the prefixes that a word of the model may denote.
func networksOf(word string) []netip.Prefix {
	if word == allNetworks {
		return []netip.Prefix{default4, default6}
	}
	p, err := netip.ParsePrefix(word)
	if err != nil {
		return nil
	}
	return []netip.Prefix{p.Masked()}
}

func sorted(routes []stateRoute) []stateRoute {
	slices.SortFunc(routes, func(a, b stateRoute) int {
		return cmp.Or(strings.Compare(a.Network, b.Network), strings.Compare(a.Nexthop, b.Nexthop))
	})
	return routes
}

// showDynamic returns the routes to a prefix that are not configured, as shown: those in the table, and those of the
// namespace with a higher metric. Each has its own next hop, which is its key.
func (r *router) showDynamic(p netip.Prefix) (out []stateRoute) {
	d := r.rib.table[p]
	if d == nil {
		return nil
	}
	taken := map[string]bool{}
	var listed []route
	for _, is := range d.routes {
		if is.origin == static {
			taken[is.nexthop()] = true
		} else if !is.hidden {
			listed = append(listed, is)
		}
	}
	if l := r.learned.routes[p]; l != nil {
		for _, c := range l.by {
			for _, is := range r.learned.routesOf(c) {
				if !slices.Contains(listed, is) {
					listed = append(listed, is)
				}
			}
		}
	}
	slices.SortFunc(listed, func(a, b route) int {
		return cmp.Or(a.compare(b), a.gateway.Compare(b.gateway), cmp.Compare(a.port, b.port))
	})
	for _, is := range listed {
		s := r.show(p, d, is)
		for _, more := range []string{"", "%" + s.Interface, "%" + s.Protocol, fmt.Sprintf("%%%s%%%d", s.Protocol, s.Pathcost)} {
			if more != "%" && !taken[s.Nexthop+more] {
				s.Nexthop += more
				break
			}
		}
		taken[s.Nexthop] = true
		out = append(out, s)
	}
	return out
}

// nexthop returns the next hop of a route as shown.
func (r route) nexthop() string {
	switch {
	case r.kind == kindBroadcast:
		return "broadcast"
	case r.kind != kindUnicast && r.kind != kindLocal:
		return specialWord(r.kind)
	case r.gateway.IsValid():
		return r.gateway.String()
	}
	return "local"
}

// show returns a route as shown.
func (r *router) show(p netip.Prefix, d *destination, is route) stateRoute {
	s := stateRoute{Network: p.String(), Nexthop: is.nexthop(), Pathcost: is.cost, Protocol: is.protocol, Reason: r.whyUnused(d, is)}
	s.Inactive = s.Reason != ""
	if is.kind == kindUnicast {
		s.Interface, _ = r.env.PortName(is.port)
	}
	if is.origin != learned {
		s.Protocol = is.origin.String()
	}
	return s
}

// maxShown is up to how many configured routes a list includes details of each route: they take ten times as long as
// reading the configuration.
const maxShown = 8192

// showStatics returns the configured routes as shown, to one prefix or to all. If there are very many, only those that
// are not used.
func (r *router) showStatics(only netip.Prefix) []stateRoute {
	var out []stateRoute
	count := len(r.statics.special)
	for _, g := range r.statics.gateways {
		count += len(g.routes)
	}
	terse := !only.IsValid() && count > maxShown
	show := func(p netip.Prefix, c staticRoute, t target, nexthop, port string) {
		d := r.rib.table[p]
		if d == nil {
			return
		}
		why := r.whyUnused(d, c.route(t))
		if terse && why == "" {
			return
		}
		words := c.names(p, nexthop)
		out = append(out, stateRoute{Network: words.network, Nexthop: words.nexthop, Interface: port, Pathcost: c.cost,
			Protocol: "static", Inactive: why != "", Reason: why})
	}
	for k, g := range r.statics.gateways {
		t, nexthop := unicast(k.addr, g.port), k.addr.String()
		port, _ := r.env.PortName(g.port)
		if c, ok := g.routes[only]; ok {
			show(only, c, t, nexthop, port)
		} else if !only.IsValid() {
			for p, c := range g.routes {
				show(p, c, t, nexthop, port)
			}
		}
	}
	for k, c := range r.statics.special {
		if !only.IsValid() || k.network == only {
			show(k.network, c, target{kind: k.kind}, specialWord(k.kind), "")
		}
	}
	return out
}

// DeleteState removes a learned neighbour. Users cannot delete local and learned routes.
func (r *router) DeleteState(_ context.Context, path []string) error {
	if len(path) == 2 && path[0] == "arp-table" {
		return r.forget(path[1])
	}
	if len(path) == 3 && path[0] == "route" {
		for _, p := range networksOf(path[1]) {
			if d := r.rib.table[p]; d != nil && listedAs(d, path[2]) {
				return fmt.Errorf("it is derived from the address of a port, or was learned, and cannot be deleted: %w", cube.ErrInvalid)
			}
		}
	}
	return fmt.Errorf("%s: %w", strings.Join(path, " "), cube.ErrNotFound)
}

// listedAs reports whether a route that users cannot delete is listed with a next hop.
func listedAs(d *destination, nexthop string) bool {
	return slices.ContainsFunc(d.routes, func(is route) bool {
		return !is.hidden && (is.origin == connected && nexthop == "local" || is.origin == learned)
	})
}

// Dependents returns the consequences of a change: routes are deleted with the network of their next hop, and
// configured neighbours with their port.
func (r *router) Dependents(_ context.Context, _, after json.RawMessage) ([]cube.Edit, error) {
	conf := new(Config)
	if err := json.Unmarshal(after, conf); err != nil {
		return nil, fmt.Errorf("decode the configuration: %w", err)
	}
	l, err := newLayout(conf, r.env, r.macOf)
	if err != nil {
		return nil, nil //nolint:nilerr // Prepare reports it
	}
	var edits []cube.Edit
	for k, g := range r.statics.gateways {
		if _, err := l.way(k.addr, k.through); err == nil {
			continue
		}
		for p, s := range g.routes {
			words := s.names(p, k.addr.String())
			edits = append(edits, cube.Edit{Delete: true, Path: []string{"route", words.network, words.nexthop}})
		}
	}
	for text, f := range r.fixed {
		if p := l.ports[f.port]; p == nil || r.now.ports[f.port] == nil || p.name != r.now.ports[f.port].name {
			edits = append(edits, cube.Edit{Delete: true, Path: []string{"arp-table", text}})
		}
	}
	return edits, nil
}
