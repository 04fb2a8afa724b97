// SPDX-License-Identifier: Apache-2.0

package zone

// Zones that several cubes share, by a name (docs/adr/0070-shared-zones.md). Which cube has which is in a map that outlives
// the daemon, with what each wants, so sessions of cubes that are not restored yet have the right timeouts, too.

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/conntrack"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/shared"
	"github.com/polycube/polycube/cube/table"
)

// Name is the name of a shared zone, "" for a cube's own: leaf `session-zone`.
type Name string

// namePrefix is before the name in the model, and in the owner of a shared zone.
const namePrefix = "shared:"

// UnmarshalText parses the form of the model.
func (n *Name) UnmarshalText(text []byte) error {
	name, isShared := strings.CutPrefix(string(text), namePrefix)
	if !isShared {
		name = ""
	}
	*n = Name(name)
	return nil
}

// owner is the owner of the zone in the table.
func (n Name) owner() string { return namePrefix + string(n) }

// The zones of names: those below have the numbers of their cubes.
const (
	firstShared = 1024
	zones       = 1 << 16
)

// sharesMap is the name of the map in C.
const sharesMap = "ct_shares"

// row is struct pcn_conntrack_share.
type row struct {
	Zone, Limit uint32
	Timeout     [len(conntrack.Timeouts{})]uint32
	Name        [36]byte
}

func (r *row) name() Name { return Name(strings.TrimRight(string(r.Name[:]), "\x00")) }

// wants is what a cube wants of its zone, or all cubes of one.
type wants struct {
	limit    uint32
	timeouts conntrack.Timeouts
}

// user is a cube of this process.
type user struct {
	cube string
	name Name
	zone uint16
	wants
	accounting bool
	ended      func(*conns.Entry) // nil if it announces nothing
}

// shares are the zones of all cubes.
type shares struct {
	table *conns.Table
	rows  []row // by number of the cube; none if its programs share no zones
	mem   *table.Mapped[row]

	mu    sync.Mutex // guards what follows, the rows, and who owns zones
	users map[uint16]user
}

// all are those in use, by the map of rows.
var all shared.Registry[*shares]

// openShares returns the zones of all cubes, or, for a cube whose programs share none, its own.
func openShares(env cube.Env, t *conns.Table) (*shares, error) {
	m, err := env.Map(sharesMap)
	if errors.Is(err, cube.ErrNotFound) {
		return &shares{table: t, users: map[uint16]user{}}, nil
	}
	if err != nil {
		return nil, err
	}
	return all.Open(m, func() (*shares, error) {
		x := &shares{table: t, users: map[uint16]user{}}
		if x.mem, err = table.MappedOf[row](sharesMap, m); err != nil {
			return nil, err
		}
		if x.rows, err = x.mem.Values(); err != nil {
			return nil, errors.Join(err, x.mem.Close())
		}
		return x, nil
	})
}

// close ends the use by a cube.
func (x *shares) close(number uint16) error {
	x.mu.Lock()
	delete(x.users, number)
	x.mu.Unlock()
	if x.mem == nil {
		return nil
	}
	return all.Release(x, x.mem.Close)
}

// join gives a cube the zone that it is to have, which follows what its users want.
func (x *shares) join(env cube.Env, u user) (undo func() error, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	number := env.Instance()
	u.zone = number
	owner := env.UUID()
	var is row
	if u.name != "" {
		if u.zone, err = x.number(u.name); err != nil {
			return nil, err
		}
		owner = u.name.owner()
		is = row{Zone: uint32(u.zone), Limit: u.limit}
		for i, t := range u.timeouts {
			is.Timeout[i] = uint32(t / time.Second)
		}
		copy(is.Name[:], u.name)
	}
	if err := x.table.Own(u.zone, owner); err != nil {
		return nil, err
	}
	wasRow, wasUser := x.row(number), x.users[number]
	undo = func() error {
		x.mu.Lock()
		defer x.mu.Unlock()
		err := x.set(number, wasRow, wasUser)
		return errors.Join(err, x.freeUnused())
	}
	if err := x.set(number, is, u); err != nil {
		return nil, errors.Join(err, x.set(number, wasRow, wasUser))
	}
	return undo, nil
}

// number returns the number of the zone with a name: the one that it has, or else a free one. The search begins at a number
// that depends on the name, so a name whose cubes are gone for a moment, because the daemon was killed, finds its sessions.
func (x *shares) number(name Name) (uint16, error) {
	if x.rows == nil {
		return 0, fmt.Errorf("session-zone: the programs of this cube share no sessions: use own: %w", cube.ErrUnsupported)
	}
	for i := range x.rows {
		if x.rows[i].Zone != 0 && x.rows[i].name() == name {
			return uint16(x.rows[i].Zone), nil
		}
	}
	used := x.used()
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	for i := range uint32(zones - firstShared) {
		zone := uint16(firstShared + (h.Sum32()%(zones-firstShared)+i)%(zones-firstShared))
		if !used[zone] && (x.table.OwnedBy(zone, "") || x.table.OwnedBy(zone, name.owner())) {
			return zone, nil
		}
	}
	return 0, fmt.Errorf("session-zone: all zones are in use: %w", cube.ErrFull)
}

// used are the shared zones that cubes have.
func (x *shares) used() map[uint16]bool {
	out := map[uint16]bool{}
	for i := range x.rows {
		out[uint16(x.rows[i].Zone)] = true
	}
	return out
}

// row returns the row of a cube.
func (x *shares) row(number uint16) row {
	if int(number) >= len(x.rows) {
		return row{}
	}
	return x.rows[number]
}

// set gives a cube its row and its place among the users. Packets are of its zone from then on.
func (x *shares) set(number uint16, is row, u user) error {
	was, had := x.users[number]
	left := uint16(x.row(number).Zone)
	if int(number) < len(x.rows) {
		r := &x.rows[number]
		r.Limit, r.Timeout, r.Name = is.Limit, is.Timeout, is.Name
		atomic.StoreUint32(&r.Zone, is.Zone)
	}
	if u.cube == "" {
		delete(x.users, number)
	} else {
		x.users[number] = u
	}
	var errs []error
	if had && was.zone != u.zone {
		errs = append(errs, x.follow(was.zone))
	} else if !had && left != 0 && left != u.zone {
		errs = append(errs, x.follow(left))
	}
	if u.cube != "" {
		errs = append(errs, x.follow(u.zone))
	}
	return errors.Join(errs...)
}

// follow has a zone follow what its users want. If it has none, it stays as it is until it is free.
func (x *shares) follow(zone uint16) error {
	want, any := x.merged(zone)
	if !any {
		return nil
	}
	x.table.SetTimeouts(zone, want.timeouts)
	x.table.Limit(zone, want.limit)
	var ended []func(*conns.Entry)
	counters := conns.Counters{Table: x.table}
	change := counters.Stop
	for _, u := range x.users {
		if u.zone != zone {
			continue
		}
		if u.ended != nil {
			ended = append(ended, u.ended)
		}
		if u.accounting {
			change = counters.Start
		}
	}
	if ended == nil {
		conns.Watch(x.table, zone, nil)
	} else {
		conns.Watch(x.table, zone, func(e *conns.Entry) {
			for _, tell := range ended {
				tell(e)
			}
		})
	}
	if err := change(zone); err != nil {
		return fmt.Errorf("accounting: %w", err)
	}
	return nil
}

// merged returns what all users of a zone want together: the largest limit, and the longest timeouts.
func (x *shares) merged(zone uint16) (w wants, any bool) {
	add := func(limit uint32, timeout func(i int) time.Duration) {
		w.limit = max(w.limit, limit)
		for i := range w.timeouts {
			switch t := timeout(i); {
			case !any:
				w.timeouts[i] = t
			case t == 0 || w.timeouts[i] == 0: // never
				w.timeouts[i] = 0
			default:
				w.timeouts[i] = max(w.timeouts[i], t)
			}
		}
		any = true
	}
	for _, u := range x.users {
		if u.zone == zone {
			add(u.limit, func(i int) time.Duration { return u.timeouts[i] })
		}
	}
	for i := range x.rows {
		if r := &x.rows[i]; r.Zone != 0 && r.Zone == uint32(zone) {
			add(r.Limit, func(i int) time.Duration { return time.Duration(r.Timeout[i]) * time.Second })
		}
	}
	return w, any
}

// wanted is merged for readers.
func (x *shares) wanted(zone uint16) wants {
	x.mu.Lock()
	defer x.mu.Unlock()
	w, _ := x.merged(zone)
	return w
}

// zoneOf returns the zone of a cube.
func (x *shares) zoneOf(number uint16) uint16 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if u, ok := x.users[number]; ok {
		return u.zone
	}
	return number
}

// differs returns the name of another cube that wants something else of the zone of a cube.
func (x *shares) differs(number uint16) (other string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	is := x.users[number]
	for n, u := range x.users {
		if n != number && u.zone == is.zone && u.wants != is.wants {
			return u.cube
		}
	}
	return ""
}

// free removes the sessions of zones that no cube has, and of a cube's own zone if it shares another one.
func (x *shares) free(number uint16) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.freeUnused()
	if x.users[number].zone != number {
		err = errors.Join(err, x.table.Own(number, ""))
	}
	return err
}

// freeUnused removes the sessions of shared zones that no cube has.
func (x *shares) freeUnused() error {
	if x.rows == nil {
		return nil
	}
	used := x.used()
	var errs []error
	for zone := firstShared; zone < zones; zone++ {
		if n := uint16(zone); !used[n] && !x.table.OwnedBy(n, "") {
			errs = append(errs, x.table.Own(n, ""))
		}
	}
	return errors.Join(errs...)
}

// leave is for a cube that is deleted: its zone has no sessions any more, unless other cubes have it.
func (x *shares) leave(number uint16) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return errors.Join(x.set(number, row{}, user{}), x.table.Own(number, ""), x.freeUnused())
}
