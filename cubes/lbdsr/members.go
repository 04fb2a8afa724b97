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
)

// state is the leaf `state` of a server.
type state string

// The states.
const (
	unknown    state = ""
	up         state = "UP"
	down       state = "DOWN"
	draining   state = "DRAINING"
	drained    state = "DRAINED"
	disabled   state = "DISABLED"
	unresolved state = "UNRESOLVED"
)

// stateOf returns the state of a server of a service.
func (b *balancer) stateOf(id ServiceID, conf *Server) state {
	s, m := b.servers[conf.key()], b.members[memberKey{id, conf.key()}]
	switch {
	case s == nil || m == nil:
		return unknown
	case conf.AdminState == balance.Disabled:
		return disabled
	case conf.AdminState == balance.Draining && m.drained:
		return drained
	case conf.AdminState == balance.Draining:
		return draining
	case s.failed || s.hop.Port == noPort:
		return unresolved
	}
	return up
}

// keeps reports whether flows that are pinned to a server of a service stay there.
func (b *balancer) keeps(id ServiceID, conf *Server) bool {
	s := b.servers[conf.key()]
	if s == nil {
		return false
	}
	switch b.stateOf(id, conf) {
	case up, draining:
		return true
	case disabled, drained:
		return false
	case unknown, down, unresolved:
	}
	return slices.ContainsFunc(b.used[id], func(m balance.Member) bool { return m.Server == s.number })
}

// follow records the states of the servers of a service, and returns those that new flows go to.
func (b *balancer) follow(id ServiceID, w *wanted) (members []balance.Member) {
	var live uint32
	for _, conf := range w.servers {
		s, m := b.servers[conf.key()], b.members[memberKey{id, conf.key()}]
		if s == nil || m == nil {
			continue
		}
		m.drained = m.drained && conf.AdminState == balance.Draining
		is := b.stateOf(id, conf)
		if m.state != is {
			if m.state != unknown {
				b.env.Logger().Info("a server changed", "service", id.String(), "server", conf.Address.String(), "was", string(m.state), "is", string(is))
			}
			m.state, m.since, m.at = is, time.Now(), clock()
		}
		if is == draining && conf.DrainTimeout > 0 {
			b.draining[memberKey{id, s.key}] = conf.Drains()
		} else {
			delete(b.draining, memberKey{id, s.key})
		}
		if is == up && conf.Weight > 0 {
			live++
		}
		if is == up {
			members = append(members, balance.Member{Key: s.key, Server: s.number, Weight: conf.Weight})
		}
	}
	b.live[id] = live
	return members
}

// last returns the servers of a service without one that is up: those that had flows last and are not disabled, else all
// that are not.
func (b *balancer) last(id ServiceID, w *wanted) (members []balance.Member) {
	was := map[uint32]bool{}
	for _, m := range b.used[id] {
		was[m.Server] = true
	}
	for _, only := range []bool{true, false} {
		for _, conf := range w.servers {
			s := b.servers[conf.key()]
			if s != nil && conf.AdminState == balance.Enabled && (was[s.number] || !only) {
				members = append(members, balance.Member{Key: s.key, Server: s.number, Weight: conf.Weight})
			}
		}
		if len(members) > 0 {
			break
		}
	}
	return members
}

// wants returns the servers of new flows of a service: those that are up, or as `all-down` says.
func (b *balancer) wants(id ServiceID, w *wanted) []balance.Member {
	members := b.follow(id, w)
	if len(members) == 0 && b.now.conf.AllDown == keep {
		members = b.last(id, w)
	}
	return members
}

// set makes the table of a service what the states of its servers ask for.
func (b *balancer) set(id ServiceID, w *wanted) error {
	members := b.wants(id, w)
	_, known := b.services.Known(id)
	number, err := b.services.Set(id, balance.Wanted{
		By: selects[w.conf.Select], Timeout: balance.Timeout(w.conf.timeout()), Members: members,
	})
	if err == nil && !known {
		err = b.maps.serviceCounts.Set(number)
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
			b.changed[k.service] = true
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
			if conf.QUICServerID == "" || !b.keeps(id, conf) {
				continue
			}
			for config, length := range lengths {
				if int(length) == len(conf.QUICServerID) {
					k := quicKey{Service: number, Config: uint8(config)}
					copy(k.Server[:], conf.QUICServerID)
					servers[k] = b.servers[conf.key()].number
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
