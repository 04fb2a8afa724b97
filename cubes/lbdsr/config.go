// SPDX-License-Identifier: Apache-2.0

package lbdsr

// The configuration in Go; a test compares it with the model.

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/health"
	"github.com/polycube/polycube/inet"
)

// Config is the decoded configuration, without services.
type Config struct {
	Shadow     bool            `json:"shadow"`
	Ports      []Port          `json:"ports"`
	Algorithm  string          `json:"algorithm,omitempty"`
	Frontend   Frontend        `json:"frontend"`
	Backend    Backend         `json:"backend"`
	QUICConfig []QUICConfig    `json:"quic-config"`
	Tunnel     Tunnel          `json:"tunnel"`
	AllDown    balance.AllDown `json:"all-down"`
	MaxFlows   uint32          `json:"max-flows"`
	MaxServers uint32          `json:"max-servers"`
}

// Port is a port with its addresses.
type Port struct {
	cube.Port
	Type     Side         `json:"type"`
	IP       netip.Prefix `json:"ip,omitzero"`
	IP6      netip.Prefix `json:"ip6,omitzero"`
	Gateway  netip.Addr   `json:"gateway,omitzero"`
	Gateway6 netip.Addr   `json:"gateway6,omitzero"`
	MAC      string       `json:"mac,omitempty"`
	MTU      uint32       `json:"mtu"`
}

// Side is enum lbdsr_type, less one.
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

// Frontend is the first virtual address, Backend are its servers.
type Frontend struct {
	VIP netip.Addr `json:"vip,omitzero"`
	MAC string     `json:"mac,omitempty"`
}

// Backend contains the servers of the first virtual address.
type Backend struct {
	Pool []struct {
		ID  uint32 `json:"id"`
		MAC string `json:"mac"`
	} `json:"pool"`
}

// Service is a service without its servers.
type Service struct {
	ServiceID
	Name    string `json:"name,omitempty"`
	Select  Select `json:"select"`
	Timeout uint32 `json:"timeout"`
	// HealthCheck is nil for the service of `frontend vip`.
	HealthCheck *health.Config `json:"health-check"`
	Announce    bool           `json:"announce"`
}

// ServiceID is the key of a service.
type ServiceID = balance.ServiceID

// Select is the leaf `select`.
type Select uint32

// The ways to tell flows apart.
const (
	byFlow Select = iota
	byHosts
	bySource
	byQUIC
)

var selects = [...]balance.By{byFlow: balance.ByFlow, byHosts: balance.ByHosts, bySource: balance.BySource, byQUIC: balance.ByQUIC}

// UnmarshalText parses the model's enum.
func (s *Select) UnmarshalText(text []byte) (err error) {
	*s, err = cube.Enum[Select]("select", text, "FLOW", "HOSTS", "SOURCE", "QUIC")
	return err
}

// Server is a server of a service.
type Server struct {
	Address Address `json:"address"`
	balance.ServerConfig
	Forward      Forward  `json:"forward"`
	GUEPort      uint16   `json:"gue-port"`
	QUICServerID ServerID `json:"quic-server-id,omitempty"`
	// QUICOtherServerID is a second one, while configurations of connection IDs change.
	QUICOtherServerID ServerID `json:"quic-other-server-id,omitempty"`
}

// ids returns the server IDs of QUIC.
func (s *Server) ids() (all []ServerID) {
	for _, id := range []ServerID{s.QUICServerID, s.QUICOtherServerID} {
		if id != "" {
			all = append(all, id)
		}
	}
	return all
}

// Address is that of a server: IP or MAC.
type Address struct {
	IP  netip.Addr
	MAC inet.MAC
}

// UnmarshalText parses the model's type.
func (a *Address) UnmarshalText(text []byte) (err error) {
	if strings.Count(string(text), ":") == 5 && len(text) == 17 {
		a.MAC, err = inet.ParseMAC(string(text))
		return err
	}
	a.IP, err = netip.ParseAddr(string(text))
	if err != nil {
		return fmt.Errorf("address %q: %w", text, cube.ErrInvalid)
	}
	return nil
}

// String returns the address as in the model.
func (a Address) String() string {
	if a.IP.IsValid() {
		return a.IP.String()
	}
	return a.MAC.String()
}

// MarshalText writes the address as in the model.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Forward is enum lbdsr_forward.
type Forward uint32

// How packets reach a server.
const (
	l2 Forward = iota
	ipip
	gue
)

// UnmarshalText parses the model's enum.
func (f *Forward) UnmarshalText(text []byte) (err error) {
	*f, err = cube.Enum[Forward]("forward", text, "L2", "IPIP", "GUE")
	return err
}

// ServerID is a server ID of QUIC.
type ServerID string

// UnmarshalText parses bytes with colons in between.
func (s *ServerID) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(strings.ReplaceAll(string(text), ":", ""))
	if err != nil || len(b) == 0 || len(b) > maxServerID {
		return fmt.Errorf("quic-server-id %q: use 1 to %d hexadecimal bytes such as 01:02:03:04: %w", text, maxServerID, cube.ErrInvalid)
	}
	*s = ServerID(b)
	return nil
}

// MarshalText writes bytes with colons in between.
func (s ServerID) MarshalText() ([]byte, error) {
	return []byte(strings.ReplaceAll(fmt.Sprintf("% x", string(s)), " ", ":")), nil
}

// maxServerID is the maximum length of a server ID in bytes (draft-ietf-quic-load-balancers 4.1).
const maxServerID = 15

// QUICConfig is a configuration of connection IDs.
type QUICConfig struct {
	ID     uint32 `json:"id"`
	Length uint32 `json:"server-id-length"`
}

// Tunnel has the outer headers of tunnels.
type Tunnel struct {
	Source  netip.Prefix `json:"source,omitzero"`
	Source6 netip.Prefix `json:"source6,omitzero"`
	TTL     uint32       `json:"ttl"`
}

// legacy is the service of `frontend vip`; false if there is none.
func (c *Config) legacy() (Service, bool) {
	if !c.Frontend.VIP.IsValid() {
		return Service{}, false
	}
	return Service{ServiceID: ServiceID{VIP: c.Frontend.VIP, Proto: balance.All}, Timeout: 900}, true
}

// timeout returns the timeout of a service.
func (s *Service) timeout() time.Duration { return time.Duration(s.Timeout) * time.Second }
