// SPDX-License-Identifier: Apache-2.0

package elb

// The list `session`.

import (
	"time"

	"github.com/polycube/polycube/balance/session"
	conns "github.com/polycube/polycube/conntrack/table"
)

// list returns the list.
func (b *balancer) list() *session.List {
	return &session.List{
		Table: func() *conns.Table { return b.sessions }, Servers: b.sweep.Servers, Find: b.session,
		Show: func(is *session.Session, now time.Duration) any { return b.show(is, now) },
	}
}

// show returns a session as shown, from the entry for the client's packets.
func (b *balancer) show(is *session.Session, now time.Duration) session.View {
	view, _ := is.View(b.sessions, now, b.sweep.Timeout(is))
	return view
}

// session returns the session that the keys of an entry name.
func (b *balancer) session(words []string) (is session.Session, ok bool) {
	if len(words) != 4 {
		return is, false
	}
	k, ok := session.ParseKey(words[0], words[1], words[2], words[3])
	if !ok {
		return is, false
	}
	e, found := b.sessions.Find(k.Entry())
	if !found || session.Of(&e).IsReply() {
		return is, false
	}
	return *session.Of(&e), true
}
