// SPDX-License-Identifier: Apache-2.0

package lbdsr

// What the configuration asks for: ports, services and their servers. It is not changed once it is made, so a change that
// fails is undone by applying the previous one.

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/balance/checks"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// desired is a configuration.
type desired struct {
	conf     *Config
	services map[ServiceID]*wanted
}

// wanted is a service with its servers, by their addresses.
type wanted struct {
	conf    Service
	servers map[string]*Server
	// first is set for the service of `frontend vip`, which is not in the list.
	first bool
}

// key is the identity of a server: servers with the same key are the same to the program.
func (s *Server) key() (k balance.Key) {
	if s.Address.IP.IsValid() {
		a := inet.AddressOf(s.Address.IP)
		copy(k[:], a[:])
	} else {
		m := s.Address.MAC.Bytes()
		copy(k[16:], m[:])
	}
	if s.Forward == gue {
		k[16], k[17] = byte(s.GUEPort>>8), byte(s.GUEPort)
	}
	k[23] = byte(s.Forward)
	return k
}

// with returns the configuration after a change.
func (d *desired) with(c cube.ChangeOf[Config]) (*desired, error) {
	next := &desired{conf: d.conf, services: maps.Clone(d.services)}
	if next.services == nil {
		next.services = map[ServiceID]*wanted{}
	}
	if c.New != nil {
		if err := c.New.checkPorts(); err != nil {
			return nil, err
		}
		if first, ok := d.conf.legacy(); ok {
			delete(next.services, first.ServiceID)
		}
		next.conf = c.New
	}
	var services, servers []cube.EntryChange
	for _, e := range c.Entries {
		if len(e.List) == 1 {
			services = append(services, e)
		} else {
			servers = append(servers, e)
		}
	}
	if err := next.changeServices(services, c.Created()); err != nil {
		return nil, err
	}
	if err := next.changeServers(servers); err != nil {
		return nil, err
	}
	if c.New != nil {
		for _, w := range next.services {
			if err := w.checkIDs(next.conf.QUICConfig); err != nil {
				return nil, err
			}
		}
	}
	return next, next.pool(d)
}

// changeServices adds, removes and changes services, which keep the servers that they have. created says that the cube is created
// or restored.
func (d *desired) changeServices(entries []cube.EntryChange, created bool) error {
	changes, err := cube.DecodeEntries[Service](entries)
	if err != nil {
		return err
	}
	for _, change := range changes {
		if change.New == nil {
			delete(d.services, change.Old.ServiceID)
			continue
		}
		s := change.New
		if err := s.Check(); err != nil {
			return err
		}
		if s.Select == byQUIC && s.Proto == balance.TCP {
			return fmt.Errorf("service %s: select=QUIC needs proto=UDP or ALL: %w", s.ServiceID, cube.ErrInvalid)
		}
		if err := s.checkHealth(d.conf, created); err != nil {
			return err
		}
		w := &wanted{conf: *s, servers: map[string]*Server{}}
		if was := d.services[s.ServiceID]; was != nil {
			w.servers = was.servers
		}
		d.services[s.ServiceID] = w
	}
	return nil
}

// changeServers adds, removes and changes servers of services.
func (d *desired) changeServers(entries []cube.EntryChange) error {
	changes, err := cube.DecodeEntries[Server](entries)
	if err != nil {
		return err
	}
	touched := map[ServiceID]bool{}
	for _, change := range changes {
		id, err := balance.ServiceOf(change.Above)
		if err != nil {
			return err
		}
		w := d.services[id]
		if w == nil {
			continue // the service is removed with its servers
		}
		if !touched[id] {
			touched[id] = true
			w = &wanted{conf: w.conf, servers: maps.Clone(w.servers)}
			d.services[id] = w
		}
		if change.Old != nil {
			delete(w.servers, change.Old.Address.String())
		}
		if change.New != nil {
			w.servers[change.New.Address.String()] = change.New
		}
	}
	for id := range touched {
		if err := errors.Join(d.services[id].check(), d.services[id].checkIDs(d.conf.QUICConfig)); err != nil {
			return err
		}
	}
	return nil
}

// pool adds the service of `frontend vip` with its servers; was is the configuration before the change.
func (d *desired) pool(was *desired) error {
	first, ok := d.conf.legacy()
	if !ok {
		return nil
	}
	w := d.services[first.ServiceID]
	if w != nil && !w.first {
		return fmt.Errorf("service %s: `frontend vip` defines the same service: remove one of them: %w", first.ServiceID, cube.ErrExists)
	}
	if err := first.Check(); err != nil {
		return err
	}
	servers := map[string]*Server{}
	for _, p := range d.conf.Backend.Pool {
		mac, err := inet.ParseMAC(p.MAC)
		if err != nil {
			return fmt.Errorf("backend pool %d: %w", p.ID, err)
		}
		s := &Server{Address: Address{MAC: mac}, ServerConfig: balance.ServerConfig{Weight: 1}}
		if servers[s.Address.String()] != nil {
			return fmt.Errorf("backend pool %d: another server has the MAC address %s: %w", p.ID, p.MAC, cube.ErrExists)
		}
		servers[s.Address.String()] = s
	}
	if w = was.services[first.ServiceID]; w == nil || !w.first || !maps.EqualFunc(w.servers, servers, func(a, b *Server) bool { return *a == *b }) {
		w = &wanted{conf: first, servers: servers, first: true}
	}
	d.services[first.ServiceID] = w
	return nil
}

// check refuses servers of a service that cannot be reached as they say.
func (w *wanted) check() error {
	ids := map[ServerID]string{}
	enabled := 0
	for text, s := range w.servers {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("service %s: server %s: %s: %w", w.conf.ServiceID, text, fmt.Sprintf(format, args...), cube.ErrInvalid)
		}
		switch {
		case s.Forward != l2 && !s.Address.IP.IsValid():
			return fail("a tunnel needs an IP address for the server: set one, or set forward=L2")
		case s.Address.IP.IsValid() && (s.Address.IP.IsUnspecified() || s.Address.IP.IsMulticast() || s.Address.IP.Is4In6()):
			return fail("not a valid server address")
		}
		for _, id := range s.ids() {
			if other := ids[id]; other != "" {
				return fail("server %s has the same quic-server-id", other)
			}
			ids[id] = text
		}
		if s.Weight > 0 {
			enabled++
		}
	}
	if enabled > balance.MaxMembers {
		return fmt.Errorf("service %s: %d servers, but at most %d are supported: %w", w.conf.ServiceID, enabled, balance.MaxMembers, cube.ErrFull)
	}
	return nil
}

// checkIDs refuses server IDs of a length that no configuration of connection IDs has: no packet would have them.
func (w *wanted) checkIDs(configs []QUICConfig) error {
	for text, s := range w.servers {
		for _, id := range s.ids() {
			if !slices.ContainsFunc(configs, func(c QUICConfig) bool { return int(c.Length) == len(id) }) {
				return fmt.Errorf("service %s: server %s: its server ID needs a quic-config with server-id-length=%d: %w",
					w.conf.ServiceID, text, len(id), cube.ErrInvalid)
			}
		}
	}
	return nil
}

// checkHealth refuses a health check that cannot be made.
func (s *Service) checkHealth(conf *Config, created bool) error {
	if s.Announce && !conf.Shadow {
		return fmt.Errorf("service %s: announce requires a cube with a namespace: create the cube with shadow=true: %w", s.ServiceID, cube.ErrInvalid)
	}
	return checks.Validate(s.ServiceID, s.HealthCheck, s.target(), created)
}

// checkPorts refuses addresses of the wrong kind.
func (c *Config) checkPorts() error {
	for _, p := range c.Ports {
		switch {
		case p.IP.IsValid() && !p.IP.Addr().Is4():
			return fmt.Errorf("port %s: ip %s is not IPv4; set ip6: %w", p.Name, p.IP, cube.ErrInvalid)
		case p.IP6.IsValid() && (!p.IP6.Addr().Is6() || p.IP6.Addr().Is4In6()):
			return fmt.Errorf("port %s: ip6 %s is not IPv6; set ip: %w", p.Name, p.IP6, cube.ErrInvalid)
		case p.IP6.IsValid() && p.MTU < 1280:
			return fmt.Errorf("port %s: IPv6 requires an mtu of at least 1280, but it is %d: %w", p.Name, p.MTU, cube.ErrInvalid)
		}
	}
	return nil
}

// features reports which parts of the program are needed.
func (d *desired) features() (tunnels, quic, checked bool) {
	for _, w := range d.services {
		checked = checked || w.conf.HealthCheck.Enabled()
		quic = quic || w.conf.Select == byQUIC
		for _, s := range w.servers {
			tunnels = tunnels || s.Forward != l2
		}
	}
	return tunnels, quic, checked
}

// sides returns the ports of a side, by name.
func (c *Config) sides(side Side) []*Port {
	var ports []*Port
	for i := range c.Ports {
		if c.Ports[i].Type == side {
			ports = append(ports, &c.Ports[i])
		}
	}
	slices.SortFunc(ports, func(a, b *Port) int { return cmp.Compare(a.Name, b.Name) })
	return ports
}

// toServers returns the ports by which packets reach servers.
func (c *Config) toServers() []*Port {
	if back := c.sides(Backside); len(back) > 0 {
		return back
	}
	return c.sides(Frontside)
}

// address returns a port's address and gateway of a family.
func (p *Port) address(six bool) (netip.Prefix, netip.Addr) {
	if six {
		return p.IP6, p.Gateway6
	}
	return p.IP, p.Gateway
}

// route returns the port to a server and the neighbour there that packets go to, which has no address if the server
// is known by its MAC address. ok is false if no port leads there.
func (c *Config) route(s *Server) (port *Port, hop netip.Addr, ok bool) {
	ports := c.toServers()
	if !s.Address.IP.IsValid() {
		if len(ports) == 0 {
			return nil, hop, false
		}
		return ports[0], hop, true
	}
	a := s.Address.IP
	for _, p := range ports {
		if on, _ := p.address(a.Is6()); on.IsValid() && on.Contains(a) {
			return p, a, true
		}
	}
	for _, p := range ports {
		if _, gateway := p.address(a.Is6()); s.Forward != l2 && gateway.IsValid() {
			return p, gateway, true
		}
	}
	if len(ports) == 1 { // everything is on its link
		return ports[0], a, true
	}
	return nil, hop, false
}
