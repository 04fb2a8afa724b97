// SPDX-License-Identifier: Apache-2.0

package lbrp

// The configuration in Go; a test compares it with the model.

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/feedback"
	"github.com/polycube/polycube/health"
)

// Config is the decoded configuration, without services.
type Config struct {
	Ports        []Port          `json:"ports"`
	PortMode     PortMode        `json:"port_mode"`
	SrcIPRewrite SrcIPRewrite    `json:"src-ip-rewrite"`
	CheckSource  CheckSource     `json:"check-source"`
	AllDown      balance.AllDown `json:"all-down"`
	Timeout      Timeout         `json:"timeout"`
	MaxSessions  uint32          `json:"max-sessions"`
	MaxBackends  uint32          `json:"max-backends"`
	MaxClients   uint32          `json:"max-clients"`
}

// Port is a port with its side.
type Port struct {
	cube.Port
	Type Side       `json:"type"`
	IP   netip.Addr `json:"ip,omitzero"`
}

// Side is enum lbrp_side.
type Side uint32

// The sides of the load balancer.
const (
	Frontside Side = iota
	Backside
)

// UnmarshalText parses the model's enum.
func (s *Side) UnmarshalText(text []byte) (err error) {
	*s, err = cube.Enum[Side]("type", text, "FRONTEND", "BACKEND")
	return err
}

// PortMode is the leaf `port_mode`.
type PortMode uint32

// The modes.
const (
	single PortMode = iota
	multi
)

// UnmarshalText parses the model's enum.
func (m *PortMode) UnmarshalText(text []byte) (err error) {
	*m, err = cube.Enum[PortMode]("port_mode", text, "SINGLE", "MULTI")
	return err
}

// SrcIPRewrite renumbers clients.
type SrcIPRewrite struct {
	IPRange    netip.Prefix `json:"ip-range,omitzero"`
	NewIPRange netip.Prefix `json:"new_ip_range,omitzero"`
}

// Service is a service without its servers.
type Service struct {
	VIP         netip.Addr       `json:"vip"`
	VPort       uint16           `json:"vport"`
	Proto       Proto            `json:"proto"`
	Name        string           `json:"name,omitempty"`
	LastPort    uint16           `json:"last-port,omitempty"`
	Select      Select           `json:"select"`
	Affinity    uint32           `json:"affinity"`
	FullNAT     bool             `json:"full-nat"`
	NoServers   NoServers        `json:"no-servers"`
	HealthCheck *health.Config   `json:"health-check"`
	Feedback    *feedback.Config `json:"feedback"`
}

// ServiceKey is the key of a service.
type ServiceKey struct {
	VIP   netip.Addr
	VPort uint16
	Proto Proto
}

func (s *Service) key() ServiceKey { return ServiceKey{s.VIP, s.VPort, s.Proto} }

// String returns the keys as in a command line.
func (k ServiceKey) String() string { return fmt.Sprintf("%s %d %s", k.VIP, k.VPort, k.Proto) }

// serviceKeyOf returns the service that the keys of a list entry name.
func serviceKeyOf(keys []string) (k ServiceKey, err error) {
	if len(keys) < 3 {
		return k, fmt.Errorf("service %v: %w", keys, cube.ErrInvalid)
	}
	if k.VIP, err = netip.ParseAddr(keys[0]); err == nil {
		if _, err = fmt.Sscan(keys[1], &k.VPort); err == nil {
			err = k.Proto.UnmarshalText([]byte(keys[2]))
		}
	}
	return k, err
}

// Proto is the protocol of a service.
type Proto uint32

// The protocols.
const (
	protoICMP Proto = iota
	protoTCP
	protoUDP
	protoSCTP
	protoAll
)

var protos = [...]string{"ICMP", "TCP", "UDP", "SCTP", "ALL"}

// UnmarshalText parses the model's enum.
func (p *Proto) UnmarshalText(text []byte) (err error) {
	*p, err = cube.Enum[Proto]("proto", text, protos[:]...)
	return err
}

// MarshalText writes the name in the model.
func (p Proto) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// String returns the name in the model.
func (p Proto) String() string { return protos[p] }

// Select is enum lbrp_select.
type Select uint32

// How a service chooses servers.
const (
	maglev Select = iota
	roundRobin
	leastConnections
)

// UnmarshalText parses the model's enum.
func (s *Select) UnmarshalText(text []byte) (err error) {
	*s, err = cube.Enum[Select]("select", text, "MAGLEV", "ROUND_ROBIN", "LEAST_CONNECTIONS")
	return err
}

// NoServers is the leaf `no-servers`.
type NoServers uint32

// What happens without servers.
const (
	refuse NoServers = iota
	drop
)

// UnmarshalText parses the model's enum.
func (n *NoServers) UnmarshalText(text []byte) (err error) {
	*n, err = cube.Enum[NoServers]("no-servers", text, "REFUSE", "DROP")
	return err
}

// Backend is a server of a service.
type Backend struct {
	IP   netip.Addr `json:"ip"`
	Port uint16     `json:"port"`
	Name string     `json:"name,omitempty"`
	balance.ServerConfig
	AgentAddress netip.Addr `json:"agent-address,omitzero"`
}

func (b *Backend) key() netip.AddrPort { return netip.AddrPortFrom(b.IP, b.Port) }

// Timeout has the times without packets after which sessions end, in seconds.
type Timeout struct {
	TCPEstablished uint32 `json:"tcp-established"`
	TCPTransitory  uint32 `json:"tcp-transitory"`
	UDP            uint32 `json:"udp"`
	ICMP           uint32 `json:"icmp"`
	SCTP           uint32 `json:"sctp"`
}

// check refuses a configuration that contradicts itself.
func (c *Config) check() error {
	if err := c.checkPorts(); err != nil {
		return err
	}
	if err := c.SrcIPRewrite.check(); err != nil {
		return err
	}
	return c.checkSource()
}

func (c *Config) checkPorts() error {
	sides, hosts := [2]string{}, map[netip.Addr]string{}
	for _, p := range c.Ports {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("port %s: %s: %w", p.Name, fmt.Sprintf(format, args...), cube.ErrInvalid)
		}
		inMulti := c.PortMode == multi && p.Type == Frontside
		switch {
		case !inMulti && sides[p.Type] != "":
			return fail("port %s already has this type; only port_mode MULTI allows several ports of one type, and only of type FRONTEND", sides[p.Type])
		case !inMulti && p.IP.IsValid():
			return fail("ip is only allowed on frontend ports with port_mode MULTI")
		case inMulti && !p.IP.IsValid():
			return fail("with port_mode MULTI, a frontend port requires ip, the address of the host behind it")
		case inMulti && hosts[p.IP] != "":
			return fail("port %s has the same ip", hosts[p.IP])
		}
		sides[p.Type], hosts[p.IP] = p.Name, p.Name
	}
	return nil
}

func (s *SrcIPRewrite) check() error {
	is, to := s.IPRange, s.NewIPRange
	switch {
	case is.IsValid() != to.IsValid():
		return fmt.Errorf("src-ip-rewrite: set both ip-range and new_ip_range: %w", cube.ErrInvalid)
	case is.Bits() != to.Bits():
		return fmt.Errorf("src-ip-rewrite: the prefixes %s and %s differ in length: %w", is, to, cube.ErrInvalid)
	case is.IsValid() && is.Overlaps(to):
		return fmt.Errorf("src-ip-rewrite: %s and %s overlap: %w", is, to, cube.ErrInvalid)
	}
	return nil
}

// portRange is where the ports of services of an address and protocol are.
type portRange struct {
	first, last uint16
	of          ServiceKey
}

func (s *Service) check() error {
	fail := func(text string) error { return fmt.Errorf("service %s: %s: %w", s.key(), text, cube.ErrInvalid) }
	switch {
	case s.Proto == protoICMP && s.VPort != 0:
		return fail("proto ICMP requires vport 0")
	case s.Proto != protoICMP && s.VPort == 0:
		return fail("vport 0 is only allowed with proto ICMP; for a port range, set last-port")
	case s.Proto == protoICMP && s.LastPort != 0:
		return fail("ICMP has no ports: remove last-port")
	case s.LastPort != 0 && s.LastPort < s.VPort:
		return fail("last-port is less than vport")
	case s.VIP.IsUnspecified(), s.VIP.IsMulticast(), s.VIP.Is4In6(), s.VIP.IsLoopback(), s.VIP.Is6() && s.VIP.IsLinkLocalUnicast():
		return fail("the address cannot be a virtual address")
	case s.Feedback.Enabled() && s.Feedback.Method == feedback.HTTP && s.Feedback.Port == 0 && s.VPort == 0:
		return fail("feedback with method HTTP requires port, because ICMP has none")
	}
	if err := s.Feedback.Validate(); err != nil {
		return fmt.Errorf("service %s: %w", s.key(), err)
	}
	return nil
}

// ids returns the services of the data plane that a service is.
func (s *Service) ids() []balance.ServiceID {
	of := func(p balance.Proto) balance.ServiceID {
		return balance.ServiceID{VIP: s.VIP, Port: s.VPort, Proto: p}
	}
	switch s.Proto {
	case protoICMP:
		return []balance.ServiceID{of(balance.ICMP)}
	case protoTCP:
		return []balance.ServiceID{of(balance.TCP)}
	case protoUDP:
		return []balance.ServiceID{of(balance.UDP)}
	case protoSCTP:
		return []balance.ServiceID{of(balance.SCTP)}
	case protoAll:
	}
	return []balance.ServiceID{of(balance.TCP), of(balance.UDP), {VIP: s.VIP, Proto: balance.ICMP}}
}

// apart refuses ranges of ports that overlap.
func apart(ranges []portRange) error {
	slices.SortFunc(ranges, func(a, b portRange) int { return cmp.Compare(a.first, b.first) })
	for i := 1; i < len(ranges); i++ {
		if a, b := &ranges[i-1], &ranges[i]; b.first <= a.last {
			return fmt.Errorf("the ports of services %s and %s overlap: %w", a.of, b.of, cube.ErrExists)
		}
	}
	return nil
}
