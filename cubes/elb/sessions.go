// SPDX-License-Identifier: Apache-2.0

package elb

// The table of sessions: struct elb_session in Go, and the sweep that removes sessions which have expired. It processes the
// table in steps, between which the cube does other work, and counts the sessions of each server.

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/conntrack"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/inet"
)

// session is struct elb_session.
type session struct {
	Key                         key
	Status                      uint32
	_                           uint32
	Seen                        uint64
	Progress                    conntrack.Progress // side 0 is the client
	Server                      uint32
	Source, Destination         inet.Address
	SourcePort, DestinationPort flow.Port
	AddressDelta, PortDelta     uint16
	Reply                       uint32
	Created                     uint32
	MAC                         uint64
	_                           uint64
}

// key is struct elb_key.
type key struct {
	Source, Destination         inet.Address
	SourcePort, DestinationPort flow.Port
	Zone                        uint16
	Protocol                    inet.Protocol
	IPv6                        uint8
}

var (
	_ [unsafe.Sizeof(conns.Entry{})]byte = [unsafe.Sizeof(session{})]byte{}
	_ [unsafe.Sizeof(conns.Key{})]byte   = [unsafe.Sizeof(key{})]byte{}
)

// sessionOf is an entry of the table as the session that it is.
func sessionOf(e *conns.Entry) *session { return (*session)(unsafe.Pointer(e)) }

// twin is the key of the other entry.
func (s *session) twin() conns.Key {
	k := key{
		Source: s.Destination, Destination: s.Source, SourcePort: s.DestinationPort, DestinationPort: s.SourcePort,
		Protocol: s.Key.Protocol, IPv6: s.Key.IPv6,
	}
	return *(*conns.Key)(unsafe.Pointer(&k))
}

// entriesFor is how many entries the table has for a number of sessions.
func entriesFor(sessions uint32) int { return conns.Room(2 * int(sessions)) }

// resize changes the number of sessions. It refuses one that is too small for those that exist.
func (b *balancer) resize(sessions uint32) error {
	if entriesFor(sessions) < b.sessions.Size() {
		if n := b.sessions.Count(0); n > entriesFor(sessions) {
			return fmt.Errorf("max-sessions %d: there are %d sessions: %w", sessions, n/2, cube.ErrFull)
		}
	}
	return b.sessions.Resize(entriesFor(sessions))
}

const (
	// sweepEvery is how often sessions are counted and old ones removed.
	sweepEvery = 5 * time.Second
	// openingInACrowd is how long sessions without a reply last while three quarters of the table are in use: a flood of
	// SYNs may take what is free, but not for minutes.
	openingInACrowd = 5 * time.Second
	// stepsPerTick is how many parts of the table are processed at a time.
	stepsPerTick = 4
)

// sweeper removes old sessions.
type sweeper struct {
	balancer *balancer
	mustRun  bool // a sweep is due
	running  bool
	crowded  bool // three quarters of the table are in use
	began    time.Duration
	cursor   uint32
	idle     map[uint32]time.Duration // of established sessions, by the number of the server
	entries  map[uint32]int           // by the number of the server, of both directions
	counts   map[uint32]uint32        // sessions that are not closing
	total    uint32
	// leaving are servers that were removed before the sweep began.
	leaving []*member
	orphans []balance.Key
	// before is how many sessions servers had when the sweep began, as programs count them.
	before map[uint32]uint32
	// active is how many sessions there were at the end of the last sweep.
	active uint32
}

// isCrowded reports whether three quarters of the table are in use.
func (b *balancer) isCrowded() bool { return b.sessions.Count(0) > b.sessions.Size()/4*3 }

// tick begins a sweep that is due, and continues one that runs.
func (s *sweeper) tick(now time.Duration) error {
	if !s.running {
		if !s.mustRun && now-s.began < sweepEvery && !s.balancer.isCrowded() {
			return nil
		}
		if err := s.begin(now); err != nil {
			return err
		}
	}
	for range stepsPerTick {
		var err error
		_, s.cursor, err = s.balancer.sessions.RemoveSome(s.cursor, func(e *conns.Entry) bool { return s.judge(sessionOf(e), now) })
		if err != nil {
			s.running = false
			return err
		}
		if s.cursor == 0 {
			s.running = false
			return s.finish()
		}
	}
	return nil
}

// begin starts a sweep.
func (s *sweeper) begin(now time.Duration) error {
	b := s.balancer
	servers, err := b.maps.servers.Values()
	if err != nil {
		return err
	}
	s.running, s.mustRun, s.began, s.cursor, s.total = true, false, now, 0, 0
	s.crowded, s.leaving, s.orphans = b.isCrowded(), nil, slices.Collect(maps.Keys(b.orphans))
	s.idle, s.entries, s.counts, s.before = map[uint32]time.Duration{}, map[uint32]int{}, map[uint32]uint32{}, map[uint32]uint32{}
	for _, m := range b.members {
		s.idle[m.number] = time.Duration(m.idle) * time.Second
		s.before[m.number] = atomic.LoadUint32(&servers[m.number].Sessions)
		if m.gone {
			s.leaving = append(s.leaving, m)
		}
	}
	return nil
}

// judge counts an entry, and reports whether it is to be removed.
func (s *sweeper) judge(is *session, now time.Duration) (remove bool) {
	if !s.isAlive(is, now) {
		s.discount(is)
		return true
	}
	s.entries[is.Server]++
	if is.Reply == 0 {
		s.total++
		if is.isActive() {
			s.counts[is.Server]++
		}
	}
	return false
}

// isActive reports whether a session counts for its server: this is its entry for the client's packets, and it is not closing.
func (s *session) isActive() bool { return s.Reply == 0 && s.Progress.State < conntrack.LastAck }

// discount takes a session that is about to end from those of its server.
func (s *sweeper) discount(is *session) {
	servers, err := s.balancer.maps.servers.Values()
	if err != nil || int(is.Server) >= len(servers) || !is.isActive() {
		return
	}
	if n := &servers[is.Server].Sessions; atomic.LoadUint32(n) > 0 {
		atomic.AddUint32(n, ^uint32(0))
	}
}

// isAlive reports whether a session had a packet, in either direction, within its timeout.
func (s *sweeper) isAlive(is *session, now time.Duration) bool {
	conf := &s.balancer.conf.Timeout
	timeout := time.Duration(conf.TCPTransitory) * time.Second
	if is.Progress.Replied() && is.Progress.State >= conntrack.Open && is.Progress.State < conntrack.LastAck {
		if timeout = s.idle[is.Server]; timeout == 0 {
			timeout = time.Duration(conf.TCPEstablished) * time.Second
		}
	}
	if s.crowded && !is.Progress.Replied() {
		timeout = min(timeout, openingInACrowd)
	}
	if aging.Age(uint64(now), is.Seen) <= timeout {
		return true
	}
	other, ok := s.balancer.sessions.Find(is.twin())
	return ok && aging.Age(uint64(now), other.Seen) <= timeout
}

// finish takes over what a sweep has counted, and frees the numbers of servers that were removed and have no sessions.
func (s *sweeper) finish() (err error) {
	b := s.balancer
	servers, err := b.maps.servers.Values()
	if err != nil {
		return err
	}
	s.active = s.total
	for number, was := range s.before {
		if now := s.counts[number]; was != now { // fails if there were sessions meanwhile
			atomic.CompareAndSwapUint32(&servers[number].Sessions, was, now)
		}
	}
	for _, m := range s.leaving {
		if m.gone && s.entries[m.number] == 0 && b.members[m.memberKey] == m {
			err = errors.Join(err, b.forget(m))
		}
	}
	for _, k := range s.orphans {
		if number, ok := b.numbers.Of(k); ok && b.orphans[k] && s.entries[number] == 0 {
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
