// SPDX-License-Identifier: Apache-2.0

package elb

// Brings the maps in line with the configuration and HAProxy's frontends. A removed server keeps its number and its
// entry as long as it has sessions, so that these continue.

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/health"
	"github.com/polycube/polycube/inet"
)

// placed is a service in effect.
type placed struct {
	*wanted
	number  uint32
	members map[netip.AddrPort]*member
}

// memberKey identifies a server of a service.
type memberKey struct {
	id balance.ServiceID
	at netip.AddrPort
}

// member is a server of a service, including removed servers that still have sessions.
type member struct {
	memberKey
	wantedServer
	key               balance.Key // of its number
	number            uint32
	idle              uint32
	frontend, backend string
	gone              bool
	removed           int // the sweep in which it was, if it is gone
	hop               hop
	state             state
	reason            string
}

// state is whether a server gets new sessions.
type state string

const (
	up         state = "UP"
	down       state = "DOWN"
	unresolved state = "UNRESOLVED"
	disabled   state = "DISABLED"
	draining   state = "DRAINING"
	ending     state = "ENDING"
)

// apply applies the desired state.
func (b *balancer) apply() error {
	if err := b.writeSettings(); err != nil {
		return err
	}
	all := map[balance.ServiceID]*wanted{}
	for i := range b.conf.Service {
		w := b.conf.Service[i].wanted(&b.conf.Timeout)
		all[w.id] = w
	}
	b.proxy.choose(b.conf, &b.running, all)
	for id, p := range b.placed {
		if all[id] == nil {
			if err := b.displace(id, p); err != nil {
				return fmt.Errorf("service %s: %w", p.name(), err)
			}
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(all), func(a, b balance.ServiceID) int {
		return netip.AddrPortFrom(a.VIP, a.Port).Compare(netip.AddrPortFrom(b.VIP, b.Port))
	}) {
		if err := b.place(all[id]); err != nil {
			return fmt.Errorf("service %s: %w", all[id].name(), err)
		}
	}
	b.sweep.Hasten()
	return b.resolve()
}

// writeSettings writes the cube-wide settings.
func (b *balancer) writeSettings() error {
	settings, err := b.maps.settings.Values()
	if err != nil {
		return err
	}
	is := settingsEntry{First: b.conf.SourcePorts.First, Ports: b.conf.SourcePorts.count()}
	if settings[0] != is {
		settings[0] = is
	}
	return nil
}

// wordOf is a MAC address as pcn_mac returns it.
func wordOf(mac []byte) uint64 {
	var word [8]byte
	copy(word[:6], mac)
	return binary.LittleEndian.Uint64(word[:])
}

// place creates or updates a service, except for the servers of new sessions, which resolve chooses.
func (b *balancer) place(w *wanted) error {
	p := b.placed[w.id]
	if p == nil {
		number, err := b.services.Reserve(w.id)
		if err != nil {
			return err
		}
		p = &placed{number: number, members: map[netip.AddrPort]*member{}}
		b.placed[w.id] = p
	}
	p.wanted = w
	entries, err := b.maps.services.Values()
	if err != nil {
		return err
	}
	is := serviceEntry{Turn: entries[p.number].Turn, Select: uint8(w.how)}
	if entries[p.number] != is {
		entries[p.number] = is
	}
	stays := map[netip.AddrPort]bool{}
	for _, s := range w.servers {
		stays[s.at] = true
		if err := b.enter(p, s); err != nil {
			return fmt.Errorf("server %s: %w", s.at, err)
		}
	}
	for at, m := range p.members {
		if !stays[at] {
			b.leave(m)
			delete(p.members, at)
		}
	}
	b.loads.follow(p)
	return nil
}

// enter assigns a number to a server of a service.
func (b *balancer) enter(p *placed, s wantedServer) error {
	k := memberKey{p.id, s.at}
	m := b.members[k]
	if m == nil {
		m = &member{memberKey: k, key: balance.KeyOf(s.at)}
		binary.BigEndian.PutUint32(m.key[18:], p.number)
		number, isNew, err := b.numbers.Take(m.key)
		if err != nil {
			return err
		}
		m.number = number
		if err := b.describe(m, isNew); err != nil {
			return err
		}
		b.members[k] = m
		delete(b.orphans, m.key)
	}
	m.wantedServer, m.idle, m.frontend, m.backend, m.gone = s, p.idle, p.frontend, p.backend, false
	p.members[s.at] = m
	return b.checks.set(m, p.checkOf(s.at))
}

// describe writes the entry of a server that was just assigned its number, or adopts an earlier daemon's entry.
func (b *balancer) describe(m *member, isNew bool) error {
	entries, err := b.maps.servers.Values()
	if err != nil {
		return err
	}
	e := &entries[m.number]
	if !isNew {
		m.hop = hop{mac: e.MAC, netdev: e.Netdev, source: e.Source.Addr()}
		m.state = down
		if e.Weight > 0 {
			m.state = up
		}
		return nil
	}
	var turn [4]byte
	_, _ = rand.Read(turn[:]) // never fails; other ports than those of an earlier server with its address
	*e = serverEntry{Address: inet.AddressOf(m.at().Addr()), Turn: binary.NativeEndian.Uint32(turn[:])}
	binary.BigEndian.PutUint16(e.Port[:], m.at().Port())
	return b.maps.serverCounts.Set(m.number)
}

// at is the address of the server.
func (m *member) at() netip.AddrPort { return m.memberKey.at }

// displace removes a service. Its sessions continue.
func (b *balancer) displace(id balance.ServiceID, p *placed) error {
	if err := b.services.Remove(id); err != nil {
		return err
	}
	for _, m := range p.members {
		b.leave(m)
	}
	b.loads.forget(id)
	delete(b.placed, id)
	return nil
}

// leave stops using a server for new sessions. Its number is freed after a sweep that finds no session of it.
func (b *balancer) leave(m *member) {
	m.gone, m.removed = true, b.sweep.sweeps
	b.checks.remove(m)
	b.sweep.Hasten()
}

// adoptOrphans notes the servers of an earlier daemon that no service has: their sessions continue, too.
func (b *balancer) adoptOrphans() {
	used := map[balance.Key]bool{}
	for _, m := range b.members {
		used[m.key] = true
	}
	for k := range b.numbers.All() {
		if !used[k] {
			b.orphans[k] = true
		}
	}
}

// refresh updates services to the servers that are up.
func (b *balancer) refresh() error {
	entries, err := b.maps.servers.Values()
	if err != nil {
		return err
	}
	for _, m := range b.members {
		m.state, m.reason = b.stateOf(m)
		if m.hop.mac != 0 {
			e := &entries[m.number]
			e.MAC, e.Netdev, e.Source = m.hop.mac, m.hop.netdev, inetAddress(m.hop.source)
		}
	}
	for _, p := range b.placed {
		if err := b.fill(p, entries); err != nil {
			return fmt.Errorf("service %s: %w", p.name(), err)
		}
	}
	for _, m := range b.members { // those that were removed are in no table any more
		if m.state != up && entries[m.number].Weight != 0 {
			entries[m.number].Weight = 0
		}
	}
	return nil
}

// fill writes the table of a service from those of its servers that are up.
func (b *balancer) fill(p *placed, entries []serverEntry) error {
	var members []balance.Member
	for at, m := range p.members {
		share, least := b.loads.weight(m)
		if m.state != up || share == 0 {
			continue
		}
		if e := &entries[m.number]; e.Weight != least {
			e.Weight = least
		}
		members = append(members, balance.Member{Key: balance.KeyOf(at), Server: m.number, Weight: share})
	}
	order := balance.Spread
	if p.how == roundRobin {
		order = balance.Turns
	}
	_, err := b.services.Set(p.id, balance.Wanted{By: balance.ByFlow, Members: members, Order: order})
	return err
}

// stateOf returns the state of a server, and why it is not up.
func (b *balancer) stateOf(m *member) (state, string) {
	is, checked := b.checks.state(m)
	switch {
	case m.gone:
		return ending, ""
	case m.disabled:
		return disabled, m.why
	case m.draining:
		return draining, m.why
	case m.hop.why != "":
		return unresolved, m.hop.why
	case checked && is.Status != health.Up:
		return down, is.Error
	}
	return up, m.why
}

// resolve looks up the next hops of all servers, and updates services.
func (b *balancer) resolve() error {
	b.resolved = balance.Now()
	if !b.attached {
		for _, m := range b.members {
			if m.hop.mac == 0 { // otherwise an earlier daemon resolved it
				m.hop.why = notOnNetdev
			}
		}
		return b.refresh()
	}
	var on *netdevs
	err := b.visit(func() (err error) {
		if on, err = b.netdevs(); err != nil {
			return err
		}
		n := newNeighbours(on, b.conf)
		for _, m := range b.members {
			m.hop = n.hop(m.at().Addr(), m.memberKey.id.VIP, m.hop)
		}
		return n.err
	})
	if on != nil {
		err = errors.Join(err, b.writeNetdevs(on))
	}
	return errors.Join(err, b.refresh())
}

const (
	// resolvePeriod is how often next hops are looked up; soon applies while a server has none yet.
	resolvePeriod = time.Second
	soon          = 100 * time.Millisecond
)

// resolveEvery returns how often next hops are to be looked up.
func (b *balancer) resolveEvery() time.Duration {
	for _, m := range b.members {
		if m.state == unresolved {
			return soon
		}
	}
	return resolvePeriod
}

// forget removes a server whose sessions have ended, and frees its number.
func (b *balancer) forget(m *member) error {
	if err := b.vacate(m.key, m.number); err != nil {
		return err
	}
	delete(b.members, m.memberKey)
	return nil
}

// vacate frees the number of a server.
func (b *balancer) vacate(k balance.Key, number uint32) error {
	entries, err := b.maps.servers.Values()
	if err != nil {
		return err
	}
	entries[number] = serverEntry{}
	return b.numbers.Free(k)
}
