// SPDX-License-Identifier: Apache-2.0

// Package router is an IP router. The fast path forwards by the longest prefix; the control plane computes its routes,
// and resolves neighbours.
package router

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/inet"
)

// files are the model and the compiled programs.
//
//go:embed router.yang router.tc.o router.xdp.o
var files embed.FS

// maxPorts is the maximum number of ports of a router.
const maxPorts = 256

func init() {
	cube.Register(cube.Service{
		Files:    files,
		MaxPorts: maxPorts,
		New:      func(env cube.Env) (cube.Instance, error) { return newRouter(env).instance(), nil },
	})
}

type router struct {
	env cube.Env

	t    tables
	rib  *rib
	hops *hops
	// now is the layout in effect.
	now *layout
	// statics are the configured routes.
	statics statics
	// fixed are the configured neighbours by the key of the model, fixedKeys by the key of the fast path.
	fixed     map[string]fixed
	fixedKeys map[addressKey]bool
	// macs are the addresses of ports without a configured one.
	macs map[uint16]inet.MAC
	// conf is the configuration in effect, nil before the first one.
	conf *Config
	slow *slow
	// peers are the peers of ports, by port name.
	peers map[string]cube.Peer
	// links are the reported states of ports, by name.
	links portLinks
	// learned are the routes of the cube's namespace.
	learned *learnedTable
}

func newRouter(env cube.Env) *router {
	t := newTables(env)
	r := &router{env: env, t: t, hops: newHops(t), macs: map[uint16]inet.MAC{}, now: &layout{}, statics: newStatics(),
		fixed: map[string]fixed{}, fixedKeys: map[addressKey]bool{}}
	r.rib = newRib(r.hops, t)
	r.hops.link = func(port uint16) link {
		if p := r.now.ports[port]; p != nil {
			return link{p.mac, p.mtu}
		}
		return link{}
	}
	r.hops.resolve = func(addr netip.Addr, port uint16) (inet.MAC, bool) {
		n, ok, err := r.t.neighbours.Get(addressKey{Address: inet.AddressOf(addr), Port: port})
		return n.Mac, ok && err == nil && n.usable()
	}
	r.slow, r.learned = newSlow(env, r), newLearnedTable(env, r.rib)
	r.peers, r.links = map[string]cube.Peer{}, portLinks{}
	r.hops.wanted = r.slow.want
	return r
}

// instance returns the functions that the framework calls.
func (r *router) instance() cube.Instance {
	return cube.Instance{
		Prepare: cube.Typed(r.prepare), Dependents: r.Dependents, State: r.State, DeleteState: r.DeleteState,
		Action: r.Action, PacketIn: r.slow.packetIn, Notify: r.slow.notify, PortChanged: r.PortChanged,
		LinkChanged: r.LinkChanged, PeerChanged: r.PeerChanged, RoutesChanged: r.RoutesChanged,
		Interfaces: r.Interfaces, NamespaceChanged: r.portFollows, Alignment: r.Alignment,
		NetdevChanged: r.portFollows,
	}
}

// prepare plans the ports first, then routes and neighbours.
func (r *router) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	var plan cube.Plan
	next := r.now
	if c.New != nil {
		var err error
		if next, err = newLayout(c.New, r.env, r.macOf); err != nil {
			return cube.Plan{}, err
		}
		if c.New.Fib == "host" && c.New.Shadow {
			return cube.Plan{}, fmt.Errorf("fib host: a router with a namespace uses the routes of the namespace, not those of the host: %w", cube.ErrInvalid)
		}
		limits := limits{routes: c.New.MaxRoutes, neighbours: c.New.MaxNeighbours}
		plan.Constants = constants(c.New)
		plan.MapSizes = map[string]uint32{"routes6": limits.routes, "neighbours": limits.neighbours}
		plan.Before = append(plan.Before, cube.Effect(func() (func() error, error) { return r.configure(c, next, limits) }))
	}
	if !c.Created() && len(c.Entries) == 0 {
		return plan, nil
	}
	entries, err := r.prepareEntries(next, c)
	plan.Before = append(plan.Before, entries)
	return plan, err
}

// limits are the sizes of maps.
type limits struct{ routes, neighbours uint32 }

// constants returns the values of the program's constants.
func constants(c *Config) map[string]any {
	filter := slices.ContainsFunc(c.Ports, func(p Port) bool { return p.RpFilter != RPOff })
	return map[string]any{"host_fib": c.Fib == "host", "any_rp_filter": filter}
}

// configure applies a layout, or leaves everything unchanged. The returned function undoes it.
func (r *router) configure(c cube.ChangeOf[Config], next *layout, limits limits) (func() error, error) {
	was, limit := r.conf, r.rib.limit
	r.conf, r.rib.limit = c.New, int(limits.routes)
	unset, err := r.slow.begin(c.New, limits.neighbours)
	if err != nil {
		r.conf, r.rib.limit = was, limit
		return nil, err
	}
	if c.Created() {
		err = r.adopt(next)
	}
	var undo func() error
	if err == nil {
		undo, err = r.arrange(next)
	}
	if err != nil {
		r.conf, r.rib.limit = was, limit
		unset()
		return nil, err
	}
	return func() error {
		r.conf, r.rib.limit = was, limit
		unset()
		return undo()
	}, nil
}

// adopt starts with the contents of the maps, which a previous run of the cube left, if there was one.
func (r *router) adopt(next *layout) error {
	if origin, err := r.t.ports.Origin(); err != nil {
		return err
	} else if origin == origins.Created {
		return r.rib.adopt()
	}
	for index, p := range next.ports {
		e, _, err := r.t.ports.Get(uint32(index))
		if err != nil {
			return err
		}
		if e.Mac != 0 { // it existed, and is up until the router is notified otherwise
			r.links[p.name] = &portLink{up: true, works: true}
		}
		if e.Mac != 0 && p.mac == r.macs[index] { // not configured
			p.adoptMAC(e.Mac)
			r.macs[index] = e.Mac
		}
	}
	return r.rib.adopt()
}

// adoptMAC gives a port its previous MAC address.
func (s *portState) adoptMAC(m inet.MAC) {
	had := len(s.addresses)
	s.mac = m
	if had > 0 && s.addresses[had-1].Bits() == 64 && s.addresses[had-1].Addr().IsLinkLocalUnicast() {
		s.addresses = s.addresses[:had-1]
	}
	s.linkLocal()
}

// arrange updates maps and routes to a layout.
func (r *router) arrange(next *layout) (func() error, error) {
	before := r.now
	r.now = next
	back := func() error {
		r.now = before
		err := errors.Join(r.writePorts(next, before), r.writePeers())
		r.slow.portsChanged(before)
		return err
	}
	fail := func(err error) (func() error, error) { return nil, errors.Join(err, back()) }
	if err := errors.Join(r.writePorts(before, next), r.writePeers()); err != nil {
		return fail(err)
	}
	r.slow.portsChanged(next)
	changes := connectedChanges(before, next)
	moved, ports := r.statics.moved(next)
	undo, err := r.rib.follow(r.downPorts(next), append(changes, moved...))
	if err != nil {
		return fail(err)
	}
	were := move(ports)
	return func() error {
		move(were)
		return errors.Join(undo(), back())
	}, nil
}

// connectedChanges returns the routes that are added and removed with addresses.
func connectedChanges(before, after *layout) []ribChange {
	var out []ribChange
	was, is := before.routes(), after.routes()
	for p, r := range is {
		if was[p] != r {
			out = append(out, ribChange{prefix: p, route: r})
		}
	}
	for p, r := range was {
		if is[p] != r {
			out = append(out, ribChange{prefix: p, route: r, gone: true})
		}
	}
	return out
}

// writePorts replaces the ports and addresses of one layout by those of another.
func (r *router) writePorts(before, after *layout) error {
	was, is := addressEntries(before), addressEntries(after)
	var own ownBits
	for k := range is {
		bit := ownBit(k.Address)
		own.Bits[bit/64] |= 1 << (bit % 64)
	}
	// A source counts as the router's as long as it may be its own: set before the address, cleared after it.
	wider := own
	for k := range was {
		bit := ownBit(k.Address)
		wider.Bits[bit/64] |= 1 << (bit % 64)
	}
	if err := r.t.own.Set(0, wider); err != nil {
		return err
	}
	for index, p := range after.ports {
		if err := r.t.ports.Set(uint32(index), p.entry()); err != nil {
			return err
		}
		if err := r.hops.linkChanged(index); err != nil {
			return err
		}
	}
	for k, e := range is {
		if _, ok := was[k]; ok {
			continue
		}
		if _, err := r.t.addresses.Add(k, e); err != nil {
			return err
		}
	}
	if err := r.writeOwners(before, after); err != nil {
		return err
	}
	for k := range was {
		if _, ok := is[k]; ok {
			continue
		}
		if _, err := r.t.addresses.Delete(k); err != nil {
			return err
		}
	}
	for index := range before.ports {
		if after.ports[index] != nil {
			continue
		}
		if err := r.t.ports.Set(uint32(index), portEntry{}); err != nil {
			return err
		}
		delete(r.macs, index)
	}
	return r.t.own.Set(0, own)
}

// writeOwners writes which port has an address.
func (r *router) writeOwners(before, after *layout) error {
	for a, name := range after.own {
		if err := r.t.owners.Set(inet.AddressOf(a), uint32(after.byName[name].index)); err != nil {
			return err
		}
	}
	for a := range before.own {
		if _, ok := after.own[a]; ok {
			continue
		}
		if _, err := r.t.owners.Delete(inet.AddressOf(a)); err != nil {
			return err
		}
	}
	return nil
}

// addressEntries returns the entries of the map `addresses`.
func addressEntries(l *layout) map[addressKey]addressEntry {
	out := map[addressKey]addressEntry{}
	for index, p := range l.ports {
		for _, a := range p.addresses {
			out[addressKey{Address: inet.AddressOf(a.Addr()), Port: index}] = addressEntry{Length: uint8(a.Bits())}
		}
	}
	return out
}

// lookup finds the path to an address by the routes in effect.
func (r *router) lookup(dst netip.Addr) (port uint16, gateway netip.Addr, ok bool) {
	t, ok := r.rib.lookup(dst)
	return t.port, t.gateway, ok
}
