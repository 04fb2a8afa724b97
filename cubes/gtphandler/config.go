// SPDX-License-Identifier: Apache-2.0

package gtphandler

// The configuration in Go; a test compares it with the model.

import (
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtppath"
)

// Config is the decoded configuration, without its user equipment.
type Config struct {
	gtppath.Config
	MaxUsers uint32 `json:"max-user-equipment"`
	Users    []User `json:"user-equipment"`
}

// User is an entry of the list `user-equipment`. Entries come one by one.
type User struct {
	IP       netip.Addr `json:"ip"`
	Prefix   netip.Addr `json:"ipv6-prefix,omitzero"`
	Endpoint netip.Addr `json:"tunnel-endpoint"`
	TEID     uint32     `json:"teid,omitempty"`
	Remote   uint32     `json:"remote-teid,omitempty"`
	Class    *uint32    `json:"traffic-class,omitempty"`
	QFI      uint8      `json:"qfi,omitempty"`
}

// local returns the address that tunnels to an endpoint come from.
func (c *Config) local(endpoint netip.Addr) (netip.Addr, error) {
	s := c.Settings()
	local, ok := s.Local(endpoint)
	if !ok {
		family := "IPv6"
		if endpoint.Is4() {
			family = "IPv4"
		}
		return local, fmt.Errorf("tunnel-endpoint %s: there is no local-address of %s: %w", endpoint, family, cube.ErrInvalid)
	}
	return local, nil
}

// check checks an entry alone.
func (u *User) check() error {
	prefix := u.Prefix
	if u.IP.Is6() {
		if prefix.IsValid() {
			return fmt.Errorf("ipv6-prefix: only devices with an IPv4 address as ip have one: %w", cube.ErrInvalid)
		}
		prefix = u.IP
	}
	if prefix.IsValid() {
		if first := netip.PrefixFrom(prefix, 64).Masked().Addr(); first != prefix {
			return fmt.Errorf("%s: a device has an IPv6 prefix of 64 bits: write its first address, %s: %w", prefix, first, cube.ErrInvalid)
		}
	}
	if u.Class != nil && u.TEID == 0 {
		return fmt.Errorf("traffic-class: only packets of a tunnel with a teid have one: %w", cube.ErrInvalid)
	}
	return nil
}
