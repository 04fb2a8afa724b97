// SPDX-License-Identifier: Apache-2.0

package elb

// The list `session`.

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/balance/session"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/inet"
)

// sessionView is an entry of `session`.
type sessionView struct {
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

// show returns a session as shown, from the entry for the client's packets.
func (b *balancer) show(is *session.Session, now time.Duration) sessionView {
	age := aging.Age(uint64(now), is.Seen)
	if e, ok := b.sessions.Find(is.Twin()); ok {
		age = min(age, aging.Age(uint64(now), session.Of(&e).Seen))
	}
	return sessionView{
		Client: is.Key.Source.Addr(), ClientPort: is.Key.SourcePort.Number(), VIP: is.Key.Destination.Addr(), VPort: is.Key.DestinationPort.Number(),
		Backend: is.Destination.Addr(), BackendPort: is.DestinationPort.Number(), Source: is.Source.Addr(), SourcePort: is.SourcePort.Number(),
		State: is.Progress.State.String(), Age: seconds(age), Expires: seconds(b.sweep.Timeout(is) - age),
		Duration: seconds(now - time.Duration(is.Created)*time.Second),
	}
}

func seconds(d time.Duration) uint32 { return uint32(max(0, d) / time.Second) }

// page returns a page of sessions, in no particular order.
func (b *balancer) page(_ context.Context, path []string, q cube.PageQuery) (page cube.Page, err error) {
	if !slices.Equal(path, []string{"session"}) {
		return page, fmt.Errorf("%s: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	now := balance.Now()
	return session.Page(b.sessions, q, func(is *session.Session) any { return b.show(is, now) })
}

// session returns the session that the keys of an entry name.
func (b *balancer) session(words []string) (is session.Session, ok bool) {
	k, ok := keyOf(words)
	if !ok {
		return is, false
	}
	e, found := b.sessions.Find(k.Entry())
	if !found || session.Of(&e).IsReply() {
		return is, false
	}
	return *session.Of(&e), true
}

// keyOf returns the key of the client's packets; false if the words are not the keys of a session.
func keyOf(words []string) (k session.Key, ok bool) {
	if len(words) != 4 {
		return k, false
	}
	client, notClient := netip.ParseAddr(words[0])
	vip, notVIP := netip.ParseAddr(words[2])
	from, isFrom := inet.ParsePort(words[1])
	to, isTo := inet.ParsePort(words[3])
	if notClient != nil || notVIP != nil || !isFrom || !isTo || client.Is4() != vip.Is4() {
		return k, false
	}
	k = session.Key{
		Source: inet.AddressOf(client), Destination: inet.AddressOf(vip), SourcePort: portOf(from), DestinationPort: portOf(to), Protocol: inet.TCP,
	}
	if client.Is6() {
		k.IPv6 = 1
	}
	return k, true
}

func portOf(n uint16) flow.Port { return flow.Port{byte(n >> 8), byte(n)} }

// deleteState ends one session, or all.
func (b *balancer) deleteState(_ context.Context, path []string) error {
	if len(path) == 0 || path[0] != "session" {
		return fmt.Errorf("%s: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	servers, err := b.sweep.Servers()
	if err != nil {
		return err
	}
	if len(path) == 1 {
		return session.EndAll(b.sessions, servers)
	}
	is, ok := b.session(path[1:])
	if !ok {
		return fmt.Errorf("no such session: %w", cube.ErrNotFound)
	}
	is.End(b.sessions, servers)
	return nil
}
