// SPDX-License-Identifier: Apache-2.0

package lbrp

// Sessions in the table of connections, and what a sweep of them decides: which numbers of servers are free again.

import (
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/balance/session"
	"github.com/polycube/polycube/inet"
)

// zones is PCN_CONNTRACK_OWN: the sides of the load balancer.
const zones = 2

// What sessions have in Own: enum lbrp_own.
const (
	ownPackets = iota
	ownBytes
)

// of returns how long a session lasts without packets.
func (t *Timeout) of(s *session.Session) time.Duration {
	seconds := t.ICMP
	switch s.Key.Protocol {
	case inet.TCP:
		seconds = t.TCPTransitory
		if s.IsEstablished() {
			seconds = t.TCPEstablished
		}
	case inet.UDP:
		seconds = t.UDP
	case inet.SCTP:
		seconds = t.SCTP
	default:
	}
	return time.Duration(seconds) * time.Second
}

// sweeper removes old sessions, and frees the numbers of servers that are gone.
type sweeper struct {
	session.Sweeper
	balancer *balancer
	// leaving are removed servers whose numbers sessions may have, with the sweep in which they were removed: no session has
	// them at the end of the next one.
	leaving map[balance.Key]int
	sweeps  int // that have begun
}

func newSweeper(b *balancer) *sweeper {
	s := &sweeper{balancer: b, leaving: map[balance.Key]int{}}
	s.Sweeper = session.Sweeper{Owner: s, Zones: zones}
	return s
}

// serverEntries are session.Servers. Sessions of a server that is gone end.
type serverEntries []serverEntry

func (s serverEntries) Len() int { return len(s) }

func (s serverEntries) Active(number uint32) *uint32 {
	if int(number) >= len(s) || s[number].Service == 0 {
		return nil
	}
	return &s[number].Active
}

// Servers, Timeout, SweepBegins and SweepEnds make a session.Owner.
func (s *sweeper) Servers() (session.Servers, error) {
	servers, err := s.balancer.maps.servers.Values()
	return serverEntries(servers), err
}

func (s *sweeper) Timeout(is *session.Session) time.Duration { return s.balancer.conf.Timeout.of(is) }

func (s *sweeper) SweepBegins() { s.sweeps++ }

func (s *sweeper) SweepEnds(now time.Duration) error {
	b := s.balancer
	servers, err := b.maps.servers.Values()
	if err != nil {
		return err
	}
	if err := s.sweepClients(now); err != nil {
		return err
	}
	for k, removed := range s.leaving {
		if removed == s.sweeps { // in this one, which may have passed its sessions
			continue
		}
		if number, ok := b.numbers.Of(k); ok {
			servers[number] = serverEntry{}
			if err := b.numbers.Free(k); err != nil {
				return err
			}
		}
		delete(s.leaving, k)
	}
	b.services.Swept()
	return nil
}

// sweepClients forgets clients of services with affinity whose time is over, or whose server is gone.
func (s *sweeper) sweepClients(now time.Duration) error {
	timeouts, allowed := map[uint32]uint8{}, map[balance.Pair]bool{}
	for _, p := range s.balancer.placed {
		w := s.balancer.wanted[p.key]
		if w == nil || w.conf.Affinity == 0 {
			continue
		}
		timeouts[p.number] = balance.Timeout(time.Duration(w.conf.Affinity) * time.Second)
		for _, m := range p.members {
			allowed[balance.Pair{Service: p.number, Server: m.number}] = m.keeps()
		}
	}
	_, err := s.balancer.pins.Sweep(balance.Clock(uint64(now)), func(service uint32) uint8 { return timeouts[service] },
		func(p balance.Pair) bool { return !allowed[p] })
	return err
}
