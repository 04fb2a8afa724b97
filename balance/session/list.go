// SPDX-License-Identifier: Apache-2.0

package session

// The list `session` in the state of a load balancer: its entries and pages, and deleting.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/balance"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/inet"
)

// View is an entry of the list. Times are in seconds. A cube with more to show embeds it.
type View struct {
	Client      netip.Addr `json:"client"`
	ClientPort  uint16     `json:"client-port"`
	VIP         netip.Addr `json:"vip"`
	VPort       uint16     `json:"vport"`
	Backend     netip.Addr `json:"backend"`
	BackendPort uint16     `json:"backend-port"`
	Source      netip.Addr `json:"source"`
	SourcePort  uint16     `json:"source-port"`
	State       string     `json:"state"`
	Age         uint32     `json:"age"`
	Expires     uint32     `json:"expires"`
	Duration    uint32     `json:"duration"`
}

// List is the list in the state of a cube, which calls it in its turn.
type List struct {
	Table   func() *conns.Table
	Servers func() (Servers, error)
	// Find returns the session that the keys of an entry name, from its entry for the client's packets.
	Find func(keys []string) (Session, bool)
	// Show returns the entry for a session, from its entry for the client's packets.
	Show func(is *Session, now time.Duration) any
}

// View returns what is shown of a session, which is the entry for the client's packets, and the entry for the server's.
func (s *Session) View(t *conns.Table, now, timeout time.Duration) (v View, reply Session) {
	age := aging.Age(uint64(now), s.Seen)
	if e, ok := t.Find(s.Twin()); ok {
		reply = *Of(&e)
		age = min(age, aging.Age(uint64(now), reply.Seen))
	}
	return View{
		Client: s.Key.Source.Addr(), ClientPort: s.Key.SourcePort.Number(), VIP: s.Key.Destination.Addr(), VPort: s.Key.DestinationPort.Number(),
		Backend: s.Destination.Addr(), BackendPort: s.DestinationPort.Number(), Source: s.Source.Addr(), SourcePort: s.SourcePort.Number(),
		State: s.Progress.State.String(), Age: seconds(age), Expires: seconds(timeout - age), Duration: seconds(now - time.Duration(s.Created)*time.Second),
	}, reply
}

func seconds(d time.Duration) uint32 { return uint32(max(0, d) / time.Second) }

// ParseKey returns the key of a client's packets, of TCP, from the words for client, client's port, virtual address and port;
// false if they are not.
func ParseKey(client, clientPort, vip, vport string) (k Key, ok bool) {
	from, notClient := netip.ParseAddr(client)
	to, notVIP := netip.ParseAddr(vip)
	fromPort, isFrom := inet.ParsePort(clientPort)
	toPort, isTo := inet.ParsePort(vport)
	if notClient != nil || notVIP != nil || !isFrom || !isTo || from.Is4() != to.Is4() {
		return k, false
	}
	k = Key{Source: inet.AddressOf(from), Destination: inet.AddressOf(to), SourcePort: portOf(fromPort), DestinationPort: portOf(toPort), Protocol: inet.TCP}
	if from.Is6() {
		k.IPv6 = 1
	}
	return k, true
}

func portOf(n uint16) flow.Port { return flow.Port{byte(n >> 8), byte(n)} }

// Page is the Page of a cube.Object: a page of sessions, in no particular order.
func (l *List) Page(_ context.Context, path []string, q cube.PageQuery) (page cube.Page, err error) {
	if !slices.Equal(path, []string{"session"}) {
		return page, fmt.Errorf("%s: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	cursor := uint64(0)
	if q.After != "" {
		if cursor, err = strconv.ParseUint(q.After, 10, 24); err != nil {
			return page, fmt.Errorf("after %.80q: not a position in the list: use the value from the previous page: %w", q.After, cube.ErrInvalid)
		}
	}
	now := balance.Now()
	_, next := l.Table().Page(uint32(cursor), q.Limit, func(e *conns.Entry) bool {
		is := Of(e)
		if is.IsReply() || err != nil {
			return false
		}
		var raw json.RawMessage
		if raw, err = json.Marshal(l.Show(is, now)); err != nil {
			err = fmt.Errorf("encode a session: %w", err)
			return false
		}
		if q.Matches != nil && !q.Matches(raw) {
			return false
		}
		page.Entries = append(page.Entries, raw)
		return true
	})
	if next != 0 {
		page.Next = strconv.Itoa(int(next))
	}
	return page, err
}

// Delete is the DeleteState of a cube.Object: it ends one session, or all, and discounts them from their servers.
func (l *List) Delete(_ context.Context, path []string) error {
	if len(path) == 0 || path[0] != "session" {
		return fmt.Errorf("%s: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	servers, err := l.Servers()
	if err != nil {
		return err
	}
	if len(path) == 1 {
		_, err := l.Table().Remove(func(e *conns.Entry) bool {
			Of(e).discount(servers)
			return true
		})
		return err
	}
	is, ok := l.Find(path[1:])
	if !ok {
		return fmt.Errorf("no such session: %w", cube.ErrNotFound)
	}
	is.discount(servers)
	l.Table().End(is.Twin())
	l.Table().End(is.Key.Entry())
	return nil
}
