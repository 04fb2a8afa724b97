// SPDX-License-Identifier: Apache-2.0

package zone

// The list of sessions: connections that the rules of the cube have accepted.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/conntrack/session"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// SessionTable is the name of the list of sessions.
const SessionTable = "session-table"

// shownWhole is the maximum number of sessions shown when the whole cube is read.
const shownWhole = 1000

// listed is an entry of the list.
type listed struct {
	Src     netip.Addr `json:"src"`
	Dst     netip.Addr `json:"dst"`
	L4Proto string     `json:"l4proto"`
	SPort   uint16     `json:"sport"`
	DPort   uint16     `json:"dport"`
	State   string     `json:"state"`
	ETA     uint32     `json:"eta"`
	Age     uint32     `json:"age"`
	session.Counters
}

// show returns a connection as shown, seen from the side that opened it.
func (z *Zone) show(e *conns.Entry, counts conns.Counts, now time.Duration) (json.RawMessage, error) {
	from := e.State.Opener()
	idle := e.Idle(now)
	timeouts := z.shares.wanted(z.number()).timeouts
	left := max(0, timeouts.Of(&e.State)-idle)
	is := listed{
		Src: e.Key.Address[from].Addr(), Dst: e.Key.Address[1-from].Addr(), L4Proto: inet.Protocol(e.Key.Protocol).String(),
		SPort: e.Key.Port[from].Number(), DPort: e.Key.Port[1-from].Number(),
		State: e.State.State.String(), ETA: seconds(left), Age: seconds(idle),
	}
	if z.extras.Accounting {
		is.Counters = session.CountersOf(counts)
	}
	raw, err := json.Marshal(is)
	if err != nil {
		return nil, fmt.Errorf("encode a session: %w", err)
	}
	return raw, nil
}

func seconds(d time.Duration) uint32 { return uint32(d / time.Second) }

// Page returns a page of sessions, in no particular order.
func (z *Zone) Page(_ context.Context, path []string, q cube.PageQuery) (page cube.Page, err error) {
	if !slices.Equal(path, []string{SessionTable}) {
		return page, fmt.Errorf("%s: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	cursor := uint64(0)
	if q.After != "" {
		if cursor, err = strconv.ParseUint(q.After, 10, 32); err != nil {
			return page, fmt.Errorf("after %.80q: not a position in the list: use the value from the previous page: %w", q.After, cube.ErrInvalid)
		}
	}
	now, err := clock()
	if err != nil {
		return page, err
	}
	next := conns.Counters{Table: z.table}.Page(uint32(cursor), q.Limit, func(e *conns.Entry, counts conns.Counts) bool {
		if e.Key.Zone != z.number() || err != nil {
			return false
		}
		var raw json.RawMessage
		if raw, err = z.show(e, counts, now); err != nil || q.Matches != nil && !q.Matches(raw) {
			return false
		}
		page.Entries = append(page.Entries, raw)
		return true
	})
	if next != 0 {
		page.Next = strconv.FormatUint(uint64(next), 10)
	}
	return page, err
}

// clock returns the time that packets get.
func clock() (time.Duration, error) {
	now, err := cube.TimeCoarse()
	return time.Duration(now), err
}

// Sessions returns one session or, for the whole cube, all if there are few: the entries of `session-table`.
func (z *Zone) Sessions(path []string) (all []json.RawMessage, err error) {
	if len(path) > 1 {
		e, counts, err := z.find(path[1:min(len(path), 6)])
		if err != nil {
			return nil, nil //nolint:nilerr // it is no session
		}
		now, err := clock()
		if err != nil {
			return nil, err
		}
		raw, err := z.show(e, counts, now)
		return []json.RawMessage{raw}, err
	}
	zone := z.number()
	if len(path) > 0 || z.table.Count(zone)+z.table.HalfOpen(zone) > shownWhole {
		return nil, nil
	}
	q := cube.PageQuery{Limit: shownWhole}
	for {
		page, err := z.Page(context.Background(), []string{SessionTable}, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Entries...)
		if q.After = page.Next; q.After == "" {
			return all, nil
		}
	}
}

// Phase returns how far a session has got; false if there is none with the key.
func (z *Zone) Phase(key conns.Key) (conntrack.Phase, bool) {
	if z.table == nil {
		return conntrack.None, false
	}
	e, ok := z.table.Find(key)
	return e.State.State, ok
}

// find returns the session with five keys.
func (z *Zone) find(words []string) (e *conns.Entry, counts conns.Counts, err error) {
	none := fmt.Errorf("%s %s: %w", SessionTable, strings.Join(words, " "), cube.ErrNotFound)
	if len(words) != 5 {
		return nil, counts, none
	}
	var ends [2]netip.AddrPort
	for i := range ends {
		addr, err := netip.ParseAddr(words[i])
		port, ok := inet.ParsePort(words[3+i])
		if err != nil || !ok {
			return nil, counts, none
		}
		ends[i] = netip.AddrPortFrom(addr, port)
	}
	protocol, ok := inet.Protocols.Parse(strings.ToUpper(words[2]))
	if !ok || ends[0].Addr().Is4() != ends[1].Addr().Is4() {
		return nil, counts, none
	}
	key, from := conns.Between(ends[0], ends[1], uint8(protocol), z.number())
	found, counts, ok := conns.Counters{Table: z.table}.Find(key)
	if !ok || found.State.Opener() != from {
		return nil, counts, none
	}
	return &found, counts, nil
}

// DeleteState ends one session, or all.
func (z *Zone) DeleteState(_ context.Context, path []string) error {
	if len(path) == 0 || path[0] != SessionTable {
		return fmt.Errorf("%s: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	if len(path) == 1 {
		_, err := z.table.Remove(func(e *conns.Entry) bool { return e.Key.Zone == z.number() })
		return err
	}
	e, _, err := z.find(path[1:])
	if err != nil {
		return err
	}
	z.table.End(e.Key)
	return nil
}
