// SPDX-License-Identifier: Apache-2.0

package session

// Lists of sessions in the state of a load balancer: pages, and deleting.

import (
	"encoding/json"
	"fmt"
	"strconv"

	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
)

// Page returns a page of the sessions in a table, in no particular order. show returns the entry of the list for a session, of which it
// gets the entry for the client's packets.
func Page(t *conns.Table, q cube.PageQuery, show func(*Session) any) (page cube.Page, err error) {
	cursor := uint64(0)
	if q.After != "" {
		if cursor, err = strconv.ParseUint(q.After, 10, 24); err != nil {
			return page, fmt.Errorf("after %.80q: not a position in the list: use the value from the previous page: %w", q.After, cube.ErrInvalid)
		}
	}
	_, next := t.Page(uint32(cursor), q.Limit, func(e *conns.Entry) bool {
		is := Of(e)
		if is.IsReply() || err != nil {
			return false
		}
		var raw json.RawMessage
		if raw, err = json.Marshal(show(is)); err != nil {
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

// EndAll ends all sessions in a table, and discounts them from their servers.
func EndAll(t *conns.Table, servers Servers) error {
	_, err := t.Remove(func(e *conns.Entry) bool {
		Of(e).Discount(servers)
		return true
	})
	return err
}

// End ends a session in both directions, and discounts it from its server.
func (s *Session) End(t *conns.Table, servers Servers) {
	s.Discount(servers)
	t.End(s.Twin())
	t.End(s.Key.Entry())
}
