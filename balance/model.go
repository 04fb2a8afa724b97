// SPDX-License-Identifier: Apache-2.0

package balance

// The Go types of the YANG module polycube-balance.

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// Proto is the protocol of a service.
type Proto uint32

// The protocols of services.
const (
	TCP Proto = iota
	UDP
	All
	ICMP // echo requests and their replies, with port 0
	SCTP
)

var protos = [...]string{"TCP", "UDP", "ALL", "ICMP", "SCTP"}

// UnmarshalText parses the model's enum.
func (p *Proto) UnmarshalText(text []byte) (err error) {
	*p, err = cube.Enum[Proto]("proto", text, protos[:]...)
	return err
}

// MarshalText writes the name in the model.
func (p Proto) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// String returns the name in the model.
func (p Proto) String() string { return protos[p] }

// ServiceID is the grouping `service-key`.
type ServiceID struct {
	VIP   netip.Addr `json:"vip"`
	Port  uint16     `json:"vport"`
	Proto Proto      `json:"proto"`
}

// String returns the keys as in a command line.
func (s ServiceID) String() string { return fmt.Sprintf("%s %d %s", s.VIP, s.Port, s.Proto) }

// ServiceOf returns the service that the keys of a list entry name.
func ServiceOf(keys []string) (s ServiceID, err error) {
	if len(keys) < 3 {
		return s, fmt.Errorf("service %v: %w", keys, cube.ErrInvalid)
	}
	if s.VIP, err = netip.ParseAddr(keys[0]); err == nil {
		if _, err = fmt.Sscan(keys[1], &s.Port); err == nil {
			err = s.Proto.UnmarshalText([]byte(keys[2]))
		}
	}
	return s, err
}

// Check refuses a service whose packets cannot be told from others.
func (s ServiceID) Check() error {
	switch {
	case s.Port == 0 && s.Proto != All:
		return fmt.Errorf("service %s: vport 0 matches all ports and requires proto ALL: %w", s, cube.ErrInvalid)
	case s.VIP.IsUnspecified(), s.VIP.IsMulticast(), s.VIP.Is4In6(), s.VIP.Is6() && s.VIP.IsLinkLocalUnicast():
		return fmt.Errorf("service %s: the address cannot be a virtual address: %w", s, cube.ErrInvalid)
	}
	return nil
}

// serviceKey is struct pcn_service_key.
type serviceKey struct {
	Address  inet.Address
	Port     [2]byte
	Protocol inet.Protocol
	Zero     uint8
}

// keys returns the keys of a service in the data plane.
func (s ServiceID) keys() []serviceKey {
	k := serviceKey{Address: inet.AddressOf(s.VIP), Port: [2]byte{byte(s.Port >> 8), byte(s.Port)}}
	if s.Proto == ICMP {
		return []serviceKey{echoKey(s.VIP)}
	}
	if s.Port == 0 {
		return []serviceKey{k}
	}
	tcp, udp, sctp := k, k, k
	tcp.Protocol, udp.Protocol, sctp.Protocol = inet.TCP, inet.UDP, inet.SCTP
	switch s.Proto {
	case TCP:
		return []serviceKey{tcp}
	case UDP:
		return []serviceKey{udp}
	case SCTP:
		return []serviceKey{sctp}
	case All, ICMP:
	}
	return []serviceKey{tcp, udp}
}

// AdminState is the leaf `admin-state`.
type AdminState uint32

// What a server is used for.
const (
	Enabled AdminState = iota
	Draining
	Disabled
)

// UnmarshalText parses the model's enum.
func (a *AdminState) UnmarshalText(text []byte) (err error) {
	*a, err = cube.Enum[AdminState]("admin-state", text, "ENABLED", "DRAINING", "DISABLED")
	return err
}

// ServerConfig is the grouping `server-config`.
type ServerConfig struct {
	Weight       uint32     `json:"weight"`
	AdminState   AdminState `json:"admin-state"`
	DrainTimeout uint32     `json:"drain-timeout"`
}

// Drains returns how long a server that is draining keeps its flows, 0: as long as they last.
func (s *ServerConfig) Drains() time.Duration { return time.Duration(s.DrainTimeout) * time.Second }

// State is the leaf `state` of the grouping `server-state`.
type State string

// The states of a server of a service.
const (
	Unused       State = "" // not in use yet
	Up           State = "UP"
	Down         State = "DOWN"
	IsDraining   State = "DRAINING"
	IsDrained    State = "DRAINED"
	IsDisabled   State = "DISABLED"
	IsUnresolved State = "UNRESOLVED"
)

// State returns the state of a server: drained says that its time to drain is over, resolved that packets can be sent to it,
// and well that its health check has not found it to be down.
func (s *ServerConfig) State(drained, resolved, well bool) State {
	switch {
	case s.AdminState == Disabled:
		return IsDisabled
	case s.AdminState == Draining && drained:
		return IsDrained
	case s.AdminState == Draining:
		return IsDraining
	case !resolved:
		return IsUnresolved
	case !well:
		return Down
	}
	return Up
}

// AllDown is the leaf `all-down`: what happens when all servers of a service are down.
type AllDown uint32

// The values of AllDown.
const (
	Keep AllDown = iota
	Drop
)

// UnmarshalText parses the model's enum.
func (a *AllDown) UnmarshalText(text []byte) (err error) {
	*a, err = cube.Enum[AllDown]("all-down", text, "KEEP", "DROP")
	return err
}

// Last returns the servers of a service that has none that is up, with all-down KEEP: of those that are enabled, the ones that
// had flows last; all, if none had.
func Last(enabled []Member, had func(server uint32) bool) []Member {
	var last []Member
	for _, m := range enabled {
		if had(m.Server) {
			last = append(last, m)
		}
	}
	if len(last) == 0 {
		return enabled
	}
	return last
}
