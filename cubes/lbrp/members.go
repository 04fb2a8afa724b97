// SPDX-License-Identifier: Apache-2.0

package lbrp

// The servers of services: their numbers in the data plane, and which of them get sessions.

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/health"
	"github.com/polycube/polycube/inet"
)

// member is a server of a service of the data plane.
type member struct {
	service *placed
	at      netip.AddrPort
	conf    *Backend
	number  uint32
	state   balance.State
	check   *watched // nil: it has no health check
	stays   bool     // its sessions go on
	since   time.Time
	changed time.Duration // the same, of the fast path's clock
	drained bool          // its time to drain is over
}

// numberKey identifies a server of a service among those with a number.
func (m *member) numberKey() (k balance.Key) {
	k = balance.KeyOf(m.at)
	binary.BigEndian.PutUint32(k[18:], m.service.number)
	return k
}

// enter gives a server of a service a number, and writes its entry.
func (b *balancer) enter(p *placed, at netip.AddrPort, conf *Backend) error {
	m := p.members[at]
	if m == nil {
		m = &member{service: p, at: at, since: time.Now(), changed: balance.Now()}
		number, isNew, err := b.numbers.Take(m.numberKey())
		if err != nil {
			return err
		}
		m.number = number
		if isNew {
			if err := b.maps.serverCounts.Set(number); err != nil {
				return err
			}
		}
		if err := b.loads.adopt(m, isNew); err != nil {
			return err
		}
		p.members[at] = m
		delete(b.sweep.leaving, m.numberKey())
	}
	m.conf, m.check = conf, b.checks.all[checkKey(p.key, at)]
	m.drained = m.drained && conf.AdminState == balance.Draining
	if is := m.is(); is != m.state {
		if m.state != balance.Unused {
			b.env.Logger().Info("server state changed", "service", p.key.String(), "server", at.String(), "was", string(m.state), "is", string(is))
		}
		m.state, m.since, m.changed = is, time.Now(), balance.Now()
	}
	if m.state == balance.IsDraining && conf.DrainTimeout > 0 {
		b.draining[m] = true
	} else {
		delete(b.draining, m)
	}
	return nil
}

// is returns the state of the server.
func (m *member) is() balance.State {
	resolved, well := true, true
	if m.check != nil {
		resolved, well = m.check.resolved(), m.check.check.Status() == health.Up
	}
	return m.conf.State(m.drained, resolved, well)
}

// keeps reports whether the server's sessions go on, whether or not new ones go to it.
func (m *member) keeps() bool {
	return m.state == balance.Up || m.stays ||
		m.state == balance.IsDraining && (m.check == nil || m.check.check.Status() != health.Down)
}

// chosen returns the servers of new sessions of a service, and how many of them are up: without one, `all-down` decides.
// A server whose agent wants no new sessions is as one that is down.
func (p *placed) chosen(w *wanted, entries []serverEntry, loads *follower, allDown balance.AllDown) (members []balance.Member, live uint32) {
	var enabled []balance.Member
	isUp := false
	for at := range w.backends {
		m := p.members[at]
		weight, unwilling := loads.weight(m)
		isUp = isUp || m.state == balance.Up && !unwilling
		is := balance.Member{Key: balance.KeyOf(m.at), Server: m.number, Weight: weight}
		switch {
		case m.conf.Weight == 0 || m.conf.AdminState != balance.Enabled:
		case m.state == balance.Up && !unwilling:
			members = append(members, is)
		default:
			enabled = append(enabled, is)
		}
	}
	live = uint32(len(members))
	if !isUp && allDown == balance.Keep { // the entries say which ones it had, also to the next daemon
		members = balance.Last(enabled, func(server uint32) bool { return atomic.LoadUint32(&entries[server].Service) != 0 })
	}
	return members, live
}

// choose makes the table of a service what the states of its servers ask for, then their entries: a server that new
// sessions may go to is there before the table has it, and is not removed before the table does not.
func (b *balancer) choose(p *placed, w *wanted) error {
	entries, err := b.maps.servers.Values()
	if err != nil {
		return err
	}
	members, live := p.chosen(w, entries, &b.loads, b.conf.AllDown)
	stay := map[uint32]bool{}
	for _, m := range members {
		stay[m.Server] = true
	}
	p.live = live
	for at := range w.backends {
		m := p.members[at]
		m.stays = stay[m.number]
		if m.keeps() {
			if err := b.write(m, p.number); err != nil {
				return err
			}
		}
	}
	order := balance.Spread
	if w.conf.Select == roundRobin {
		order = balance.Turns
	}
	if _, err := b.services.Set(p.id, balance.Wanted{By: balance.ByFlow, Members: members, Order: order}); err != nil {
		return err
	}
	for at := range w.backends {
		if m := p.members[at]; !m.keeps() {
			if err := b.write(m, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes a server's entry: of a service, or of none, which ends its sessions.
func (b *balancer) write(m *member, service uint32) error {
	entries, err := b.maps.servers.Values()
	if err != nil {
		return err
	}
	e := &entries[m.number] // of which programs change `active`
	was := e.Service
	e.Address, e.Weight = inet.AddressOf(m.at.Addr()), b.loads.least(m)
	binary.BigEndian.PutUint16(e.Port[:], m.at.Port())
	atomic.StoreUint32(&e.Service, service)
	if err := b.loads.keep(m); err != nil {
		return err
	}
	if was != 0 && service == 0 {
		return b.nextGeneration()
	}
	return nil
}

// nextGeneration has programs check each session again.
func (b *balancer) nextGeneration() error {
	settings, err := b.maps.settings.Values()
	if err == nil {
		settings[0].Generation++
		b.sweep.Hasten()
	}
	return err
}

// leave ends the use of a server. Its number is free after the next sweep.
func (b *balancer) leave(m *member) error {
	delete(b.draining, m)
	b.sweep.leaving[m.numberKey()] = b.sweep.sweeps
	b.sweep.Hasten()
	return b.write(m, 0)
}

// drain ends the time of servers that are draining.
func (b *balancer) drain(now time.Duration) {
	for m := range b.draining {
		if now-m.changed < m.conf.Drains() {
			continue
		}
		m.drained = true
		delete(b.draining, m)
		w := b.wanted[m.service.key]
		err := b.enter(m.service, m.at, m.conf)
		if err == nil && w != nil {
			err = b.choose(m.service, w)
		}
		if err != nil {
			b.env.Logger().Error("end the sessions of a drained server", "server", m.at.String(), "error", err)
		}
	}
}
