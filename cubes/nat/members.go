// SPDX-License-Identifier: Apache-2.0

package nat

// NATs that share their sessions (docs/adr/0072-nats-share-sessions.md). Each has a place in the map `members`, which
// outlives the daemon, and its sessions have the number of the place: it alone knows the rules by which they end. A NAT with
// sessions of its own is the only one of its table.

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/aging"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/shared"
)

// places is NAT_MEMBERS.
const places = 64

// absentAge is how long sessions of a NAT that this daemon has not restored do not expire: it may still be.
const absentAge = time.Minute

// sharedMaps are those that NATs of one session-zone have in common.
var sharedMaps = [...]string{"ct_entries", "ct_lines", "ct_ring", "ct_control", "ct_zones", "ct_taken", "marks", "fragments", "members"}

// member is struct nat_member; without a UUID, the place is free.
type member struct {
	UUID        [40]byte
	MaxSessions uint32
	_           uint32
}

// user is a member in this process.
type user struct {
	timeout Timeout
	created func() ([4]uint64, error)
	base    [4]uint64      // that it had created when it joined
	ended   func(*session) // nil if it announces nothing
}

// The states of a place.
const (
	unused uint32 = iota
	absent
	present
)

// group are the members of a table.
type group struct {
	states [places]atomic.Uint32
	since  [places]atomic.Uint64 // when a member became absent, in the fast path's time

	mu    sync.Mutex // guards what follows, the map of members, and the size of the table
	users map[uint8]*user
	gone  [4]uint64 // sessions created by members that have left
}

// groups are those in use, by the map of members.
var groups shared.Registry[*group]

// openGroup returns the group of a NAT's table.
func openGroup(t *tables) (*group, error) {
	m, err := t.env.Map("members")
	if err != nil {
		return nil, err
	}
	return groups.Open(m, func() (*group, error) {
		g := &group{users: map[uint8]*user{}}
		now, err := cube.TimeCoarse()
		if err != nil {
			return nil, err
		}
		for at, is := range t.members.All(&err) {
			if is.UUID != (member{}.UUID) {
				g.since[at].Store(now)
				g.states[at].Store(absent)
			}
		}
		return g, err
	})
}

// join gives a NAT its place: the one that it had, or else a free one.
func (g *group) join(t *tables, most uint32, u *user) (place uint8, fresh bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var uuid [40]byte
	copy(uuid[:], t.env.UUID())
	at := -1
	for i, is := range t.members.All(&err) {
		if g.states[i].Load() != unused && is.UUID == uuid {
			at = int(i)
		}
	}
	if err != nil {
		return 0, false, err
	}
	for i := 0; at < 0 && i < places; i++ {
		if g.states[i].Load() == unused {
			at, fresh = i, true
		}
	}
	if at < 0 {
		return 0, false, fmt.Errorf("session-zone: %d NATs share it, which is the limit: %w", places, cube.ErrFull)
	}
	if u.base, err = u.created(); err != nil {
		return 0, false, err
	}
	if err := t.members.Set(uint32(at), member{UUID: uuid, MaxSessions: most}); err != nil {
		return 0, false, err
	}
	g.users[uint8(at)] = u
	g.states[at].Store(present)
	return uint8(at), fresh, nil
}

// announce makes a member announce each session that has ended, by a function that may be nil.
func (g *group) announce(t *tables, place uint8, ended func(*session)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if u := g.users[place]; u != nil {
		u.ended = ended
	}
	g.watch(t)
}

// watch makes the members that announce sessions see those that end. mu is held.
func (g *group) watch(t *tables) {
	var tell []func(*session)
	for _, u := range g.users {
		if u.ended != nil {
			tell = append(tell, u.ended)
		}
	}
	for _, inside := range []uint16{0, zoneIPv6} {
		if tell == nil {
			conns.Watch(t.sessions, inside, nil)
			continue
		}
		conns.Watch(t.sessions, inside, func(e *conns.Entry) {
			if is := sessionOf(e); !is.is(flagMapping) {
				for _, to := range tell {
					to(is)
				}
			}
		})
	}
}

// part ends the presence of a member; its sessions stay.
func (g *group) part(t *tables, place uint8) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, err := cube.TimeCoarse()
	if g.states[place].Load() == present {
		g.since[place].Store(now)
		g.states[place].Store(absent)
	}
	u := g.users[place]
	delete(g.users, place)
	g.watch(t)
	created, bad := u.created()
	for i := range created {
		g.gone[i] += created[i] - u.base[i]
	}
	return errors.Join(err, bad)
}

// leave ends the membership of a NAT that is deleted, and its sessions if others have the table or they are events.
func (g *group) leave(t *tables, place uint8) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	u := g.users[place]
	if !g.alone(place) || u != nil && u.ended != nil {
		if err := t.removeAll(func(is *session) bool { return is.Origin.member() == place }); err != nil {
			return err
		}
	}
	g.states[place].Store(unused)
	return t.members.Set(uint32(place), member{})
}

// alone reports whether a member is the only one.
func (g *group) alone(place uint8) bool {
	for i := range g.states {
		if uint8(i) != place && g.states[i].Load() != unused {
			return false
		}
	}
	return true
}

// created returns how many sessions the members have created, in this process.
func (g *group) created() (sum [4]uint64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	sum = g.gone
	for _, u := range g.users {
		created, err := u.created()
		if err != nil {
			return sum, err
		}
		for i := range created {
			sum[i] += created[i] - u.base[i]
		}
	}
	return sum, nil
}

// resize gives the table room for the largest max-sessions of its members, of which one is to be `most`.
func (g *group) resize(t *tables, place uint8, most uint32) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	largest := most
	var mine member
	var err error
	for i, is := range t.members.All(&err) {
		if i == uint32(place) {
			mine = is
		} else {
			largest = max(largest, is.MaxSessions)
		}
	}
	if err == nil {
		err = t.resize(largest)
	}
	if err != nil {
		return err
	}
	mine.MaxSessions = most
	return t.members.Set(uint32(place), mine)
}

// timeout returns the timeouts of a member's sessions, or others if it is absent.
func (g *group) timeout(place uint8, others Timeout) Timeout {
	g.mu.Lock()
	defer g.mu.Unlock()
	if u := g.users[place]; u != nil {
		return u.timeout
	}
	return others
}

// setTimeout records the timeouts of a member.
func (g *group) setTimeout(place uint8, to Timeout) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users[place].timeout = to
}

// care is what a sweep does with sessions.
type care int

const (
	careAll  care = iota // removes those that have expired or whose rule is gone
	careNone             // leaves them to another NAT
	careEnd              // removes them, since their NAT is deleted
)

// careFor returns what the sweeps of a NAT do with the sessions of a member. Those of one that is absent expire by the
// timeouts of the others.
func (g *group) careFor(place, mine uint8, now uint64) care {
	if place == mine {
		return careAll
	}
	switch g.states[place].Load() {
	case unused:
		return careEnd
	case present:
		return careNone
	}
	if aging.Age(now, g.since[place].Load()) < absentAge {
		return careNone
	}
	return careAll
}

// removeAll removes the entries that a function selects: first those by which packets from outside find sessions.
func (t *tables) removeAll(selected func(*session) bool) error {
	for _, outside := range []bool{true, false} {
		if _, err := t.sessions.Remove(func(e *conns.Entry) bool {
			is := sessionOf(e)
			return (!outside || is.Key.Zone&zoneOutside != 0) && selected(is)
		}); err != nil {
			return err
		}
	}
	return nil
}
