// SPDX-License-Identifier: Apache-2.0

package router

// The meaning of a configuration of ports: addresses, their connected networks, and which of them contains a next hop.

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/wire"
)

// minMTU6 is the minimum MTU of a link with IPv6 (RFC 8200).
const minMTU6 = 1280

// network is a connected network.
type network struct {
	prefix netip.Prefix
	port   uint16
	name   string
}

// portState is a port in effect.
type portState struct {
	name  string
	index uint16
	mac   inet.MAC
	// addresses: the primary one first, including the IPv6 link-local one.
	addresses []netip.Prefix
	mtu       uint32
	filter    RPFilter
	// detect says that routes follow the carrier of the port's netdev.
	detect bool
}

// layout is the result of a configuration of ports.
type layout struct {
	ports    map[uint16]*portState
	byName   map[string]*portState
	networks []network
	// own maps the router's addresses, except for link-local ones, to their ports.
	own map[netip.Addr]string
}

// newLayout checks the ports of a configuration. macOf returns the MAC address of ports without a configured one.
func newLayout(conf *Config, env cube.Env, macOf func(p Port, index uint16) inet.MAC) (*layout, error) {
	l := &layout{ports: map[uint16]*portState{}, byName: map[string]*portState{}, own: map[netip.Addr]string{}}
	for _, p := range conf.Ports {
		index, ok := env.PortIndex(p.Name)
		if !ok {
			return nil, fmt.Errorf("port %s: %w", p.Name, cube.ErrNotFound)
		}
		s := &portState{name: p.Name, index: index, mtu: p.Mtu, filter: p.RpFilter, detect: p.LinkDetect, addresses: p.addresses()}
		if p.Mac != "" {
			var err error
			if s.mac, err = inet.ParseMAC(p.Mac); err != nil {
				return nil, fmt.Errorf("port %s: %w", p.Name, err)
			}
		} else {
			if !conf.aligns() {
				p.Align = AlignOff
			}
			s.mac = macOf(p, index)
		}
		if len(p.Secondaryip) > 0 && !p.IP.IsValid() {
			return nil, fmt.Errorf("port %s: a secondary address requires a primary one: set ip first: %w", p.Name, cube.ErrInvalid)
		}
		for _, a := range s.addresses {
			if err := l.add(s, a); err != nil {
				return nil, fmt.Errorf("port %s: address %s: %w", p.Name, a, err)
			}
		}
		s.linkLocal()
		l.ports[index], l.byName[p.Name] = s, s
	}
	return l, nil
}

// linkLocal adds a link-local address (RFC 4291, appendix A) to a port with IPv6 if it has none.
func (s *portState) linkLocal() {
	six := false
	for _, a := range s.addresses {
		if a.Addr().IsLinkLocalUnicast() && a.Addr().Is6() {
			return
		}
		six = six || a.Addr().Is6()
	}
	if !six {
		return
	}
	addr := wire.LinkLocal(s.mac.Bytes())
	s.addresses = append(s.addresses[:len(s.addresses):len(s.addresses)], netip.PrefixFrom(addr, 64))
}

// add adds an address to a port.
func (l *layout) add(s *portState, p netip.Prefix) error {
	a := p.Addr()
	switch {
	case a.Is4In6(), a.IsUnspecified(), a.IsLoopback(), a.IsMulticast(), a.Is4() && a.As4()[0] >= 224, a.Is4() && a.As4()[0] == 0:
		return fmt.Errorf("not allowed as the address of a port: %w", cube.ErrInvalid)
	case a.Is4() && p.Bits() < 31 && a == p.Masked().Addr():
		return fmt.Errorf("it is the network address: %w", cube.ErrInvalid)
	case a.Is4() && p.Bits() < 31 && a == broadcast(p):
		return fmt.Errorf("it is the broadcast address of the network: %w", cube.ErrInvalid)
	case a.Is6() && s.mtu < minMTU6:
		return fmt.Errorf("IPv6 requires an mtu of at least %d, but it is %d: %w", minMTU6, s.mtu, cube.ErrInvalid)
	}
	if a.Is6() && a.IsLinkLocalUnicast() {
		return nil
	}
	if other, ok := l.own[a]; ok {
		return fmt.Errorf("port %s already has it: %w", other, cube.ErrExists)
	}
	l.own[a] = s.name
	if p.IsSingleIP() {
		return nil
	}
	for _, n := range l.networks {
		if n.prefix != p.Masked() {
			continue
		}
		if n.port == s.index {
			return nil
		}
		return fmt.Errorf("port %s is already in network %s: %w", n.name, n.prefix, cube.ErrExists)
	}
	l.networks = append(l.networks, network{p.Masked(), s.index, s.name})
	return nil
}

// broadcast returns the broadcast address of an IPv4 network.
func broadcast(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(b)
}

// routes returns the routes of the addresses, except for IPv6 link-local ones, which are only valid on their link.
func (l *layout) routes() map[netip.Prefix]route {
	out := map[netip.Prefix]route{}
	for _, n := range l.networks {
		out[n.prefix] = route{target: target{kind: kindUnicast, port: n.port}, origin: connected}
		if n.prefix.Addr().Is4() && n.prefix.Bits() < 31 {
			b := broadcast(n.prefix)
			out[netip.PrefixFrom(b, 32)] = route{target: target{kind: kindBroadcast}, origin: connected, hidden: true}
		}
	}
	for a := range l.own {
		out[netip.PrefixFrom(a, a.BitLen())] = route{target: target{kind: kindLocal}, origin: connected, hidden: true}
	}
	return out
}

// way finds the port of a next hop: the one whose network contains it.
func (l *layout) way(nexthop netip.Addr, through string) (uint16, error) {
	if zone := nexthop.Zone(); zone != "" {
		if through != "" && through != zone {
			return 0, fmt.Errorf("next hop %s: interface is %s: %w", nexthop, through, cube.ErrInvalid)
		}
		nexthop, through = nexthop.WithZone(""), zone
	}
	if through != "" && l.byName[through] == nil {
		return 0, fmt.Errorf("interface %s: the router has no such port: %w", through, cube.ErrNotFound)
	}
	if _, ok := l.own[nexthop]; ok {
		return 0, fmt.Errorf("next hop %s is an address of the router itself: %w", nexthop, cube.ErrInvalid)
	}
	if nexthop.Is6() && nexthop.IsLinkLocalUnicast() {
		return l.wayLinkLocal(nexthop, through)
	}
	best := network{}
	for _, n := range l.networks {
		if n.prefix.Contains(nexthop) && (through == "" || n.name == through) && (!best.prefix.IsValid() || n.prefix.Bits() > best.prefix.Bits()) {
			best = n
		}
	}
	switch {
	case best.prefix.IsValid() && nexthop.Is4() && best.prefix.Bits() < 31 && (nexthop == broadcast(best.prefix) || nexthop == best.prefix.Addr()):
		return 0, fmt.Errorf("next hop %s is not a host address of network %s: %w", nexthop, best.prefix, cube.ErrInvalid)
	case best.prefix.IsValid():
		return best.port, nil
	case through != "":
		return 0, fmt.Errorf("next hop %s is not in a network of port %s (%s): %w", nexthop, through, l.names(through), cube.ErrInvalid)
	}
	return 0, fmt.Errorf("next hop %s is not in a network that the router is connected to (%s): %w", nexthop, l.names(""), cube.ErrInvalid)
}

func (l *layout) wayLinkLocal(nexthop netip.Addr, through string) (uint16, error) {
	if through == "" {
		return 0, fmt.Errorf("next hop %s is link-local: specify its port, with interface=PORT or as %[1]s%%PORT: %w", nexthop, cube.ErrInvalid)
	}
	p := l.byName[through]
	for _, a := range p.addresses {
		if a.Addr() == nexthop {
			return 0, fmt.Errorf("next hop %s is an address of the router itself: %w", nexthop, cube.ErrInvalid)
		}
		if a.Addr().Is6() {
			return p.index, nil
		}
	}
	return 0, fmt.Errorf("next hop %s: port %s has no IPv6 address: %w", nexthop, through, cube.ErrInvalid)
}

// names lists the networks of a port, or of all, for an error.
func (l *layout) names(port string) string {
	var out []string
	for _, n := range l.networks {
		if port == "" || n.name == port {
			out = append(out, n.prefix.String())
		}
	}
	switch {
	case len(out) == 0:
		return "none"
	case len(out) > 8:
		return fmt.Sprintf("%s and %d more", strings.Join(out[:8], ", "), len(out)-8)
	}
	return strings.Join(out, ", ")
}

// entry returns a port's entry in the map.
func (s *portState) entry() portEntry {
	e := portEntry{Mac: s.mac, Mtu: s.mtu, RpFilter: uint8(s.filter)}
	for _, a := range s.addresses {
		w := inet.AddressOf(a.Addr())
		switch {
		case a.Addr().Is4() && e.HasIp4 == 0:
			e.HasIp4, e.Address4 = 1, binary.NativeEndian.Uint32(w[12:])
		case a.Addr().Is6():
			e.HasIp6 = 1
			if !a.Addr().IsLinkLocalUnicast() && e.Address6 == (inet.Address{}) {
				e.Address6 = w
			}
		}
	}
	return e
}
