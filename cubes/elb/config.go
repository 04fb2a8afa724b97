// SPDX-License-Identifier: Apache-2.0

package elb

// The configuration in Go; a test compares it with the model.

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/feedback"
	"github.com/polycube/polycube/health"
)

// Config is the decoded configuration.
type Config struct {
	Outputs     []cube.Output `json:"outputs"`
	HAProxy     HAProxy       `json:"haproxy"`
	SourcePorts SourcePorts   `json:"source-ports"`
	Source      netip.Addr    `json:"source"`
	Source6     netip.Addr    `json:"source6"`
	Service     []Service     `json:"service"`
	Timeout     Timeout       `json:"timeout"`
	MaxSessions uint32        `json:"max-sessions"`
	MaxServers  uint32        `json:"max-servers"`
}

// HAProxy says where the proxy's configuration and socket are.
type HAProxy struct {
	Files       []string `json:"file"`
	StatsSocket string   `json:"stats-socket"`
}

// SourcePorts is a range of ports.
type SourcePorts struct{ First, Last uint16 }

// UnmarshalText parses FIRST-LAST.
func (p *SourcePorts) UnmarshalText(text []byte) error {
	first, last, _ := strings.Cut(string(text), "-")
	a, errA := strconv.ParseUint(first, 10, 16)
	b, errB := strconv.ParseUint(last, 10, 16)
	if errA != nil || errB != nil || a < 1024 || b < a {
		return fmt.Errorf("source-ports %s: want a range from 1024-1024 to 65535-65535: %w", text, cube.ErrInvalid)
	}
	*p = SourcePorts{uint16(a), uint16(b)}
	return nil
}

// String returns the form of the model.
func (p SourcePorts) String() string { return fmt.Sprintf("%d-%d", p.First, p.Last) }

// has reports whether a port is in the range.
func (p SourcePorts) has(port uint16) bool { return port >= p.First && port <= p.Last }

// count is the number of ports, which fits in 16 bits even for the largest range.
func (p SourcePorts) count() uint16 { return p.Last - p.First + 1 }

// Service is a configured service.
type Service struct {
	VIP         netip.Addr       `json:"vip"`
	VPort       uint16           `json:"vport"`
	Select      Select           `json:"select"`
	HealthCheck *health.Config   `json:"health-check"`
	Feedback    *feedback.Config `json:"feedback"`
	Backend     []Backend        `json:"backend"`
}

// Backend is a server of such a service.
type Backend struct {
	IP           netip.Addr `json:"ip"`
	Port         uint16     `json:"port"`
	Weight       uint32     `json:"weight"`
	AgentAddress netip.Addr `json:"agent-address"`
}

// Timeout is how long sessions last without packets, in seconds.
type Timeout struct {
	TCPEstablished uint32 `json:"tcp-established"`
	TCPTransitory  uint32 `json:"tcp-transitory"`
	TCPTimeWait    uint32 `json:"tcp-time-wait"`
}

// Select is enum elb_select.
type Select uint32

const (
	maglev Select = iota
	roundRobin
	leastConnections
)

var selectNames = []string{maglev: "MAGLEV", roundRobin: "ROUND_ROBIN", leastConnections: "LEAST_CONNECTIONS"}

// UnmarshalText parses the model's enum.
func (s *Select) UnmarshalText(text []byte) (err error) {
	*s, err = cube.Enum[Select]("select", text, selectNames...)
	return err
}

// source returns the address that servers of a service see, unless they are behind a netdev that does not have the service's address.
func (c *Config) source(vip netip.Addr) netip.Addr {
	own := c.Source
	if vip.Is6() {
		own = c.Source6
	}
	if own.IsValid() {
		return own
	}
	return vip
}

// check refuses configurations that the model accepts but the program cannot handle.
func (c *Config) check() error {
	for _, a := range []netip.Addr{c.Source, c.Source6} {
		if a.IsValid() && !isHost(a) {
			return fmt.Errorf("source %s is not the address of a host: %w", a, cube.ErrInvalid)
		}
	}
	servers := 0
	for i := range c.Service {
		w := c.Service[i].wanted(&c.Timeout)
		if err := c.refuses(w); err != nil {
			return fmt.Errorf("%w: %w", err, cube.ErrInvalid)
		}
		servers += len(w.servers)
	}
	if servers > int(c.MaxServers) {
		return fmt.Errorf("%d servers exceed max-servers, which is %d: %w", servers, c.MaxServers, cube.ErrFull)
	}
	return nil
}

// isHost reports whether an address can be the source and destination of packets.
func isHost(a netip.Addr) bool {
	return a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback() && !a.Is4In6() && !a.IsLinkLocalUnicast() &&
		a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// refuses returns why a service cannot be load-balanced, nil if it can.
func (c *Config) refuses(w *wanted) error {
	source := c.source(w.id.VIP)
	switch {
	case !isHost(w.id.VIP):
		return fmt.Errorf("service %s: not the address of a host", w.name())
	case source == w.id.VIP && c.SourcePorts.has(w.id.Port):
		return fmt.Errorf("service %s: its port is in source-ports %s, and servers see its address; choose another range", w.name(), c.SourcePorts)
	}
	if err := w.feedback.Validate(); err != nil {
		return fmt.Errorf("service %s: %w", w.name(), err)
	}
	for _, s := range w.servers {
		why := ""
		switch {
		case !isHost(s.at.Addr()):
			why = "not the address of a host"
		case s.at.Addr().Is4() != w.id.VIP.Is4():
			why = "its IP version differs from the service's"
		case s.at.Addr() == w.id.VIP, s.at.Addr() == source:
			why = "its address is that of the service, or the source address that servers see"
		case s.agent.IsUnspecified(), s.agent.IsMulticast(), s.agent.Is4In6():
			why = "agent-address is not the address of a host"
		}
		if why == "" {
			if err := w.checkOf(s.at).Validate(); err != nil {
				why = err.Error()
			}
		}
		if why != "" {
			return fmt.Errorf("service %s: server %s: %s", w.name(), s.at, why)
		}
	}
	return nil
}

// localPorts is the file with the ports that the kernel assigns to connections.
const localPorts = "/proc/sys/net/ipv4/ip_local_port_range"

// checkPorts refuses source ports that the host may assign to its own connections.
func (c *Config) checkPorts() error {
	text, err := os.ReadFile(localPorts)
	if err != nil {
		return fmt.Errorf("read the host's local port range: %w", err)
	}
	var first, last uint16
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil {
		return fmt.Errorf("read the host's local port range: %s: %w", localPorts, err)
	}
	if c.SourcePorts.First <= last && first <= c.SourcePorts.Last {
		return fmt.Errorf("source-ports %s: the host uses ports %d to %d for its own connections (net.ipv4.ip_local_port_range); "+
			"choose a range that does not overlap: %w", c.SourcePorts, first, last, cube.ErrInvalid)
	}
	return nil
}

// wanted is the desired state of a service, from either source.
type wanted struct {
	id    balance.ServiceID
	how   Select
	check health.Check // the address and the port of its target may be missing: checkOf adds those of the server
	// feedback says how weights follow the load; nil: they do not.
	feedback *feedback.Config
	idle     uint32 // timeout of established sessions, in seconds
	servers  []wantedServer
	// frontend and backend are the names in HAProxy; empty for a service configured here.
	frontend, backend string
}

// wantedServer is a server of it.
type wantedServer struct {
	at       netip.AddrPort
	name     string // in HAProxy
	weight   uint32
	disabled bool
	draining bool
	why      string     // why it gets no new sessions although it is up
	agent    netip.Addr // if it differs from the server's address
}

// checkOf returns the check of a server.
func (w *wanted) checkOf(server netip.AddrPort) health.Check {
	check := w.check
	address, port := check.Target.Addr(), check.Target.Port()
	if !address.IsValid() {
		address = server.Addr()
	}
	if port == 0 {
		port = server.Port()
	}
	check.Target = netip.AddrPortFrom(address, port)
	return check
}

// name is for messages.
func (w *wanted) name() string { return fmt.Sprintf("%s %d", w.id.VIP, w.id.Port) }

// wanted returns a configured service.
func (s *Service) wanted(t *Timeout) *wanted {
	w := &wanted{id: balance.ServiceID{VIP: s.VIP, Port: s.VPort, Proto: balance.TCP}, how: s.Select, idle: t.TCPEstablished, feedback: s.Feedback}
	if s.HealthCheck.Enabled() {
		w.check = s.HealthCheck.Check(netip.AddrPort{})
	}
	for _, one := range s.Backend {
		w.servers = append(w.servers, wantedServer{at: netip.AddrPortFrom(one.IP, one.Port), weight: one.Weight, agent: one.AgentAddress})
	}
	return w
}
