// SPDX-License-Identifier: Apache-2.0

package lbdsr

// Makes the maps what the configuration and the state of servers ask for.

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/balance/checks"
	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/neigh"
	"github.com/polycube/polycube/wire"
)

// server is a server that services have, as the program sees it.
type server struct {
	key    balance.Key
	conf   *Server // one of those with this key: address and way are the same in all
	number uint32
	users  map[ServiceID]bool
	hop    neigh.Key // that packets go to
	led    bool      // the hop is known
	wants  bool      // the hop is being resolved
	mac    inet.MAC
	failed bool // the neighbour does not answer
}

// memberKey is a server of a service.
type memberKey = checks.Key

// member is the state of a server of a service.
type member struct {
	state   balance.State
	since   time.Time
	at      time.Duration // the same, of the fast path's clock
	drained bool          // its time to drain is over
	check   *checks.Check // its health check; nil if there is none
}

// apply makes the maps what a configuration asks for. After an error, applying the previous configuration undoes it.
func (b *balancer) apply(next *desired) error {
	was := b.now
	b.now, b.ways.conf, b.ways.holds = next, next.conf, true // what is computed from it depends on all of it
	if err := b.applyPorts(was.conf); err != nil {
		return err
	}
	if err := b.checks.apply(next); err != nil {
		return err
	}
	b.announcer.must = true
	if err := b.applyServices(was); err != nil {
		return err
	}
	for id, w := range was.services {
		if next.services[id] != nil {
			continue
		}
		if err := b.remove(id); err != nil {
			return err
		}
		b.release(id, w)
		delete(b.used, id)
		delete(b.live, id)
	}
	return errors.Join(b.applyAddresses(), b.services.SetEcho(b.echoes()), b.applyQUIC())
}

// remove removes a service from the maps, if it is there.
func (b *balancer) remove(id ServiceID) error {
	if number, ok := b.services.Known(id); ok {
		if err := b.maps.known.set(number, knownEntry{}); err != nil {
			return err
		}
	}
	return b.services.Remove(id)
}

// atOnce is how many tables are filled before they are written.
const atOnce = 32

// applyServices makes services what they are to be, where they changed: some at a time, whose tables are filled on all CPUs.
func (b *balancer) applyServices(was *desired) error {
	var changed []ServiceID
	for id, w := range b.now.services {
		if was.services[id] != w || b.changed[id] || was.conf.AllDown != b.now.conf.AllDown {
			changed = append(changed, id)
		}
	}
	for some := range slices.Chunk(changed, atOnce) {
		var pools [][]balance.Member
		for _, id := range some {
			w := b.now.services[id]
			for _, s := range w.servers {
				if err := b.take(id, s); err != nil {
					return fmt.Errorf("service %s: server %s: %w", id, s.Address, err)
				}
			}
			pools = append(pools, b.wants(id, w))
		}
		b.tables.Prepare(pools)
		for _, id := range some {
			if err := b.applyService(id, was.services[id], b.now.services[id]); err != nil {
				return fmt.Errorf("service %s: %w", id, err)
			}
			delete(b.changed, id)
		}
	}
	return nil
}

// applyPorts writes the ports and what holds for all packets, and finds the ways to servers again if they may have changed.
func (b *balancer) applyPorts(was *Config) error {
	ports, err := b.maps.ports.Values()
	if err != nil {
		return err
	}
	entries := map[uint16]portEntry{}
	for i := range b.now.conf.Ports {
		p := &b.now.conf.Ports[i]
		if index, ok := b.env.PortIndex(p.Name); ok {
			entries[index] = portEntry{Mac: b.ways.macOf(p), Type: uint32(p.Type) + 1, Mtu: p.MTU}
		}
	}
	for i := range ports {
		if e := entries[uint16(i)]; ports[i] != e {
			ports[i] = e
		}
	}
	if err := b.applySettings(); err != nil || reflect.DeepEqual(was.Ports, b.now.conf.Ports) {
		return err
	}
	_, _, checked := b.now.features()
	for _, s := range b.servers {
		if err := b.ways.lead(s); err != nil {
			return err
		}
		if checked {
			b.affects(s) // the source of checks may be another one
		}
	}
	return nil
}

// applySettings writes what holds for the cube as a whole.
func (b *balancer) applySettings() error {
	settings, err := b.maps.settings.Values()
	if err != nil {
		return err
	}
	s := settingsEntry{Now: balance.Clock(uint64(balance.Now())), Ttl: b.now.conf.Tunnel.TTL}
	s.Source4, s.Vary4 = b.tunnelSource(b.now.conf.Tunnel.Source, false)
	s.Source6, s.Vary6 = b.tunnelSource(b.now.conf.Tunnel.Source6, true)
	if front := b.now.conf.sides(Frontside); len(front) == 1 {
		index, _ := b.env.PortIndex(front[0].Name)
		s.Frontend = uint32(index) + 1
	}
	if s.Errors, err = bucket.New(100, time.Second, 100); err != nil {
		return err
	}
	if s.Control, err = bucket.New(2000, time.Second, 2000); err != nil {
		return err
	}
	if s.Checks, err = bucket.New(20000, time.Second, 4000); err != nil {
		return err
	}
	settings[0] = s
	return nil
}

// tunnelSource returns the source of outer packets, and how many bits of it vary by flow.
func (b *balancer) tunnelSource(prefix netip.Prefix, six bool) (inet.Address, uint32) {
	if prefix.IsValid() {
		return inet.AddressOf(prefix.Masked().Addr()), uint32(min(prefix.Addr().BitLen()-prefix.Bits(), 32))
	}
	for _, p := range b.now.conf.toServers() {
		if on, _ := p.address(six); on.IsValid() {
			return inet.AddressOf(on.Addr()), 0
		}
	}
	return inet.Address{}, 0
}

// The bits of enum lbdsr_address.
const (
	isAnswered = 1 << iota
	isOfPort
)

// applyAddresses writes the addresses that ARP and neighbour discovery are answered for, and announces new ones.
func (b *balancer) applyAddresses() error {
	want := map[addressKey]uint32{}
	for i := range b.now.conf.Ports {
		p := &b.now.conf.Ports[i]
		index, ok := b.env.PortIndex(p.Name)
		if !ok {
			continue
		}
		for _, six := range []bool{false, true} {
			if a, _ := p.address(six); a.IsValid() {
				want[addressKey{inet.AddressOf(a.Addr()), uint32(index)}] = isAnswered | isOfPort
			}
		}
		if p.IP6.IsValid() {
			want[addressKey{inet.AddressOf(wire.LinkLocal(b.ways.macOf(p).Bytes())), uint32(index)}] = isAnswered | isOfPort
		}
		if p.Type != Frontside {
			continue
		}
		for id := range b.now.services {
			want[addressKey{inet.AddressOf(id.VIP), uint32(index)}] |= isAnswered
		}
	}
	_, err := table.Replace(b.maps.addresses, want).Do()
	return err
}

// applyService makes a service what it is to be.
func (b *balancer) applyService(id ServiceID, was, w *wanted) error {
	if err := b.set(id, w); err != nil {
		return err
	}
	if was != nil {
		gone := &wanted{servers: map[string]*Server{}}
		for text, s := range was.servers {
			if is := w.servers[text]; is == nil || is.key() != s.key() {
				gone.servers[text] = s
			}
		}
		b.release(id, gone)
	}
	return nil
}

// take gives a server of a service a number, and finds the way to it.
func (b *balancer) take(id ServiceID, conf *Server) error {
	k := conf.key()
	s := b.servers[k]
	if s == nil {
		number, isNew, err := b.numbers.Take(k)
		if err != nil {
			return err
		}
		s = &server{key: k, conf: conf, number: number, users: map[ServiceID]bool{}}
		b.servers[k] = s
		if isNew {
			if err := b.maps.serverCounts.Set(number); err != nil {
				return err
			}
		}
		if err := b.ways.lead(s); err != nil {
			return err
		}
	}
	s.users[id] = true
	if k := (memberKey{Service: id, Server: k}); b.members[k] == nil {
		b.members[k] = &member{since: time.Now(), at: balance.Now()}
	}
	return nil
}

// release ends the use of servers by a service. Their numbers are free after the next sweep.
func (b *balancer) release(id ServiceID, w *wanted) {
	for _, conf := range w.servers {
		if s := b.servers[conf.key()]; s != nil {
			delete(s.users, id)
		}
		k := memberKey{Service: id, Server: conf.key()}
		b.checks.Unwatch(k)
		delete(b.members, k)
		b.mustRun = true
	}
	b.mustRun = b.mustRun || b.now.services[id] == nil
}

// freeServers removes servers that no service has, after a sweep has removed their pins.
func (b *balancer) freeServers() error {
	entries, err := b.maps.servers.Values()
	if err != nil {
		return err
	}
	for k, s := range b.servers {
		if len(s.users) > 0 {
			continue
		}
		b.ways.leave(s)
		entries[s.number] = serverEntry{}
		delete(b.servers, k)
	}
	for k, number := range b.numbers.All() {
		if b.servers[k] == nil {
			entries[number] = serverEntry{}
			err = errors.Join(err, b.numbers.Free(k))
		}
	}
	return err
}
