// SPDX-License-Identifier: Apache-2.0

package lbrp

// The source of health checks: the only address of the load balancer, at the backend port.

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// CheckSource is where health checks come from.
type CheckSource struct {
	IP       netip.Prefix `json:"ip,omitzero"`
	Gateway  netip.Addr   `json:"gateway,omitzero"`
	IP6      netip.Prefix `json:"ip6,omitzero"`
	Gateway6 netip.Addr   `json:"gateway6,omitzero"`
}

// sourceEntry is struct lbrp_source.
type sourceEntry struct {
	Address  inet.Address
	Address6 inet.Address
	Mac      inet.MAC
	Control  bucket.Limit
	Answers  bucket.Limit
}

// address returns the address and the gateway of a family.
func (s *CheckSource) address(six bool) (netip.Prefix, netip.Addr) {
	if six {
		return s.IP6, s.Gateway6
	}
	return s.IP, s.Gateway
}

// has reports whether an address is the source of checks.
func (s *CheckSource) has(a netip.Addr) bool {
	on, _ := s.address(a.Is6())
	return on.IsValid() && on.Addr() == a
}

// valid reports whether there is a source.
func (s *CheckSource) valid() bool { return s.IP.IsValid() || s.IP6.IsValid() }

// addresses returns the sources of both families.
func (s *CheckSource) addresses() (all []netip.Addr) {
	for _, p := range []netip.Prefix{s.IP, s.IP6} {
		if p.IsValid() {
			all = append(all, p.Addr())
		}
	}
	return all
}

// hop returns the source of checks of an address, and the neighbour that they are sent to; or why there is none.
func (s *CheckSource) hop(to netip.Addr) (source, neighbour netip.Addr, why string) {
	on, gateway := s.address(to.Is6())
	leaf := "ip"
	if to.Is6() {
		leaf = "ip6"
	}
	switch {
	case !on.IsValid():
		return source, neighbour, fmt.Sprintf("check-source has no address of the same family as %s: set %s", to, leaf)
	case on.Contains(to):
		return on.Addr(), to, ""
	case gateway.IsValid():
		return on.Addr(), gateway, ""
	}
	return source, neighbour, fmt.Sprintf("%s is not on the link of check-source, and check-source has no gateway: set one", to)
}

// check refuses addresses that cannot be a source.
func (s *CheckSource) check() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("check-source: %s: %w", fmt.Sprintf(format, args...), cube.ErrInvalid)
	}
	for _, six := range []bool{false, true} {
		on, gateway := s.address(six)
		a := on.Addr()
		switch {
		case !on.IsValid() && gateway.IsValid():
			return fail("gateway %s requires a source address of the same family", gateway)
		case !on.IsValid():
			continue
		case !six && !a.Is4():
			return fail("ip %s is not IPv4; set ip6", on)
		case six && (!a.Is6() || a.Is4In6()):
			return fail("ip6 %s is not IPv6; set ip", on)
		case a.IsUnspecified(), a.IsMulticast(), a.IsLoopback(), a.IsLinkLocalUnicast(), !on.IsSingleIP() && on.Bits() < a.BitLen()-1 && on.Masked().Addr() == a:
			return fail("%s is not a valid host address", on)
		case gateway == a:
			return fail("gateway %s is the source address itself", gateway)
		case gateway.IsValid() && !on.Contains(gateway) && !gateway.IsLinkLocalUnicast():
			return fail("gateway %s is not on the link of %s", gateway, on)
		}
	}
	return nil
}

// checkSource refuses a source of checks that something else has. Services are compared with it when they or it change.
func (c *Config) checkSource() error {
	if err := c.CheckSource.check(); err != nil || !c.CheckSource.valid() {
		return err
	}
	taken := func(a netip.Addr, by string) error {
		return fmt.Errorf("check-source: %s is already in use: %s: %w", a, by, cube.ErrExists)
	}
	for _, p := range c.Ports {
		if c.CheckSource.has(p.IP) {
			return taken(p.IP, "it is the ip of port "+p.Name)
		}
	}
	if to := c.SrcIPRewrite.NewIPRange; to.IsValid() && c.CheckSource.IP.IsValid() && to.Contains(c.CheckSource.IP.Addr()) {
		return taken(c.CheckSource.IP.Addr(), "it is in new_ip_range and may be assigned to a client")
	}
	return nil
}

// entry is the source as the program sees it.
func (s *CheckSource) entry(mac inet.MAC) (e sourceEntry, err error) {
	e.Mac = mac
	if s.IP.IsValid() {
		e.Address = inet.AddressOf(s.IP.Addr())
	}
	if s.IP6.IsValid() {
		e.Address6 = inet.AddressOf(s.IP6.Addr())
	}
	if e.Control, err = bucket.New(2000, time.Second, 2000); err != nil {
		return e, err
	}
	e.Answers, err = bucket.New(20000, time.Second, 4000)
	return e, err
}
