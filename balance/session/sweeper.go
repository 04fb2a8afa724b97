// SPDX-License-Identifier: Apache-2.0

package session

// The sweep: it processes the table in steps, between which the cube does other work.

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/aging"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
)

const (
	// sweepEvery is how often sessions are counted and old ones removed.
	sweepEvery = 5 * time.Second
	// openingInACrowd is how long sessions without a reply last while three quarters of the table are in use: a flood of
	// SYNs may take what is free, but not for minutes.
	openingInACrowd = 5 * time.Second
	// stepsPerTick is how many parts of the table are processed at a time.
	stepsPerTick = 4
)

// Table has the sessions: a conntrack/table.Table.
type Table interface {
	Count(zone uint16) int
	Size() int
	Resize(size int) error
	Find(key conns.Key) (conns.Entry, bool)
	RemoveSome(cursor uint32, selected, confirm func(*conns.Entry) bool) (removed int, next uint32, err error)
}

// Servers are those of a load balancer, by number.
type Servers interface {
	// Len is the number of the last one, plus one.
	Len() int
	// Active is where programs count the sessions of a server that are not closing. It is nil if there is no such server (any
	// more): its sessions are removed.
	Active(number uint32) *uint32
}

// Owner is the load balancer whose sessions are swept.
type Owner interface {
	// Servers returns the servers as they are now.
	Servers() (Servers, error)
	// Timeout is how long a session lasts without packets.
	Timeout(s *Session) time.Duration
	// SweepBegins is called before a sweep, SweepEnds after it.
	SweepBegins()
	SweepEnds(now time.Duration) error
}

// Count is what a sweep has counted.
type Count struct {
	// Total is the number of sessions.
	Total uint32
	// Servers are the sessions of each server, by its number, and Entries those of both directions.
	Servers, Entries map[uint32]uint32
	// Began is when.
	Began time.Duration
}

// Sweeper removes old sessions. Its zones are the first ones of the table.
type Sweeper struct {
	Owner Owner
	Zones uint16
	// Last is what the last sweep that is over has counted.
	Last Count

	table   Table
	due     bool
	running bool
	crowded bool // three quarters of the table are in use
	began   time.Duration
	cursor  uint32
	pass    Count
	active  map[uint32]uint32 // sessions that are not closing, by the number of the server
	// before is how many of these servers had when the sweep began, as programs count them.
	before []uint32
}

// Use sets the table.
func (s *Sweeper) Use(t Table) { s.table = t }

// Hasten has the next sweep begin at once.
func (s *Sweeper) Hasten() { s.due = true }

// entries returns how many entries there are.
func (s *Sweeper) entries() (n int) {
	for zone := range s.Zones {
		n += s.table.Count(zone)
	}
	return n
}

// isCrowded reports whether three quarters of the table are in use.
func (s *Sweeper) isCrowded() bool { return s.entries() > s.table.Size()/4*3 }

// Resize changes the number of sessions that the table has room for. It refuses one that is too small for those that exist.
func (s *Sweeper) Resize(sessions uint32) error {
	if n := s.entries(); Room(sessions) < s.table.Size() && n > Room(sessions) {
		return fmt.Errorf("max-sessions %d: the cube has %d sessions: %w", sessions, n/2, cube.ErrFull)
	}
	return s.table.Resize(Room(sessions))
}

// Tick begins a sweep that is due, and continues one that runs. now is the time of the fast path.
func (s *Sweeper) Tick(now time.Duration) error {
	if !s.running {
		if !s.due && now-s.began < sweepEvery && !s.isCrowded() {
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
func (s *Sweeper) begin(now time.Duration) error {
	servers, err := s.Owner.Servers()
	if err != nil {
		return err
	}
	s.running, s.due, s.began, s.cursor, s.crowded = true, false, now, 0, s.isCrowded()
	s.pass, s.active = Count{Servers: map[uint32]uint32{}, Entries: map[uint32]uint32{}, Began: now}, map[uint32]uint32{}
	s.before = make([]uint32, servers.Len())
	for i := range s.before {
		if n := servers.Active(uint32(i)); n != nil {
			s.before[i] = atomic.LoadUint32(n)
		}
	}
	s.Owner.SweepBegins()
	return nil
}

// step processes a part of the table.
func (s *Sweeper) step(now time.Duration) error {
	servers, err := s.Owner.Servers()
	if err != nil {
		return err
	}
	// A client may use its port again while its old session is removed, so there is a second look when it has ended.
	ends := func(e *conns.Entry) bool {
		is := Of(e)
		if servers.Active(is.Server) != nil && s.isAlive(is, now) {
			s.count(is)
			return false
		}
		return true
	}
	_, s.cursor, err = s.table.RemoveSome(s.cursor, ends, func(e *conns.Entry) bool {
		if !ends(e) {
			return false
		}
		Of(e).discount(servers)
		return true
	})
	return err
}

// count counts an entry that stays.
func (s *Sweeper) count(is *Session) {
	s.pass.Entries[is.Server]++
	if is.IsReply() {
		return
	}
	s.pass.Total++
	s.pass.Servers[is.Server]++
	if is.isActive() {
		s.active[is.Server]++
	}
}

// discount takes a session that is about to end from those of its server, as programs count them.
func (s *Session) discount(servers Servers) {
	if n := servers.Active(s.Server); n != nil && s.isActive() && atomic.LoadUint32(n) > 0 {
		atomic.AddUint32(n, ^uint32(0))
	}
}

// isAlive reports whether a session had a packet, in either direction, within its timeout.
func (s *Sweeper) isAlive(is *Session, now time.Duration) bool {
	timeout := s.Owner.Timeout(is)
	if s.crowded && !is.Progress.Replied() {
		timeout = min(timeout, openingInACrowd)
	}
	if aging.Age(uint64(now), is.Seen) <= timeout {
		return true
	}
	other, ok := s.table.Find(is.Twin())
	return ok && aging.Age(uint64(now), other.Seen) <= timeout
}

// finish takes over what the sweep has counted.
func (s *Sweeper) finish(now time.Duration) error {
	servers, err := s.Owner.Servers()
	if err != nil {
		return err
	}
	s.Last = s.pass
	for i, was := range s.before {
		is := s.active[uint32(i)]
		if n := servers.Active(uint32(i)); n != nil && was != is {
			atomic.CompareAndSwapUint32(n, was, is) // fails if there were sessions meanwhile
		}
	}
	return s.Owner.SweepEnds(now)
}
