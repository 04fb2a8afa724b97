// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"github.com/polycube/polycube/conntrack"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/inet"
)

// fake is a table with one entry in each part. Those that were removed are in no zone.
type fake struct {
	list []Session
	size int
	// ended is called when an entry has ended that was selected.
	ended func(*Session)
}

const removed = 99

// left returns the entries that were not removed.
func (f *fake) left() (out []Session) {
	for _, s := range f.list {
		if s.Key.Zone != removed {
			out = append(out, s)
		}
	}
	return out
}

func (f *fake) Count(zone uint16) (n int) {
	for i := range f.list {
		if f.list[i].Key.Zone == zone {
			n++
		}
	}
	return n
}

func (f *fake) Size() int { return f.size }

func (f *fake) Resize(size int) error {
	f.size = size
	return nil
}

func (f *fake) Find(key conns.Key) (e conns.Entry, ok bool) {
	for i := range f.list {
		if f.list[i].Key.Entry() == key {
			return *(*conns.Entry)(unsafe.Pointer(&f.list[i])), true
		}
	}
	return e, false
}

func (f *fake) RemoveSome(cursor uint32, selected, confirm func(*conns.Entry) bool) (n int, next uint32, err error) {
	if int(cursor) == len(f.list) {
		return 0, 0, nil
	}
	is := &f.list[cursor]
	if e := (*conns.Entry)(unsafe.Pointer(is)); is.Key.Zone != removed && selected(e) {
		if f.ended != nil {
			f.ended(is)
		}
		if confirm(e) {
			is.Key.Zone = removed
			n++
		}
	}
	return n, cursor + 1, nil
}

// open adds a session of a server, with a client's port that tells it.
func (f *fake) open(port uint16, server uint32, seen, replied time.Duration) {
	at := func(text string) inet.Address { return inet.AddressOf(netip.MustParseAddr(text)) }
	number := func(n uint16) flow.Port { return flow.Port{byte(n >> 8), byte(n)} }
	is := Session{
		Key:    Key{Source: at("10.0.0.1"), Destination: at("10.0.0.100"), SourcePort: number(port), DestinationPort: number(80), Protocol: inet.TCP},
		Source: at("10.0.0.100"), Destination: at("10.0.1.1"), SourcePort: number(port), DestinationPort: number(8080),
		Server: server, Seen: uint64(seen), Flags: flagTwinZone,
		Progress: conntrack.Progress{State: conntrack.Open},
	}
	reply := is
	reply.Key = *(*Key)(unsafe.Pointer(new(is.Twin())))
	reply.Source, reply.Destination, reply.SourcePort, reply.DestinationPort = is.Key.Destination, is.Key.Source, is.Key.DestinationPort, is.Key.SourcePort
	reply.Flags, reply.Seen = flagReply, uint64(replied)
	f.list = append(f.list, is, reply)
}

// owner has servers whose sessions last for a minute; the last one is gone.
type owner struct {
	active []uint32
	ended  int
	err    error
}

func (o *owner) Len() int { return len(o.active) }

func (o *owner) Active(number uint32) *uint32 {
	if int(number) >= len(o.active)-1 {
		return nil
	}
	return &o.active[number]
}

func (o *owner) Servers() (Servers, error)         { return o, o.err }
func (o *owner) Timeout(*Session) time.Duration    { return time.Minute }
func (o *owner) SweepBegins()                      {}
func (o *owner) SweepEnds(now time.Duration) error { o.ended++; return nil }

// sweep runs one sweep at a time.
func sweep(t *testing.T, s *Sweeper, o *owner, now time.Duration) {
	t.Helper()
	s.Hasten()
	for was := o.ended; o.ended == was; {
		if err := s.Tick(now); err != nil {
			t.Fatal(err)
		}
	}
}

func TestASweepRemovesWhatHasExpiredAndCountsTheRest(t *testing.T) {
	const now = time.Hour
	f, o := &fake{size: 1000}, &owner{active: []uint32{0, 7, 1, 1}}
	f.open(1, 1, now, now)
	f.open(2, 1, now-2*time.Minute, now)               // the server has sent something lately
	f.open(3, 2, now-2*time.Minute, now-2*time.Minute) // expired
	f.open(4, 3, now, now)                             // its server is gone
	f.open(5, 9, now, now)                             // there is no such server
	f.open(6, 1, now, now)
	for i := range f.list[10:] {
		f.list[10+i].Progress.State = conntrack.TimeWait
	}
	s := &Sweeper{Owner: o, Zones: 2}
	s.Use(f)
	sweep(t, s, o, now)
	if len(f.left()) != 6 || s.Last.Total != 3 || s.Last.Servers[1] != 3 || s.Last.Entries[1] != 6 || s.Last.Servers[2] != 0 || s.Last.Began != now {
		t.Errorf("%d entries are left, counted %+v", len(f.left()), s.Last)
	}
	if o.active[1] != 2 || o.active[2] != 0 {
		t.Errorf("servers have %v active sessions", o.active)
	}
	if _, ok := f.Find(f.left()[0].Twin()); !ok {
		t.Error("a session has lost its other entry")
	}
}

// A client uses its port again at the moment when its old session is removed.
func TestASessionThatIsUsedAgainMeanwhileStays(t *testing.T) {
	const now = time.Hour
	f, o := &fake{size: 1000}, &owner{active: []uint32{0, 2, 0}}
	f.open(1, 1, now-2*time.Minute, now-2*time.Minute)
	f.open(2, 1, now-2*time.Minute, now-2*time.Minute)
	f.ended = func(is *Session) {
		if is.Key.SourcePort.Number() == 1 {
			is.Seen = uint64(now)
		}
	}
	s := &Sweeper{Owner: o, Zones: 2}
	s.Use(f)
	sweep(t, s, o, now)
	left := f.left()
	if len(left) != 2 || left[0].Key.SourcePort.Number() != 1 || left[1].Key.Entry() != left[0].Twin() {
		t.Errorf("left: %+v, want both entries of the session that was used again", left)
	}
	if s.Last.Total != 1 || s.Last.Entries[1] != 2 || o.active[1] != 1 {
		t.Errorf("counted %+v, the server has %v active sessions, want 1 session", s.Last, o.active)
	}
}

func TestCountsOfProgramsThatChangeMeanwhileStay(t *testing.T) {
	f, o := &fake{size: 1000}, &owner{active: []uint32{0, 7, 0}}
	for port := range uint16(10) {
		f.open(port, 1, time.Hour, time.Hour)
	}
	s := &Sweeper{Owner: o, Zones: 2}
	s.Use(f)
	if err := s.Tick(time.Hour); err != nil || o.ended != 0 {
		t.Fatalf("the first step: %v, %d ended", err, o.ended)
	}
	o.active[1]++ // a program opens a session
	for o.ended == 0 {
		if err := s.Tick(time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if o.active[1] != 8 {
		t.Errorf("the server has %d active sessions, want those that the program has counted", o.active[1])
	}
}

// TestSessionsWithoutAReplyAreShortInACrowd, and a sweep begins at once.
func TestSessionsWithoutAReplyAreShortInACrowd(t *testing.T) {
	const now = time.Hour
	f, o := &fake{size: 4}, &owner{active: []uint32{0, 2, 0}}
	f.open(1, 1, now-10*time.Second, now-10*time.Second)
	f.open(2, 1, now-10*time.Second, now-10*time.Second)
	f.list[0].Progress = conntrack.Progress{State: conntrack.SynSent}
	f.list[1].Progress = f.list[0].Progress
	if f.list[2].Progress.Flags |= 2; !f.list[2].Progress.Replied() { // PCN_CT_SEEN_REPLY
		t.Fatal("the session has no reply")
	}
	f.list[3].Progress = f.list[2].Progress
	s := &Sweeper{Owner: o, Zones: 2}
	s.Use(f)
	for o.ended == 0 {
		if err := s.Tick(now); err != nil {
			t.Fatal(err)
		}
	}
	if left := f.left(); len(left) != 2 || left[0].Key.SourcePort.Number() != 2 {
		t.Errorf("left: %+v", left)
	}
	if err := s.Tick(now + time.Second); err != nil || o.ended != 1 {
		t.Errorf("without a crowd, a sweep a second later: %v", err)
	}
}

func TestATableIsNotMadeTooSmall(t *testing.T) {
	f, o := &fake{size: Room(100000)}, &owner{active: []uint32{0, 0, 0}}
	for port := range uint16(5000) {
		f.open(port, 1, 0, 0)
	}
	s := &Sweeper{Owner: o, Zones: 2}
	s.Use(f)
	if err := s.Resize(1); !errors.Is(err, cube.ErrFull) || f.size != Room(100000) {
		t.Errorf("%v, size %d", err, f.size)
	}
	if err := s.Resize(200000); err != nil || f.size != Room(200000) {
		t.Errorf("%v, size %d", err, f.size)
	}
	o.err = cube.ErrNotFound
	if err := s.Tick(time.Hour); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("without servers: %v", err)
	}
}
