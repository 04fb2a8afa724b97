// SPDX-License-Identifier: Apache-2.0

package gtphandler

// Ethernet sessions in the maps of the program: by the TEID of their frames, and their MAC addresses.

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/inet"
)

// copies is how many copies of broadcast and multicast frames user space makes in a second, and groupFrames how many frames it
// copies at most.
const copies, groupFrames = 20_000, 1000

// row is struct gtphandler_session.
type row struct {
	Source, Destination    inet.Address
	TEID, Counter, Class   uint32
	QFI, IPv6, Fixed, Full uint8
}

// place is struct gtphandler_mac.
type place struct {
	Seen        uint64
	TEID, Fixed uint32
}

// ownEnd is struct gtphandler_link.
type ownEnd struct {
	MAC     inet.MAC
	Groups  bucket.Limit
	Several uint32
	_       uint32
}

// session is one in effect.
type session struct {
	Session
	counted
	row row
}

// sessions are those of a cube. It alone writes the maps; programs note when they have seen an address.
type sessions struct {
	env      cube.Env
	rows     table.Table[uint32, row]
	places   table.Table[inet.MAC, place]
	ends     table.Table[uint32, ownEnd]
	counters *counters
	path     *gtppath.Path
	timer    aging.Timer

	conf *Config
	of   map[uint32]*session
	// stations are the TEIDs of the addresses that are learned, by address, and fixed those of configured ones.
	stations, fixed map[inet.MAC]uint32
	own             inet.MAC
	frames          frames
	asked           int // stations that were looked for last
}

func newSessions(env cube.Env, path *gtppath.Path, counters *counters) *sessions {
	s := &sessions{
		env: env, path: path, counters: counters,
		rows: table.New[uint32, row](env, "sessions"), places: table.New[inet.MAC, place](env, "macs"),
		ends: table.New[uint32, ownEnd](env, "links"),
		of:   map[uint32]*session{}, stations: map[inet.MAC]uint32{}, fixed: map[inet.MAC]uint32{},
	}
	env.Every(time.Second, s.look)
	return s
}

// sessionChange is a checked change.
type sessionChange struct {
	*sessions
	conf    *Config
	created bool
	want    map[uint32]*session
	fixed   map[inet.MAC]uint32
	left    []gtppath.EndMarker
	undone  cube.Undo
}

// prepare checks the sessions of a configuration.
func (s *sessions) prepare(conf *Config, created bool) (*sessionChange, error) {
	c := &sessionChange{sessions: s, conf: conf, created: created, want: map[uint32]*session{}, fixed: map[inet.MAC]uint32{}}
	if conf.Type != Ethernet && len(conf.Sessions) > 0 {
		return nil, fmt.Errorf("ethernet-session: session-type is %s: create a gtphandler with session-type=ETHERNET: %w", conf.Type, cube.ErrInvalid)
	}
	if n := len(conf.Sessions); n > int(conf.MaxSessions) {
		return nil, fmt.Errorf("ethernet-session: %d sessions, but max-ethernet-sessions is %d: create a gtphandler with more: %w", n, conf.MaxSessions, cube.ErrFull)
	}
	for i := range conf.Sessions {
		is := &conf.Sessions[i]
		if err := c.add(is); err != nil {
			return nil, fmt.Errorf("ethernet-session %d: %w", is.TEID, err)
		}
	}
	if n := len(c.fixed); n > int(conf.MaxMACs) {
		return nil, fmt.Errorf("mac-address: %d addresses, but max-mac-addresses is %d: create a gtphandler with more: %w", n, conf.MaxMACs, cube.ErrFull)
	}
	return c, nil
}

// add brings a session into the form of the program, without its counter.
func (c *sessionChange) add(is *Session) error {
	local, err := c.conf.local(is.Endpoint, is.Instance)
	if err != nil {
		return err
	}
	for _, m := range is.MACs {
		if first := m.Address.Bytes()[0]; m.Address == 0 || first&1 != 0 {
			return fmt.Errorf("mac-address %s: not a valid unicast address: %w", m.Address, cube.ErrInvalid)
		}
		if owner, taken := c.fixed[m.Address]; taken {
			return fmt.Errorf("mac-address %s: session %d already has it: %w", m.Address, owner, cube.ErrExists)
		}
		c.fixed[m.Address] = is.TEID
	}
	r := row{Source: inet.AddressOf(local), Destination: inet.AddressOf(is.Endpoint), TEID: is.Remote, QFI: is.QFI, Class: is.TEID}
	if is.Class != nil {
		r.Class = *is.Class
	}
	if is.Endpoint.Is6() {
		r.IPv6 = 1
	}
	if len(is.MACs) > 0 {
		r.Fixed = 1
	}
	c.want[is.TEID] = &session{Session: *is, row: r}
	return nil
}

// commit carries the change out: first it removes what is gone, which makes room.
func (c *sessionChange) commit() (undo func() error, err error) {
	c.left = nil
	defer func() {
		if err != nil {
			err = errors.Join(err, c.undone.Run())
		}
	}()
	if c.created {
		if err := c.begin(); err != nil {
			return nil, err
		}
	}
	for teid, was := range c.of {
		if c.want[teid] == nil {
			c.counters.release(&was.counted, &c.undone)
		}
	}
	for teid, is := range c.want {
		if err := c.enter(is, c.of[teid]); err != nil {
			return nil, fmt.Errorf("ethernet-session %d: %w", teid, err)
		}
	}
	for teid, was := range c.of {
		if err := c.leave(was, c.want[teid]); err != nil {
			return nil, fmt.Errorf("ethernet-session %d: %w", teid, err)
		}
	}
	stays := c.staying()
	if err := errors.Join(c.replacePlaces(stays), c.replaceRows(stays), c.writeEnd(len(c.want))); err != nil {
		return nil, err
	}
	c.become(stays)
	return c.undone.Run, nil
}

// leave ends the tunnel that a session had; is is what it has now, nil if it is gone.
func (c *sessionChange) leave(was, is *session) error {
	if is != nil && (is.Endpoint != was.Endpoint || is.Remote != was.Remote) {
		m, err := c.path.EndMarker(was.row.Source.Addr(), was.Endpoint, was.Remote)
		if err != nil {
			return err
		}
		c.left = append(c.left, m)
	}
	return c.path.Unuse(was.Endpoint, &c.undone)
}

// enter gives a session its counter; was is what it was before.
func (c *sessionChange) enter(is, was *session) error {
	if was != nil {
		is.counter = was.counter
	} else if err := c.counters.give(&is.counted, &c.undone); err != nil {
		return err
	}
	is.row.Counter = is.counter
	return c.path.Use(is.Endpoint, gtppath.Instance(is.Instance), &c.undone)
}

// begin takes over the maps of an earlier daemon: sessions get their counters, and learned addresses stay.
func (c *sessionChange) begin() error {
	var errs [2]error
	end, _, err := c.ends.Get(0)
	if err != nil {
		return err
	}
	if c.own == 0 {
		c.own = end.MAC // until setParent
	}
	for teid, r := range c.rows.All(&errs[0]) {
		if is := c.want[teid]; is != nil {
			c.counters.keep(&is.counted, r.Counter)
		}
	}
	for mac, p := range c.places.All(&errs[1]) {
		if p.Fixed == 0 {
			c.stations[mac] = p.TEID
		} else {
			c.sessions.fixed[mac] = p.TEID
		}
	}
	return errors.Join(errs[0], errs[1])
}

// staying returns the learned addresses that stay: their sessions learn, and nobody has them by configuration.
func (c *sessionChange) staying() map[inet.MAC]uint32 {
	stays := map[inet.MAC]uint32{}
	for mac, teid := range c.stations {
		_, taken := c.fixed[mac]
		if is := c.want[teid]; is != nil && is.row.Fixed == 0 && !taken && len(stays)+len(c.fixed) < int(c.conf.MaxMACs) {
			stays[mac] = teid
		}
	}
	return stays
}

// replacePlaces writes the configured addresses, and removes the learned ones that do not stay.
func (c *sessionChange) replacePlaces(stays map[inet.MAC]uint32) error {
	now, err := cube.TimeCoarse()
	if err != nil {
		return err
	}
	var gone []inet.MAC
	for _, had := range []map[inet.MAC]uint32{c.stations, c.sessions.fixed} {
		for mac := range had {
			_, fixed := c.fixed[mac]
			if _, learned := stays[mac]; !fixed && !learned {
				gone = append(gone, mac)
			}
		}
	}
	for _, mac := range gone {
		if err := c.place(mac, nil); err != nil {
			return err
		}
	}
	for mac, teid := range c.fixed {
		if err := c.place(mac, &place{Seen: now, TEID: teid, Fixed: 1}); err != nil {
			return err
		}
	}
	return nil
}

// place writes an entry, or removes it.
func (c *sessionChange) place(mac inet.MAC, is *place) error {
	was, had, err := c.places.Get(mac)
	if err != nil || is != nil && had && was.TEID == is.TEID && was.Fixed == is.Fixed {
		return err
	}
	c.undone.Push(func() error {
		if had {
			return c.places.Set(mac, was)
		}
		_, err := c.places.Delete(mac)
		return err
	})
	if is != nil {
		return c.places.Set(mac, *is)
	}
	_, err = c.places.Delete(mac)
	return err
}

// replaceRows writes the sessions.
func (c *sessionChange) replaceRows(stays map[inet.MAC]uint32) error {
	numbers := number(stays)
	rows := map[uint32]row{}
	for teid, is := range c.want {
		is.row.Full = is.full(numbers[teid])
		rows[teid] = is.row
	}
	undo, err := table.Replace(c.rows, rows).Do()
	if err == nil && undo != nil {
		c.undone.Push(undo)
	}
	return err
}

// become makes the sessions those of the change.
func (c *sessionChange) become(stays map[inet.MAC]uint32) {
	s := c.sessions
	was := *s
	s.conf, s.of, s.fixed, s.stations = c.conf, c.want, maps.Clone(c.fixed), stays
	c.undone.Push(func() error {
		s.conf, s.of, s.fixed, s.stations = was.conf, was.of, was.fixed, was.stations
		return nil
	})
	s.timer.Every(s.env, aging.Period(s.limit()), s.sweepNow)
}

// limit is the time until a learned address is forgotten.
func (s *sessions) limit() time.Duration { return time.Duration(s.conf.AgingTime) * time.Second }

// number returns how many addresses each session has.
func number(of map[inet.MAC]uint32) map[uint32]int {
	n := map[uint32]int{}
	for _, teid := range of {
		n[teid]++
	}
	return n
}

// full says whether a session with that many learned addresses learns no more.
func (is *session) full(learned int) uint8 {
	if learned >= int(is.MaxLearned) {
		return 1
	}
	return 0
}

// newEnd returns what programs know about this end: its address, and how many frames are copied to a number of sessions.
func newEnd(own inet.MAC, n int) (ownEnd, error) {
	rate := min(max(copies/max(n, 1), 1), groupFrames)
	limit, err := bucket.New(uint64(rate), time.Second, uint32(rate))
	end := ownEnd{MAC: own, Groups: limit}
	if n > 1 {
		end.Several = 1
	}
	return end, err
}

// writeEnd writes it.
func (c *sessionChange) writeEnd(n int) error {
	end, err := newEnd(c.own, n)
	if err != nil {
		return err
	}
	undo, err := table.Put(c.ends, 0, end).Do()
	if err == nil && undo != nil {
		c.undone.Push(undo)
	}
	return err
}

// setParent notes the address that frames to base stations come from.
func (s *sessions) setParent(parent cube.Parent) {
	s.own = inet.MACOf(parent.MAC)
	end, err := newEnd(s.own, len(s.of))
	if err == nil {
		err = s.ends.Set(0, end)
	}
	if err != nil {
		s.env.Logger().Error("store the local address", "error", err)
	}
}
