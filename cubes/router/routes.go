// SPDX-License-Identifier: Apache-2.0

package router

// Configured routes. There may be very many, so only changes are processed.

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/cube"
)

// routeKey identifies a configured route.
type routeKey struct {
	network netip.Prefix
	// nexthop is the zero Addr for a special route, which kind identifies.
	nexthop netip.Addr
	kind    uint16
}

// gatewayKey is a next hop as configured.
type gatewayKey struct {
	addr    netip.Addr
	through string // the leaf `interface`
}

// gateway is the location of a next hop, and the routes that use it.
type gateway struct {
	port   uint16
	routes map[netip.Prefix]staticRoute
}

// staticRoute is a configured route. There may be very many: words, its keys as configured, are nil if they equal those
// derived from network and next hop.
type staticRoute struct {
	cost  uint32
	words *routeWords
}

type routeWords struct{ network, nexthop string }

// names returns the keys of a route as configured.
func (s staticRoute) names(network netip.Prefix, nexthop string) routeWords {
	if s.words != nil {
		return *s.words
	}
	return routeWords{network.String(), nexthop}
}

// statics are the configured routes by next hop: when a port changes, only next hops are examined, not routes.
type statics struct {
	gateways map[gatewayKey]*gateway
	special  map[routeKey]staticRoute
}

func newStatics() statics {
	return statics{gateways: map[gatewayKey]*gateway{}, special: map[routeKey]staticRoute{}}
}

// parsed is a checked configured route.
type parsed struct {
	key     routeKey
	gateway gatewayKey // of a route with a next hop
	cost    uint32
	routeWords
}

// static returns the stored form.
func (p parsed) static() staticRoute {
	s := staticRoute{cost: p.cost}
	var network, nexthop [64]byte
	hop := p.gateway.addr.AppendTo(nexthop[:0])
	if p.key.kind != kindUnicast {
		hop = append(hop[:0], specialWord(p.key.kind)...)
	}
	if string(p.key.network.AppendTo(network[:0])) != p.network || string(hop) != p.nexthop {
		words := p.routeWords
		s.words = &words
	}
	return s
}

func (p parsed) route(t target) route { return staticRoute{cost: p.cost}.route(t) }

// specialWord returns the model's name for a kind of route.
func specialWord(kind uint16) string {
	for word, k := range specialKinds {
		if k == kind {
			return word
		}
	}
	return ""
}

var specialKinds = map[string]uint16{"blackhole": kindBlackhole, "unreachable": kindUnreachable, "prohibit": kindProhibit}

func parseRoute(r *Route) (p parsed, err error) {
	p.network, p.nexthop, p.cost = r.Network, r.Nexthop, r.Pathcost
	fail := func(err error) (parsed, error) {
		return parsed{}, fmt.Errorf("route %s %s: %w", r.Network, r.Nexthop, err)
	}
	if p.key.network, err = parseNetwork(r.Network, r.Nexthop); err != nil {
		return fail(fmt.Errorf("%w: %w", cube.ErrInvalid, err))
	}
	n := p.key.network
	if n.Addr().Is4In6() || n.Bits() > 0 && n.Addr().IsMulticast() {
		return fail(fmt.Errorf("routes to this network are not allowed: %w", cube.ErrInvalid))
	}
	if n.Addr().Is6() && n.Addr().IsLinkLocalUnicast() {
		return fail(fmt.Errorf("link-local addresses are not routed: %w", cube.ErrInvalid))
	}
	if r.Nexthop == "local" {
		return fail(fmt.Errorf("local routes come from the addresses of ports and cannot be configured: %w", cube.ErrInvalid))
	}
	if kind, ok := specialKinds[r.Nexthop]; ok {
		if r.Interface != "" {
			return fail(fmt.Errorf("this kind of route takes no interface: %w", cube.ErrInvalid))
		}
		p.key.kind = kind
		return p, nil
	}
	hop, err := netip.ParseAddr(r.Nexthop)
	if err != nil {
		return fail(fmt.Errorf("%w: %w", cube.ErrInvalid, err))
	}
	if hop.Is4In6() || hop.Is4() != n.Addr().Is4() {
		return fail(fmt.Errorf("network and next hop have different address families: %w", cube.ErrInvalid))
	}
	p.key.nexthop, p.key.kind = hop, kindUnicast
	p.gateway = gatewayKey{hop, r.Interface}
	return p, nil
}

// allNetworks is the model's word for all destinations.
const allNetworks = "default"

var default4, default6 = netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)

// parseNetwork parses a destination; for all destinations, nexthop determines the family.
func parseNetwork(network, nexthop string) (netip.Prefix, error) {
	if network != allNetworks {
		p, err := netip.ParsePrefix(network)
		return p.Masked(), err
	}
	if a, err := netip.ParseAddr(nexthop); err == nil && a.Is6() {
		return default6, nil
	}
	return default4, nil
}

// target returns the target of a route in a layout.
func (p parsed) target(l *layout) (target, error) {
	if p.key.kind != kindUnicast {
		return target{kind: p.key.kind}, nil
	}
	port, err := l.way(p.gateway.addr, p.gateway.through)
	if err != nil {
		return target{}, fmt.Errorf("route %s %s: %w", p.network, p.nexthop, err)
	}
	return unicast(p.gateway.addr, port), nil
}

func unicast(addr netip.Addr, port uint16) target {
	return target{kind: kindUnicast, port: port, gateway: addr.WithZone("")}
}

func (s staticRoute) route(t target) route { return route{target: t, origin: static, cost: s.cost} }

// put and remove maintain the index.
func (s *statics) put(p parsed, port uint16) {
	if p.key.kind != kindUnicast {
		s.special[p.key] = p.static()
		return
	}
	g := s.gateways[p.gateway]
	if g == nil {
		g = &gateway{port: port, routes: map[netip.Prefix]staticRoute{}}
		s.gateways[p.gateway] = g
	}
	g.routes[p.key.network] = p.static()
}

func (s *statics) remove(p parsed) {
	if p.key.kind != kindUnicast {
		delete(s.special, p.key)
		return
	}
	g := s.gateways[p.gateway]
	if g == nil {
		return
	}
	if delete(g.routes, p.key.network); len(g.routes) == 0 {
		delete(s.gateways, p.gateway)
	}
}

// moved returns the changes of routes whose next hops are behind another port in a layout, and the new ports. Routes
// whose next hop is no longer in a connected network are removed; Dependents deletes their entries from the
// configuration.
func (s *statics) moved(l *layout) (out []ribChange, ports map[*gateway]uint16) {
	ports = map[*gateway]uint16{}
	for k, g := range s.gateways {
		port, err := l.way(k.addr, k.through)
		if err == nil && port == g.port {
			continue
		}
		if err == nil {
			ports[g] = port
		}
		for p, r := range g.routes {
			out = append(out, ribChange{prefix: p, route: r.route(unicast(k.addr, g.port)), gone: true})
			if err == nil {
				out = append(out, ribChange{prefix: p, route: r.route(unicast(k.addr, port))})
			}
		}
	}
	return out, ports
}

// move moves next hops to other ports, and returns where they were.
func move(ports map[*gateway]uint16) map[*gateway]uint16 {
	before := make(map[*gateway]uint16, len(ports))
	for g, port := range ports {
		before[g], g.port = g.port, port
	}
	return before
}

// routeChange is a prepared change of configured routes.
type routeChange struct {
	gone, come []parsed
	ports      []uint16 // of those that come
	changes    []ribChange
}

// place is what must be unique among configured routes.
type place struct {
	network netip.Prefix
	target
}

// prepareEntries checks the changes of routes and neighbours against a layout, and returns the step that applies them.
func (r *router) prepareEntries(l *layout, c cube.ChangeOf[Config]) (cube.Step, error) {
	var routes, neighbours []cube.EntryChange
	for _, e := range c.Entries {
		if e.List[0] == "route" {
			routes = append(routes, e)
		} else {
			neighbours = append(neighbours, e)
		}
	}
	changes, err := r.prepareRoutes(l, routes)
	if err != nil {
		return nil, err
	}
	n, err := r.prepareNeighbours(l, neighbours)
	if err != nil {
		return nil, err
	}
	return cube.Effect(func() (func() error, error) { return r.changeEntries(changes, n, c.Created()) }), nil
}

func (r *router) prepareRoutes(l *layout, changes []cube.EntryChange) (*routeChange, error) {
	entries, err := cube.DecodeEntries[Route](changes)
	if err != nil {
		return nil, err
	}
	c := &routeChange{changes: make([]ribChange, 0, len(entries))}
	for _, e := range entries {
		if e.Old == nil {
			continue
		}
		old, err := parseRoute(e.Old)
		if err != nil {
			return nil, err
		}
		c.gone = append(c.gone, old)
		if t, ok := r.statics.target(old); ok && e.New == nil {
			c.changes = append(c.changes, ribChange{prefix: old.key.network, route: old.route(t), gone: true})
		}
	}
	taken := make(map[place]bool, len(entries))
	free := make(map[place]bool, len(c.gone))
	for _, old := range c.gone {
		if t, ok := r.statics.target(old); ok {
			free[place{old.key.network, t}] = true
		}
	}
	for _, e := range entries {
		if e.New == nil {
			continue
		}
		is, err := parseRoute(e.New)
		if err != nil {
			return nil, err
		}
		t, err := is.target(l)
		if err != nil {
			return nil, err
		}
		at := place{is.key.network, t}
		if taken[at] || !free[at] && r.rib.has(is.key.network, is.route(t)) {
			return nil, fmt.Errorf("route %s %s: given twice: %w", is.network, is.nexthop, cube.ErrExists)
		}
		taken[at] = true
		c.come, c.ports = append(c.come, is), append(c.ports, t.port)
		c.changes = append(c.changes, ribChange{prefix: is.key.network, route: is.route(t)})
	}
	return c, nil
}

// target returns the current target of a configured route.
func (s *statics) target(p parsed) (target, bool) {
	if p.key.kind != kindUnicast {
		return target{kind: p.key.kind}, true
	}
	g := s.gateways[p.gateway]
	if g == nil {
		return target{}, false
	}
	return unicast(p.gateway.addr, g.port), true
}

// changeEntries changes routes and neighbours, or leaves them unchanged. created says that the maps may contain routes
// of a previous run of the cube. The returned function undoes a successful change.
func (r *router) changeEntries(c *routeChange, n *neighbourChange, created bool) (func() error, error) {
	undo, err := r.rib.apply(c.changes)
	if err != nil {
		return nil, err
	}
	if err := n.commit(); err != nil {
		return nil, errors.Join(err, undo())
	}
	olds := make([]uint16, len(c.gone))
	for i, p := range c.gone {
		if t, ok := r.statics.target(p); ok {
			olds[i] = t.port
		}
	}
	for _, p := range c.gone {
		r.statics.remove(p)
	}
	for i, p := range c.come {
		r.statics.put(p, c.ports[i])
	}
	if created && !r.conf.Shadow { // the namespace's routes are reported later; until then they stay
		r.sweepRoutes()
	}
	return func() error {
		for _, p := range c.come {
			r.statics.remove(p)
		}
		for i, p := range c.gone {
			r.statics.put(p, olds[i])
		}
		return errors.Join(n.undo(), undo())
	}, nil
}

// sweepRoutes removes the routes of a previous run of the cube that no longer exist.
func (r *router) sweepRoutes() {
	if err := r.rib.sweep(); err != nil {
		r.env.Logger().Error("remove routes from before the restart", "error", err)
	}
}
