// SPDX-License-Identifier: Apache-2.0

package router

// What is read that is not configuration.

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

// state is shaped like the model's tree.
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

// State returns what is not configured: MAC addresses of ports, the routes of addresses and learned ones, and which
// configured ones are not in use.
func (r *router) State(_ context.Context, path []string) (any, error) {
	if !r.open {
		return nil, nil
	}
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

// stateRoutes shows the routes that are not configured, and of the configured ones what the configuration does not say.
func (r *router) stateRoutes(path []string) []stateRoute {
	var only netip.Prefix
	prefixes := r.rib.listed
	if len(path) > 1 {
		p, err := netip.ParsePrefix(path[1])
		if err != nil {
			return nil
		}
		only = p.Masked()
		prefixes = map[netip.Prefix]bool{only: true}
	}
	out := make([]stateRoute, 0, len(prefixes))
	for p := range prefixes {
		if d := r.rib.table[p]; d != nil {
			for _, is := range d.routes {
				if !is.hidden && is.origin != static {
					out = append(out, r.show(p, d, is))
				}
			}
		}
	}
	out = append(out, r.showStatics(only)...)
	slices.SortFunc(out, func(a, b stateRoute) int {
		return cmp.Or(strings.Compare(a.Network, b.Network), strings.Compare(a.Nexthop, b.Nexthop))
	})
	return out
}

// show is how a route reads that is not configured.
func (r *router) show(p netip.Prefix, d *destination, is route) stateRoute {
	s := stateRoute{Network: p.String(), Nexthop: "local", Pathcost: is.cost, Protocol: "connected", Reason: r.whyUnused(d, is)}
	s.Inactive = s.Reason != ""
	s.Interface, _ = r.env.PortName(is.port)
	if is.origin == connected {
		return s
	}
	s.Protocol = is.protocol
	if is.gateway.IsValid() {
		s.Nexthop = is.gateway.String()
	}
	if word := specialWord(is.kind); word != "" {
		s.Nexthop, s.Interface = word, ""
	}
	return s
}

// maxShown is with how many configured routes a list says of each what it need not be told: that would take ten times as
// long as to read the configuration.
const maxShown = 8192

// showStatics is how the configured routes read, to one prefix or to all. Of very many, only those that are not used.
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

// DeleteState forgets a learned neighbour. Local and learned routes are not the user's to delete.
func (r *router) DeleteState(_ context.Context, path []string) error {
	if len(path) == 2 && path[0] == "arp-table" && r.open {
		return r.forget(path[1])
	}
	if len(path) == 3 && path[0] == "route" {
		if p, err := netip.ParsePrefix(path[1]); err == nil {
			if d := r.rib.table[p.Masked()]; d != nil && r.listedAs(d, path[2]) {
				return fmt.Errorf("it comes from an address of a port or was learned, and goes with that: %w", cube.ErrInvalid)
			}
		}
	}
	return fmt.Errorf("%s: %w", strings.Join(path, " "), cube.ErrNotFound)
}

func (r *router) listedAs(d *destination, nexthop string) bool {
	return slices.ContainsFunc(d.routes, func(is route) bool {
		return !is.hidden && (is.origin == connected && nexthop == "local" || is.origin == learned)
	})
}

// Dependents implements cube.Dependents: routes go with the network that their next hop is in, and configured neighbours
// with their port.
func (r *router) Dependents(_ context.Context, _, after json.RawMessage) ([]cube.Edit, error) {
	conf := new(Config)
	if err := json.Unmarshal(after, conf); err != nil {
		return nil, fmt.Errorf("decoding the configuration: %w", err)
	}
	l, err := newLayout(conf, r.env, r.macOf)
	if err != nil {
		return nil, nil //nolint:nilerr // Prepare says so
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
