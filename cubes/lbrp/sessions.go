// SPDX-License-Identifier: Apache-2.0

package lbrp

// The table of sessions: struct lbrp_session in Go, and the sweep that removes sessions which have expired or whose server
// is gone. It processes the table in steps, between which the cube does other work, and counts the sessions of each server.

import (
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

// session is struct lbrp_session.
type session struct {
	Key                         key
	Status                      uint32
	Generation                  uint32
	Seen                        uint64
	Progress                    conntrack.Progress // side 0 is the client
	Server                      uint32
	Source, Destination         inet.Address
	SourcePort, DestinationPort flow.Port
	AddressDelta, PortDelta     uint16
	Flags                       uint8
	_                           [3]uint8
	Created                     uint32
	Packets, Bytes              uint64
}

// key is struct lbrp_key.
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

// zones is PCN_CONNTRACK_OWN: the sides of the load balancer.
const zones = 2

// The bits of session.Flags that matter here.
const (
	flagReply    = 0x01
	flagTwinBack = 0x04
)

// sessionOf is an entry of the table as the session that it is.
func sessionOf(e *conns.Entry) *session { return (*session)(unsafe.Pointer(e)) }

// entry returns the key as the table has it.
func (k key) entry() conns.Key { return *(*conns.Key)(unsafe.Pointer(&k)) }

// twin is the key of the other entry.
func (s *session) twin() conns.Key {
	k := key{
		Source: s.Destination, Destination: s.Source, SourcePort: s.DestinationPort, DestinationPort: s.SourcePort,
		Protocol: s.Key.Protocol, IPv6: s.Key.IPv6,
	}
	if s.Flags&flagTwinBack != 0 {
		k.Zone = 1
	}
	return k.entry()
}

// of returns how long a session lasts without packets.
func (t *Timeout) of(s *session) time.Duration {
	seconds := t.ICMP
	switch s.Key.Protocol {
	case inet.TCP:
		seconds = t.TCPTransitory
		if s.Progress.Replied() && s.Progress.State >= conntrack.Open && s.Progress.State < conntrack.LastAck {
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

// entriesFor is how many entries the table has for a number of sessions.
func entriesFor(sessions uint32) int { return conns.Room(2 * int(sessions)) }

// resize changes the number of sessions. It refuses one that is too small for those that exist.
func (b *balancer) resize(sessions uint32) error {
	if entriesFor(sessions) < b.sessions.Size() {
		if n := b.sessions.Count(0) + b.sessions.Count(1); n > entriesFor(sessions) {
			return fmt.Errorf("max-sessions %d: there are %d sessions: %w", sessions, n/2, cube.ErrFull)
		}
	}
	return b.sessions.Resize(entriesFor(sessions))
}

// isCrowded reports whether three quarters of the table are in use.
func (b *balancer) isCrowded() bool {
	return b.sessions.Count(0)+b.sessions.Count(1) > b.sessions.Size()/4*3
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
	pass     count
	// leaving are removed servers whose numbers sessions may have, gone those of them that were removed before the sweep
	// began: no session has them at its end.
	leaving map[balance.Key]bool
	gone    []balance.Key
	// before is how many active sessions servers had when the sweep began, as programs count them, by the number of the server.
	before []uint32
	// last is what the last sweep that is over has counted, which began at counted.
	last    count
	counted time.Duration
}

// count is a number of sessions.
type count struct {
	total   uint32
	servers map[uint32]serverCount
}

// serverCount are the sessions of a server, and those of them that are not closing.
type serverCount struct{ sessions, active uint32 }

func newSweeper(b *balancer) sweeper {
	return sweeper{balancer: b, leaving: map[balance.Key]bool{}}
}

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
		if err := s.step(now); err != nil {
			s.running = false
			return err
		}
		if s.cursor == 0 {
			s.running = false
			return s.finish(now)
		}
	}
	return nil
}

// begin starts a sweep.
func (s *sweeper) begin(now time.Duration) error {
	servers, err := s.balancer.maps.servers.Values()
	if err != nil {
		return err
	}
	s.running, s.mustRun, s.began, s.cursor = true, false, now, 0
	s.crowded = s.balancer.isCrowded()
	s.pass = count{servers: map[uint32]serverCount{}}
	s.gone, s.before = slices.Collect(maps.Keys(s.leaving)), slices.Grow(s.before[:0], len(servers))
	for i := range servers {
		s.before = append(s.before, atomic.LoadUint32(&servers[i].Active))
	}
	return nil
}

// step processes a part of the table.
func (s *sweeper) step(now time.Duration) (err error) {
	b := s.balancer
	servers, err := b.maps.servers.Values()
	if err != nil {
		return err
	}
	_, s.cursor, err = b.sessions.RemoveSome(s.cursor, func(e *conns.Entry) bool {
		is := sessionOf(e)
		if int(is.Server) >= len(servers) {
			return true
		}
		if servers[is.Server].Service == 0 || !s.isAlive(is, now) {
			is.discount(servers)
			return true
		}
		if is.Flags&flagReply == 0 {
			n := s.pass.servers[is.Server]
			n.sessions++
			if is.isActive() {
				n.active++
			}
			s.pass.servers[is.Server] = n
			s.pass.total++
		}
		return false
	})
	return err
}

// isActive reports whether a session counts for its server: it is not closing, and this is its entry for the client's packets.
func (s *session) isActive() bool {
	return s.Flags&flagReply == 0 && s.Progress.State < conntrack.LastAck
}

// discount takes a session that is about to end from those of its server.
func (s *session) discount(servers []serverEntry) {
	if s.isActive() && atomic.LoadUint32(&servers[s.Server].Active) > 0 {
		atomic.AddUint32(&servers[s.Server].Active, ^uint32(0))
	}
}

// isAlive reports whether a session had a packet, in either direction, within its timeout.
func (s *sweeper) isAlive(is *session, now time.Duration) bool {
	timeout := s.balancer.conf.Timeout.of(is)
	if s.crowded && !is.Progress.Replied() {
		timeout = min(timeout, openingInACrowd)
	}
	if aging.Age(uint64(now), is.Seen) <= timeout {
		return true
	}
	other, ok := s.balancer.sessions.Find(is.twin())
	return ok && aging.Age(uint64(now), other.Seen) <= timeout
}

// finish takes over what a sweep has counted, and frees the numbers of servers that are gone.
func (s *sweeper) finish(now time.Duration) error {
	b := s.balancer
	servers, err := b.maps.servers.Values()
	if err != nil {
		return err
	}
	s.last, s.counted = s.pass, s.began
	for i, was := range s.before {
		if active := s.last.servers[uint32(i)].active; was != active { // fails if there were sessions meanwhile
			atomic.CompareAndSwapUint32(&servers[i].Active, was, active)
		}
	}
	if err := s.sweepClients(now); err != nil {
		return err
	}
	for _, k := range s.gone {
		if number, ok := b.numbers.Of(k); ok && s.leaving[k] { // else it came back meanwhile
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
