// SPDX-License-Identifier: Apache-2.0

package gtphandler

// The configuration in Go; a test compares it with the model.

import (
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/inet"
)

// Config is the decoded configuration, without its user equipment.
type Config struct {
	gtppath.Config
	Type        SessionType `json:"session-type"`
	MaxSessions uint32      `json:"max-ethernet-sessions"`
	MaxMACs     uint32      `json:"max-mac-addresses"`
	AgingTime   uint32      `json:"aging-time"`
	MaxUsers    uint32      `json:"max-user-equipment"`
	MaxRoutes   uint32      `json:"max-framed-routes"`
	Users       []User      `json:"user-equipment"`
	Sessions    []Session   `json:"ethernet-session"`
}

// SessionType is what tunnels carry.
type SessionType string

// The types.
const (
	IP       SessionType = "IP"
	Ethernet SessionType = "ETHERNET"
)

// User is an entry of the list `user-equipment`. Entries come one by one.
type User struct {
	IP       netip.Addr     `json:"ip"`
	Prefix   netip.Addr     `json:"ipv6-prefix,omitzero"`
	Routes   []netip.Prefix `json:"framed-route,omitempty"`
	Endpoint netip.Addr     `json:"tunnel-endpoint"`
	Instance string         `json:"network-instance,omitempty"`
	TEID     uint32         `json:"teid,omitempty"`
	Remote   uint32         `json:"remote-teid,omitempty"`
	Class    *uint32        `json:"traffic-class,omitempty"`
	QFI      uint8          `json:"qfi,omitempty"`
}

// Session is an entry of the list `ethernet-session`.
type Session struct {
	TEID       uint32     `json:"teid"`
	Endpoint   netip.Addr `json:"tunnel-endpoint"`
	Instance   string     `json:"network-instance,omitempty"`
	Remote     uint32     `json:"remote-teid"`
	Class      *uint32    `json:"traffic-class,omitempty"`
	QFI        uint8      `json:"qfi,omitempty"`
	MaxLearned uint16     `json:"max-learned-addresses"`
	MACs       []Station  `json:"mac-address"`
}

// Station is a configured MAC address of a session.
type Station struct {
	Address inet.MAC `json:"address"`
}

// local returns the address that tunnels of a network instance to an endpoint come from.
func (c *Config) local(endpoint netip.Addr, instance string) (netip.Addr, error) {
	s := c.Settings()
	local, ok := s.Local(endpoint, gtppath.Instance(instance))
	if !ok {
		which := "IPv6"
		if endpoint.Is4() {
			which = "IPv4"
		}
		if instance != "" {
			which += " in network-instance " + instance
		}
		return local, fmt.Errorf("tunnel-endpoint %s: no local-address of %s: add one: %w", endpoint, which, cube.ErrInvalid)
	}
	return local, nil
}

// check checks an entry alone.
func (u *User) check() error {
	prefix := u.Prefix
	if u.IP.Is6() {
		if prefix.IsValid() {
			return fmt.Errorf("ipv6-prefix: allowed only if ip is an IPv4 address: %w", cube.ErrInvalid)
		}
		prefix = u.IP
	}
	if prefix.IsValid() {
		if first := netip.PrefixFrom(prefix, 64).Masked().Addr(); first != prefix {
			return fmt.Errorf("%s: a device has a /64 IPv6 prefix: use its first address, %s: %w", prefix, first, cube.ErrInvalid)
		}
	}
	if u.Class != nil && u.TEID == 0 {
		return fmt.Errorf("traffic-class: requires teid: %w", cube.ErrInvalid)
	}
	return nil
}
