// SPDX-License-Identifier: Apache-2.0

package haproxy

// Which frontends can be taken over, as what, and why others cannot.

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Reason is a line that prevents a takeover, or a note about one.
type Reason struct {
	Position
	Text string

	note   bool // it prevents nothing
	silent bool // it is not even a note
}

// String returns the reason with its line.
func (r Reason) String() string { return fmt.Sprintf("%s: %s", r.Position, r.Text) }

// Frontend is a frontend, or a listen section.
type Frontend struct {
	Position
	Name string
	// Backend is the name of its backend; its own name for a listen section.
	Backend string
	// Reasons are the lines that prevent a takeover, in the sequence of the configuration. Without any, what follows is complete.
	Reasons []Reason
	// Notes say what is lost or different after a takeover.
	Notes []Reason
	// Services are its addresses.
	Services []Service
	// Balance says how a server is chosen: ROUND_ROBIN, LEAST_CONNECTIONS or MAGLEV.
	Balance string
	Check   Check
	// Agents is how agents of servers are asked (agent-check); its Port is 0 if they are not.
	Agents Agents
	// Idle is how long HAProxy keeps a connection without packets: the smaller timeout of client and server; 0: forever.
	Idle time.Duration
}

// Service is an address with its servers.
type Service struct {
	VIP     netip.Addr
	Ports   Ports
	Servers []Server
}

// Server is a server of a service.
type Server struct {
	Name string
	Addr netip.Addr
	// Port belongs to the first port of the service.
	Port     uint16
	Weight   int
	Disabled bool
	// Agent is the address of its agent, if that is another one.
	Agent netip.Addr
}

// Check is how servers are checked.
type Check struct {
	// Type is NONE, TCP or HTTP.
	Type       string
	Interval   time.Duration
	Timeout    time.Duration // 0: the interval
	Rise, Fall int
	Port       uint16 // 0: that of the server
	// Of type HTTP:
	Method, Path, Host, Status string
}

// Agents is how agents of servers are asked.
type Agents struct {
	Port     uint16
	Interval time.Duration
}

// maxWork limits an analysis: lines read, reasons given, and servers per address. Each proxy inherits all lines of
// its defaults, so the work grows with the product of two numbers in a file.
const maxWork = 1 << 22

// analysis is one run over a configuration.
type analysis struct {
	conf     *Config
	backends map[string]*settings // that have been read
	work     int
}

// errTooLarge is for configurations that nobody wrote by hand.
var errTooLarge = errors.New("the configuration is too large to analyse: defaults, frontends and backends multiply")

// spend reports whether some more work may be done.
func (a *analysis) spend(n int) error {
	if a.work += n; n < 0 || a.work > maxWork {
		return errTooLarge
	}
	return nil
}

// Analyse returns the frontends of a configuration, in file order.
func (c *Config) Analyse() ([]*Frontend, error) {
	a := analysis{conf: c, backends: map[string]*settings{}}
	var all []*Frontend
	order := map[string]int{}
	for _, s := range c.sections {
		if _, ok := order[s.at.File]; !ok {
			order[s.at.File] = len(order)
		}
		if s.kind.sides()&front == 0 {
			continue
		}
		f, err := a.frontend(s)
		if err == nil {
			err = a.spend(len(f.Reasons) + len(f.Notes))
		}
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	apart(all)
	for _, f := range all {
		for _, list := range []*[]Reason{&f.Reasons, &f.Notes} {
			slices.SortFunc(*list, func(a, b Reason) int {
				return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text))
			})
			*list = slices.Compact(*list)
		}
	}
	return all, nil
}

// add adds reasons or notes.
func (f *Frontend) add(reasons ...Reason) {
	for _, r := range reasons {
		switch {
		case r.silent:
		case r.note:
			f.Notes = append(f.Notes, r)
		default:
			f.Reasons = append(f.Reasons, r)
		}
	}
}

func (f *Frontend) prevent(at Position, format string, args ...any) {
	f.add(Reason{Position: at, Text: fmt.Sprintf(format, args...)})
}

// frontend analyses a frontend.
func (a *analysis) frontend(s *section) (*Frontend, error) {
	f := &Frontend{Position: s.at, Name: s.name}
	if err := a.spend(s.count + len(a.conf.conditions) + len(a.conf.limits)); err != nil {
		return nil, err
	}
	for _, l := range a.conf.limits {
		f.add(Reason{Position: l.at, Text: l.keyword + ": connections of the fast path do not count for the limits of the process", note: true})
	}
	for _, at := range a.conf.conditions {
		f.prevent(at, "conditional blocks: only HAProxy knows which lines apply")
	}
	is := s.read(s.kind.sides())
	f.add(is.reasons...)
	f.modeOf(is, s)
	if len(is.binds) == 0 {
		f.prevent(s.at, "%s has no bind address that can be taken over", printable(s.name))
	}
	servers := is
	if s.kind == listen {
		f.Backend = s.name
		if is.backends.value != "" {
			f.prevent(is.backends.at, "default_backend: a listen section has its own servers")
		}
	} else {
		var err error
		if servers, err = a.backendOf(f, is, s); servers == nil || err != nil {
			return f, err
		}
	}
	if err := a.spend((len(is.binds) + 1) * len(servers.servers)); err != nil {
		return nil, err
	}
	f.Idle = idle(is, servers)
	f.balance(servers)
	f.servers(is, servers)
	f.check(servers)
	f.agents(servers)
	return f, nil
}

// modeOf refuses modes other than tcp.
func (f *Frontend) modeOf(is *settings, s *section) {
	if is.mode.value != "tcp" {
		f.prevent(is.mode.at, "mode %s: %s needs mode tcp", printable(is.mode.value), printable(s.name))
	}
	if is.disabled != nil {
		f.prevent(*is.disabled, "disabled: %s is not in use", printable(s.name))
	}
}

// backendOf reads the default backend of a frontend; nil if there is none.
func (a *analysis) backendOf(f *Frontend, is *settings, s *section) (*settings, error) {
	if is.backends.value == "" {
		f.prevent(s.at, "%s has no default_backend", printable(s.name))
		return nil, nil
	}
	f.Backend = is.backends.value
	b := a.conf.backends[f.Backend]
	if b == nil {
		f.prevent(is.backends.at, "default_backend: there is no backend %s", printable(f.Backend))
		return nil, nil
	}
	servers := a.backends[f.Backend]
	if servers == nil {
		if err := a.spend(b.count); err != nil {
			return nil, err
		}
		servers = b.read(back)
		a.backends[f.Backend] = servers
	}
	if err := a.spend(len(servers.reasons)); err != nil {
		return nil, err
	}
	f.add(servers.reasons...)
	f.modeOf(servers, b)
	return servers, nil
}

// idle is the smaller of two timeouts. With a timeout of tunnels, HAProxy uses that one for both sides.
func idle(client, server *settings) time.Duration {
	if t := server.timeouts["tunnel"]; t > 0 {
		return t
	}
	a, b := client.timeouts["client"], server.timeouts["server"]
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// balance finds how servers are chosen.
func (f *Frontend) balance(is *settings) {
	switch is.balance.value {
	case "roundrobin", "static-rr":
		f.Balance = "ROUND_ROBIN"
	case "leastconn":
		f.Balance = "LEAST_CONNECTIONS"
	case "random":
		f.Balance = "MAGLEV"
	default:
		f.prevent(is.balance.at, "balance %s: only round robin, least connections and a hash of addresses and ports are supported", printable(is.balance.value))
	}
}

// servers finds the servers of each address.
func (f *Frontend) servers(is, of *settings) {
	for i := range of.servers {
		for _, r := range of.servers[i].effects {
			f.add(r)
		}
	}
	for _, b := range is.binds {
		service := Service{VIP: b.addr, Ports: b.ports}
		taken := map[netip.AddrPort]bool{}
		for i := range of.servers {
			s := &of.servers[i]
			port, why := portOf(s, b.ports)
			at := netip.AddrPortFrom(s.endpoint.addr, port)
			switch {
			case why != "":
			case s.endpoint.addr.Is4() != b.addr.Is4():
				why = fmt.Sprintf("address %s of %s has the other IP version", b.addr, printable(f.Name))
			case s.endpoint.addr.IsLoopback(), s.endpoint.addr.IsMulticast():
				why = "packets cannot be forwarded to a loopback or multicast address"
			case s.endpoint.addr == b.addr:
				why = "its address is that of the frontend"
			case taken[at]:
				why = "another server has the same address and port"
			}
			if why != "" {
				f.prevent(s.at, "server %s: %s", printable(s.name), why)
				continue
			}
			taken[at] = true
			service.Servers = append(service.Servers, Server{
				Name: s.name, Addr: s.endpoint.addr, Port: port, Weight: s.weight, Disabled: s.disabled, Agent: s.agents.addr,
			})
		}
		f.Services = append(f.Services, service)
	}
}

// portOf returns the port of a server for the first port of an address.
func portOf(s *serverConf, ports Ports) (port uint16, why string) {
	if !s.endpoint.relative {
		if ports.First != ports.Last {
			return 0, fmt.Sprintf("all ports from %d to %d map to one port of the server", ports.First, ports.Last)
		}
		return s.endpoint.ports.First, ""
	}
	first, last := int(ports.First)+s.endpoint.offset, int(ports.Last)+s.endpoint.offset
	if first < 1 || last > 65535 {
		return 0, fmt.Sprintf("port %d is out of range", first)
	}
	return uint16(first), ""
}

// check finds how servers are health-checked: all must have the same check.
func (f *Frontend) check(is *settings) {
	f.Check.Type = "NONE"
	for i := range is.servers {
		s := &is.servers[i]
		switch first := &is.servers[0]; {
		case s.checks != first.checks, s.checks && s.check != first.check:
			f.prevent(s.at, "server %s: its health check differs from that of server %s", printable(s.name), printable(first.name))
			return
		case s.checks && s.check.addr != "":
			f.prevent(s.at, "server %s: addr: the health check goes to another address", printable(s.name))
			return
		}
	}
	if len(is.servers) == 0 || !is.servers[0].checks {
		return
	}
	c := is.servers[0].check
	f.Check = Check{Type: "TCP", Interval: c.inter, Timeout: is.timeouts["check"], Rise: c.rise, Fall: c.fall, Port: uint16(c.port)}
	if h := is.httpCheck; h != nil && is.checkKind == "httpchk" {
		f.Check.Type, f.Check.Method, f.Check.Path, f.Check.Host, f.Check.Status = "HTTP", h.method, h.path, h.host, h.status
	}
}

// agents finds how the servers' agents are queried: all on the same port.
func (f *Frontend) agents(is *settings) {
	for i := range is.servers {
		s, first := &is.servers[i], &is.servers[0]
		a, b := s.agents, first.agents
		a.addr, b.addr = netip.Addr{}, netip.Addr{} // each may have its own
		switch {
		case s.agent != first.agent, s.agent && a != b:
			f.prevent(s.at, "server %s: its agent check differs from that of server %s", printable(s.name), printable(first.name))
			return
		case s.agent && a.port == 0:
			f.prevent(s.at, "server %s: agent-check needs agent-port", printable(s.name))
			return
		case s.agent:
			f.Agents = Agents{uint16(a.port), a.inter}
		}
	}
}

// apart prevents takeovers of addresses that several frontends, or lines, have.
func apart(all []*Frontend) {
	type owner struct {
		of    *Frontend
		ports Ports
	}
	taken := map[netip.Addr][]owner{}
	for _, f := range all {
		for _, s := range f.Services {
			taken[s.VIP] = append(taken[s.VIP], owner{f, s.Ports})
		}
	}
	for vip, owners := range taken {
		slices.SortStableFunc(owners, func(a, b owner) int { return cmp.Compare(a.ports.First, b.ports.First) })
		widest := owners[0]
		for _, o := range owners[1:] {
			if o.ports.First <= widest.ports.Last {
				o.of.prevent(o.of.Position, "%s binds port %d of %s, and so does %s", printable(o.of.Name), o.ports.First, vip, printable(widest.of.Name))
				widest.of.prevent(widest.of.Position, "%s binds port %d of %s, and so does %s", printable(widest.of.Name), o.ports.First, vip, printable(o.of.Name))
			}
			if o.ports.Last > widest.ports.Last {
				widest = o
			}
		}
	}
}
