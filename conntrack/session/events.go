// SPDX-License-Identifier: Apache-2.0

package session

// Events: sessions that are new, in another state, or gone, in the event stream.

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/author"
	"github.com/polycube/polycube/inet"
)

// message is struct pcn_conntrack_event.
type message struct {
	Key     table.Key
	State   conntrack.Phase
	Opener  uint8
	Updated uint8
	_       [5]uint8
}

// events is struct pcn_conntrack_events.
type events struct{ Bucket, Lost uint64 }

// Events announces the sessions of a cube. Its methods may be called from any goroutine.
type Events struct {
	env   cube.Env
	limit int

	mu   sync.Mutex
	left int    // of the events of this second
	lost uint64 // since the last one that says so
	told uint64 // of those that programs have lost
}

// NewEvents returns the events of a cube, of which there are at most limit per second.
func NewEvents(env cube.Env, limit int) *Events { return &Events{env: env, limit: limit, left: limit} }

// Begin is called before packets run the cube's programs: what was lost before is not told again.
func (e *Events) Begin() {
	all, err := e.programs()
	if err != nil {
		return // no cube has lost any yet
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told = all
}

// Notify announces the session of a message of pcn_conntrack_event.
func (e *Events) Notify(data []byte) {
	var m message
	if n, err := binary.Decode(data, binary.NativeEndian, &m); err != nil || n != len(data) {
		return
	}
	is := table.Entry{Key: m.Key, State: conntrack.State{State: m.State, Flags: m.Opener & 1}}
	what := "new"
	if m.Updated != 0 {
		what = "updated"
	}
	e.Announce(what, Of(&is).String())
}

// Destroyed announces that a session has ended: it is for table.Watch.
func (e *Events) Destroyed(is *table.Entry) { e.Announce("destroyed", Of(is).String()) }

// Announce makes an event of a session that is new, updated or destroyed.
func (e *Events) Announce(what, session string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left == 0 {
		e.lost++
		return
	}
	e.left--
	author.AnnounceSession(e.env, what, session)
}

// Tick is called every second: it says how many events were lost.
func (e *Events) Tick() error {
	all, err := e.programs()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left = e.limit
	if err == nil {
		e.lost += all - min(e.told, all)
		e.told = all
	}
	if e.lost > 0 {
		author.AnnounceSession(e.env, "lost", fmt.Sprintf("%d events of sessions were lost: there were more than %d per second", e.lost, e.limit))
		e.lost = 0
	}
	return err
}

// programs returns how many messages programs have lost.
func (e *Events) programs() (uint64, error) {
	m, err := e.env.Map("ct_events")
	if err != nil {
		return 0, err
	}
	var is events
	if err := m.Lookup(uint32(e.env.Instance()), &is); err != nil {
		return 0, fmt.Errorf("map ct_events: %w", err)
	}
	return is.Lost, nil
}

// String is a session in an event.
func (s Session) String() string {
	return fmt.Sprintf("%s %s > %s %s", inet.Protocol(s.Protocol), s.Src, s.Dst, s.State)
}
