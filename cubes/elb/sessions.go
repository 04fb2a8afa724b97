// SPDX-License-Identifier: Apache-2.0

package elb

// Sessions in the connection table, and what a sweep over them decides: which server numbers can be freed.

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/balance/session"
	"github.com/polycube/polycube/conntrack"
)

// sweeper removes old sessions, and frees the numbers of servers that were removed and have none left.
type sweeper struct {
	session.Sweeper
	balancer *balancer
	idle     map[uint32]time.Duration // of established sessions, by the number of the server
	sweeps   int                      // that have begun
	// orphans are servers removed in an earlier daemon, before the sweep began.
	orphans []balance.Key
}

func newSweeper(b *balancer) *sweeper {
	s := &sweeper{balancer: b}
	s.Sweeper = session.Sweeper{Owner: s, Zones: 1}
	return s
}

// serverEntries are session.Servers.
type serverEntries []serverEntry

func (s serverEntries) Len() int { return len(s) }

func (s serverEntries) Active(number uint32) *uint32 {
	if int(number) >= len(s) {
		return nil
	}
	return &s[number].Sessions
}

// Servers, Timeout, SweepBegins and SweepEnds make a session.Owner.
func (s *sweeper) Servers() (session.Servers, error) {
	servers, err := s.balancer.maps.servers.Values()
	return serverEntries(servers), err
}

func (s *sweeper) Timeout(is *session.Session) time.Duration {
	conf := &s.balancer.conf.Timeout
	switch {
	case is.Progress.State == conntrack.TimeWait || is.Progress.State == conntrack.Closed:
		return time.Duration(conf.TCPTimeWait) * time.Second
	case !is.IsEstablished():
		return time.Duration(conf.TCPTransitory) * time.Second
	}
	if idle := s.idle[is.Server]; idle != 0 {
		return idle
	}
	return time.Duration(conf.TCPEstablished) * time.Second
}

func (s *sweeper) SweepBegins() {
	b := s.balancer
	s.sweeps++
	s.orphans, s.idle = slices.Collect(maps.Keys(b.orphans)), map[uint32]time.Duration{}
	for _, m := range b.members {
		s.idle[m.number] = time.Duration(m.idle) * time.Second
	}
}

func (s *sweeper) SweepEnds(time.Duration) (err error) {
	b := s.balancer
	for _, m := range b.members {
		// A sweep in which it was removed may have passed a session that was opened before that.
		if m.gone && m.removed < s.sweeps && s.Last.Entries[m.number] == 0 {
			err = errors.Join(err, b.forget(m))
		}
	}
	for _, k := range s.orphans {
		if number, ok := b.numbers.Of(k); ok && b.orphans[k] && s.Last.Entries[number] == 0 {
			delete(b.orphans, k)
			err = errors.Join(err, b.vacate(k, number))
		}
	}
	if len(b.orphans) == 0 && !b.hasEnding() { // their keys have the numbers of services
		b.services.Swept()
	}
	return err
}

// hasEnding reports whether a server that was removed has sessions.
func (b *balancer) hasEnding() bool {
	for _, m := range b.members {
		if m.gone {
			return true
		}
	}
	return false
}
