// SPDX-License-Identifier: Apache-2.0

// Package zone keeps the connections of one cube in the table that all cubes share: their settings, their list, and their
// end. It is the Go side of the YANG module polycube-conntrack.
package zone

import (
	"errors"
	"fmt"
	"time"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/conntrack/session"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
)

// Settings is the grouping `settings`.
type Settings struct {
	BeLiberal   bool    `json:"be-liberal"`
	PickUp      bool    `json:"pick-up"`
	MaxSessions uint32  `json:"max-sessions"`
	Timeout     Timeout `json:"timeout"`
}

// Timeout is the container `timeout`; all are in seconds.
type Timeout struct {
	TCPEstablished uint32 `json:"tcp-established"`
	TCPSynSent     uint32 `json:"tcp-syn-sent"`
	TCPSynRecv     uint32 `json:"tcp-syn-recv"`
	TCPFinWait     uint32 `json:"tcp-fin-wait"`
	TCPCloseWait   uint32 `json:"tcp-close-wait"`
	TCPLastAck     uint32 `json:"tcp-last-ack"`
	TCPTimeWait    uint32 `json:"tcp-time-wait"`
	TCPClose       uint32 `json:"tcp-close"`
	UDP            uint32 `json:"udp"`
	UDPStream      uint32 `json:"udp-stream"`
	ICMP           uint32 `json:"icmp"`
	Other          uint32 `json:"other"`
}

// timeouts returns the form of the table of connections.
func (t *Timeout) timeouts() conntrack.Timeouts {
	all := conntrack.DefaultTimeouts
	for which, seconds := range map[conntrack.Timeout]uint32{
		conntrack.TCPEstablished: t.TCPEstablished, conntrack.TCPSynSent: t.TCPSynSent, conntrack.TCPSynRecv: t.TCPSynRecv,
		conntrack.TCPFinWait: t.TCPFinWait, conntrack.TCPCloseWait: t.TCPCloseWait, conntrack.TCPLastAck: t.TCPLastAck,
		conntrack.TCPTimeWait: t.TCPTimeWait, conntrack.TCPClose: t.TCPClose, conntrack.UDP: t.UDP, conntrack.UDPStream: t.UDPStream,
		conntrack.ICMP: t.ICMP, conntrack.Other: t.Other,
	} {
		all[which] = time.Duration(seconds) * time.Second
	}
	return all
}

// maxRetrans is after how many retransmissions a connection is given up earlier, as in Linux.
const maxRetrans = 3

// Options returns the options of pcn_ct_tcp.
func (s *Settings) Options() uint32 {
	return conntrack.Options{Liberal: s.BeLiberal, PickUp: s.PickUp, MaxRetrans: maxRetrans}.Bits()
}

// Counts are the numbers of connections of a cube.
type Counts struct {
	Active   int `json:"active"`
	HalfOpen int `json:"half-open"`
}

// Extras are what a cube may do with its sessions besides.
type Extras struct {
	// Shared is the name of the zone that the cube shares with others, "" for its own. Free is called after a change.
	Shared Name
	// Accounting counts their packets and bytes, Announced makes events of them.
	Accounting, Announced bool
}

// Zone is the part of the table that belongs to a cube. Its methods are called one at a time, like those of the cube.
type Zone struct {
	env    cube.Env
	events *session.Events // nil if the cube never announces
	table  *conns.Table
	shares *shares
	extras Extras
}

// sweepInterval is how often connections that have expired are removed.
const sweepInterval = time.Second

// New returns the zone of a cube, which has no connections before Open. events is nil if the cube does not announce any.
func New(env cube.Env, events *session.Events) *Zone {
	z := &Zone{env: env, events: events}
	env.Every(sweepInterval, z.sweep)
	return z
}

// Open opens the table, if it is not open.
func (z *Zone) Open(s *Settings) error {
	if z.table != nil {
		return nil
	}
	t, err := conns.Open(z.env, conns.Room(int(s.MaxSessions)))
	if err != nil {
		return err
	}
	if z.shares, err = openShares(z.env, t); err != nil {
		return errors.Join(err, t.Close())
	}
	z.table = t
	if z.events != nil {
		z.events.Begin()
	}
	return nil
}

// Apply is the step that gives connections other settings. Open has been called before it is carried out.
func (z *Zone) Apply(is *Settings, extras Extras) cube.Step {
	return cube.Effect(func() (undo func() error, err error) {
		if room := conns.Room(int(is.MaxSessions)); z.table.Size() < room {
			if err := z.table.Resize(room); err != nil {
				return nil, fmt.Errorf("max-sessions: %w", err)
			}
		}
		before := z.extras
		undo, err = z.shares.join(z.env, z.user(is, extras))
		if err != nil {
			return nil, err
		}
		z.extras = extras
		return func() error {
			z.extras = before
			return undo()
		}, nil
	})
}

// user returns what the cube wants of its zone.
func (z *Zone) user(s *Settings, extras Extras) user {
	u := user{cube: z.env.Name(), name: extras.Shared, wants: wants{s.MaxSessions, s.Timeout.timeouts()}, accounting: extras.Accounting}
	if extras.Announced {
		u.ended = z.events.Destroyed
	}
	return u
}

// Free is the step after a change of the zone, once no packet is of the one before.
func (z *Zone) Free() cube.Step {
	return cube.Effect(func() (undo func() error, err error) {
		if other := z.shares.differs(z.env.Instance()); other != "" {
			z.env.Logger().Warn("cubes that share sessions have different settings: the largest max-sessions and the longest timeouts apply", "other", other)
		}
		return nil, z.shares.free(z.env.Instance())
	})
}

// number returns the number of the zone in the table.
func (z *Zone) number() uint16 { return z.shares.zoneOf(z.env.Instance()) }

// sweep removes connections that have expired.
func (z *Zone) sweep() {
	if z.table == nil {
		return
	}
	if _, err := z.table.Sweep(sweepInterval); err != nil {
		z.env.Logger().Error("remove connections", "error", err)
	}
	if !z.extras.Announced {
		return
	}
	if err := z.events.Tick(); err != nil {
		z.env.Logger().Error("events of sessions", "error", err)
	}
}

// Count returns how many connections there are.
func (z *Zone) Count() Counts {
	return Counts{z.table.Count(z.number()), z.table.HalfOpen(z.number())}
}

// Delete is the action that deletes the sessions that its input selects.
func (z *Zone) Delete(input []byte) (cube.ActionResult, error) {
	return session.DeleteOfZone(z.env, z.table, z.number(), input)
}

// Deleted removes the connections, unless other cubes share them: it is for cube.Instance.Deleted.
func (z *Zone) Deleted() {
	if z.table == nil {
		return
	}
	if err := z.shares.leave(z.env.Instance()); err != nil {
		z.env.Logger().Error("remove the connections", "error", err)
	}
}

// Close ends the use of the table; connections stay.
func (z *Zone) Close() error {
	if z.table == nil {
		return nil
	}
	return errors.Join(z.shares.close(z.env.Instance()), z.table.Close())
}
