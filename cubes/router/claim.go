// SPDX-License-Identifier: Apache-2.0

package router

// The router's own addresses on its links: duplicate address detection, announcement, defence.

import (
	"net/netip"
	"slices"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/neigh"
	"github.com/polycube/polycube/wire"
)

// portsChanged processes a change of ports, addresses and MAC addresses, which is already in the maps.
func (s *slow) portsChanged(l *layout) {
	now := clock()
	was := s.ports
	s.ports = l.ports
	for index, old := range was {
		p := l.ports[index]
		if p == nil || p.name != old.name {
			s.table.Remove(index)
			delete(s.up, index)
		}
		for _, a := range old.addresses {
			if p == nil || p.name != old.name || !has(p.addresses, a.Addr()) {
				s.claims.Remove(neigh.Key{Addr: a.Addr(), Port: index})
			}
		}
	}
	for index, p := range l.ports {
		for _, a := range p.addresses {
			s.claim(neigh.Key{Addr: a.Addr(), Port: index}, p.station(), now)
		}
	}
	s.fresh = false
}

// claim claims an address. An address that was in use before the daemon started stays in use.
func (s *slow) claim(k neigh.Key, mac wire.MAC, now time.Duration) {
	before, had := s.claims.Has(k)
	start := neigh.Announce
	switch {
	case had && before == mac:
		return
	case had:
	case s.fresh && s.restored && !s.isTentative(k):
		start = neigh.Hold
	case s.detect:
		start = neigh.Check
	}
	if start == neigh.Check && k.Addr.Is6() {
		s.Usable(k, false)
	}
	s.claims.Add(k, mac, start, s.up[k.Port], now)
}

// machine reports whether a station is the host that the router runs on: it may have another netdev on the same link,
// where Linux answers for the port's address on its netdev. That is not a duplicate.
func (s *slow) machine(mac wire.MAC) bool { return cube.OwnStation(s.env, mac[:]) }

// portUp processes a change of a port's link.
func (s *slow) portUp(index uint16, up bool) {
	if s.table == nil || s.up[index] == up {
		return
	}
	s.up[index] = up
	if up {
		s.claims.Up(index, clock())
		return
	}
	s.claims.Down(index)
	s.table.Flush(index, clock())
}

func has(list []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Addr() == a })
}

func (s *slow) isTentative(k neigh.Key) bool {
	a, ok, err := s.addresses.Get(keyOf(k.Addr, k.Port))
	return err == nil && ok && a.Tentative != 0
}

// Probe implements neigh.Announcer.
func (s *slow) Probe(k neigh.Key, mac wire.MAC) {
	if k.Addr.Is4() {
		s.send(k.Port, wire.ProbeARP(k.Addr, mac).Frame())
		return
	}
	s.send(k.Port, wire.ProbeND(k.Addr, mac).Frame())
}

// Announce implements neigh.Announcer.
func (s *slow) Announce(k neigh.Key, mac wire.MAC) {
	if k.Addr.Is4() {
		s.send(k.Port, wire.AnnounceARP(k.Addr, mac).Frame())
		return
	}
	s.send(k.Port, wire.AnnounceND(k.Addr, mac).Frame())
}

// Usable implements neigh.Announcer.
func (s *slow) Usable(k neigh.Key, usable bool) {
	key := keyOf(k.Addr, k.Port)
	a, ok, err := s.addresses.Get(key)
	if err == nil && ok && (a.Tentative != 0) == usable {
		a.Tentative = 1
		if usable {
			a.Tentative = 0
		}
		err = s.addresses.Set(key, a)
	}
	if err != nil {
		s.env.Logger().Error("update the address conflict state", "address", k.Addr, "error", err)
	}
}

// Duplicate implements neigh.Announcer.
func (s *slow) Duplicate(k neigh.Key, other wire.MAC) {
	s.env.Logger().Warn("address conflict: another station uses an address of the router", "address", k.Addr, "port", s.ports[k.Port].name, "station", other)
}

// Unique implements neigh.Announcer.
func (s *slow) Unique(k neigh.Key) {
	s.env.Logger().Info("address conflict resolved: no other station uses an address of the router", "address", k.Addr, "port", s.ports[k.Port].name)
}

// duplicates returns the addresses of a port that another station uses.
func (s *slow) duplicates(index uint16) []netip.Addr {
	if s.claims == nil {
		return nil
	}
	var out []netip.Addr
	for _, k := range s.claims.Duplicates(index, clock()) {
		out = append(out, k.Addr)
	}
	return out
}
