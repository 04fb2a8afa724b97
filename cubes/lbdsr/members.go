// SPDX-License-Identifier: Apache-2.0

package lbdsr

// Which servers of a service get flows: those that are enabled, reachable and well, with a weight.

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/health"
)

// is returns the state of a server of a service.
func (m *member) is(conf *Server, s *server) balance.State {
	resolved := !s.failed && s.hop.Port != noPort
	return conf.State(m.drained, resolved, m.check == nil || m.check.Status() == health.Up)
}

// keeps reports whether flows that are pinned to a server of a service stay there.
func (b *balancer) keeps(id ServiceID, conf *Server) bool {
	s := b.servers[conf.key()]
	if s == nil {
		return false
	}
	m := b.members[memberKey{Service: id, Server: s.key}]
	if m == nil {
		return false
	}
	switch m.is(conf, s) {
	case balance.Up:
		return true
	case balance.IsDraining:
		return m.check == nil || m.check.Status() != health.Down
	case balance.IsDisabled, balance.IsDrained:
		return false
	case balance.Unused, balance.Down, balance.IsUnresolved:
	}
	return slices.ContainsFunc(b.used[id], func(m balance.Member) bool { return m.Server == s.number })
}

// follow records the states of the servers of a service, and returns those that new flows go to.
func (b *balancer) follow(id ServiceID, w *wanted) (members []balance.Member) {
	var live uint32
	for _, conf := range w.servers {
		k := memberKey{Service: id, Server: conf.key()}
		s, m := b.servers[k.Server], b.members[k]
		if s == nil || m == nil {
			continue
		}
		m.drained = m.drained && conf.AdminState == balance.Draining
		b.checks.watch(k, w, conf, s, m)
		is := m.is(conf, s)
		b.become(id, conf, m, is)
		if is == balance.IsDraining && conf.DrainTimeout > 0 {
			b.draining[k] = conf.Drains()
		} else if len(b.draining) > 0 {
			delete(b.draining, k)
		}
		if is == balance.Up && conf.Weight > 0 {
			live++
		}
		if is == balance.Up {
			members = append(members, balance.Member{Key: s.key, Server: s.number, Weight: conf.Weight})
		}
	}
	b.live[id] = live
	return members
}

// become records the state of a server of a service.
func (b *balancer) become(id ServiceID, conf *Server, m *member, is balance.State) {
	if m.state == is {
		return
	}
	if m.state != balance.Unused {
		b.env.Logger().Info("server state changed", "service", id.String(), "server", conf.Address.String(), "was", string(m.state), "is", string(is))
	}
	m.state, m.since, m.at = is, time.Now(), balance.Now()
}

// turn lets new flows of a service go to a server, or not, whose health has changed. Its other servers are not looked at:
// there may be a hundred, in each of a thousand services. If that is not enough, done is false.
func (b *balancer) turn(k memberKey) (done bool, err error) {
	id, w, s, m := k.Service, b.now.services[k.Service], b.servers[k.Server], b.members[k]
	if w == nil || s == nil || m == nil || b.changed[id] || b.live[id] == 0 {
		return false, nil
	}
	conf := w.servers[s.conf.Address.String()]
	if conf == nil || conf.key() != k.Server || conf.Weight == 0 {
		return false, nil
	}
	is, live := m.is(conf, s), b.live[id]
	members := slices.DeleteFunc(slices.Clone(b.used[id]), func(m balance.Member) bool { return m.Server == s.number })
	switch {
	case m.state == balance.Up && is == balance.Down && live > 1:
		live--
	case m.state == balance.Down && is == balance.Up:
		live++
		members = append(members, balance.Member{Key: s.key, Server: s.number, Weight: conf.Weight})
	default:
		return false, nil
	}
	b.become(id, conf, m, is)
	b.live[id] = live
	return true, b.put(id, w, members)
}

// last returns the servers of a service without one that is up.
func (b *balancer) last(id ServiceID, w *wanted) []balance.Member {
	was := map[uint32]bool{}
	for _, m := range b.used[id] {
		was[m.Server] = true
	}
	var enabled []balance.Member
	for _, conf := range w.servers {
		if s := b.servers[conf.key()]; s != nil && conf.AdminState == balance.Enabled {
			enabled = append(enabled, balance.Member{Key: s.key, Server: s.number, Weight: conf.Weight})
		}
	}
	return balance.Last(enabled, func(server uint32) bool { return was[server] })
}

// wants returns the servers of new flows of a service: those that are up, or as `all-down` says.
func (b *balancer) wants(id ServiceID, w *wanted) []balance.Member {
	members := b.follow(id, w)
	if len(members) == 0 && b.now.conf.AllDown == balance.Keep {
		members = b.last(id, w)
	}
	return members
}

// set makes the table of a service what the states of its servers ask for.
func (b *balancer) set(id ServiceID, w *wanted) error { return b.put(id, w, b.wants(id, w)) }

// put gives new flows of a service these servers.
func (b *balancer) put(id ServiceID, w *wanted, members []balance.Member) error {
	isNew := b.services.IsNew(id)
	want := balance.Wanted{By: selects[w.conf.Select], Timeout: balance.Timeout(w.conf.timeout()), Members: members}
	number, err := b.services.Set(id, want)
	if err == nil && isNew {
		err = b.maps.serviceCounts.Set(number)
	}
	if err == nil {
		err = b.maps.known.set(number, knownOf(id, want.By, want.Timeout))
	}
	if err == nil {
		b.used[id] = members
		b.mustRun = true // flows may be pinned to servers that the service does not use any more
	}
	return err
}

// choose updates the tables of services whose servers have changed state.
func (b *balancer) choose() (err error) {
	for id := range b.changed {
		if w := b.now.services[id]; w != nil {
			err = errors.Join(err, b.set(id, w))
		}
	}
	if err == nil {
		clear(b.changed)
	}
	b.announcer.must = true
	return errors.Join(err, b.services.SetEcho(b.echoes()), b.applyQUIC())
}

// echoes returns the virtual addresses, and whether each answers echo requests: it has a server that is up.
func (b *balancer) echoes() map[netip.Addr]bool {
	addresses := map[netip.Addr]bool{}
	for id := range b.now.services {
		addresses[id.VIP] = addresses[id.VIP] || b.live[id] > 0
	}
	return addresses
}

// drain ends the time of servers that are draining.
func (b *balancer) drain(now time.Duration) {
	for k, time := range b.draining {
		m := b.members[k]
		if m == nil {
			delete(b.draining, k)
		} else if now-m.at >= time {
			m.drained = true
			b.changed[k.Service] = true
			delete(b.draining, k)
		}
	}
}

// applyQUIC writes which server has which ID in the connection IDs of QUIC.
func (b *balancer) applyQUIC() error {
	lengths, servers := map[uint32]uint32{}, map[quicKey]uint32{}
	for _, c := range b.now.conf.QUICConfig {
		lengths[c.ID] = c.Length
	}
	for id, w := range b.now.services {
		number, ok := b.services.Known(id)
		if !ok || w.conf.Select != byQUIC {
			continue
		}
		for _, conf := range w.servers {
			if !b.keeps(id, conf) {
				continue
			}
			for _, server := range conf.ids() {
				for config, length := range lengths {
					if int(length) == len(server) {
						k := quicKey{Service: number, Config: uint8(config)}
						copy(k.Server[:], server)
						servers[k] = b.servers[conf.key()].number
					}
				}
			}
		}
	}
	for config := range uint32(8) {
		if err := b.maps.quicConfigs.Set(config, lengths[config]); err != nil {
			return err
		}
	}
	_, err := table.Replace(b.maps.quicServers, servers).Do()
	return err
}
