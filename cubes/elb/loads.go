// SPDX-License-Identifier: Apache-2.0

package elb

// Weights that follow the load of servers, as agents report it. A weight that changes moves its share of new sessions, and no open one.

import (
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/cube/author"
	"github.com/polycube/polycube/feedback"
)

// largestShare limits weights in tables, largestLeast those that programs compare.
const (
	largestShare = 1 << 30
	largestLeast = math.MaxUint16
)

// loads are those of the servers of a cube.
type loads struct {
	balancer *balancer
	poller   *feedback.Poller[memberKey] // nil: no service has feedback
	groups   map[balance.ServiceID]*feedback.Group[memberKey]
	polled   map[memberKey]bool
}

func newLoads(b *balancer) loads {
	return loads{balancer: b, groups: map[balance.ServiceID]*feedback.Group[memberKey]{}, polled: map[memberKey]bool{}}
}

// follow makes polls what a service asks for.
func (l *loads) follow(p *placed) {
	if !p.feedback.Enabled() {
		l.forget(p.id)
		return
	}
	g := l.groups[p.id]
	if g == nil {
		g = feedback.NewGroup[memberKey](p.feedback)
		l.groups[p.id] = g
	} else {
		g.Configure(p.feedback)
	}
	if l.poller == nil {
		l.poller = feedback.NewPoller[memberKey]()
	}
	asked := map[memberKey]bool{}
	for _, s := range p.servers {
		if s.weight == 0 || s.disabled {
			continue
		}
		k := memberKey{p.id, s.at}
		g.Set(k, s.weight)
		l.poller.Set(k, p.feedback.Agent(s.at, s.agent))
		l.polled[k], asked[k] = true, true
	}
	for k := range l.polled {
		if k.id == p.id && !asked[k] {
			l.drop(k)
		}
	}
}

// drop ends the polls of a server.
func (l *loads) drop(k memberKey) {
	l.poller.Remove(k)
	if g := l.groups[k.id]; g != nil {
		g.Remove(k)
	}
	delete(l.polled, k)
}

// forget ends the polls of a service.
func (l *loads) forget(id balance.ServiceID) {
	if l.groups[id] == nil {
		return
	}
	for k := range l.polled {
		if k.id == id {
			l.drop(k)
		}
	}
	if delete(l.groups, id); len(l.groups) == 0 {
		l.close()
	}
}

// weight returns the weight of a server in the table of its service, and the one that programs divide sessions by. If its agent wants no new
// sessions, both are 0.
func (l *loads) weight(m *member) (share uint32, least uint16) {
	g := l.groups[m.memberKey.id]
	if g == nil {
		return m.weight, uint16(min(m.weight, largestLeast))
	}
	share, unwilling, ok := g.Units(m.memberKey, largestShare)
	smaller, _, _ := g.Units(m.memberKey, largestLeast)
	switch {
	case !ok:
		return m.weight, uint16(min(m.weight, largestLeast))
	case unwilling:
		return 0, 0
	}
	return share, uint16(smaller)
}

// tick takes the answers of agents, and reports whether weights have changed.
func (l *loads) tick(now time.Time) (changed bool) {
	if l.poller == nil {
		return false
	}
	for _, a := range l.poller.Take() {
		g := l.groups[a.Key.id]
		if g == nil {
			continue
		}
		if c := g.Answer(a.Key, a.Reading, a.Err, a.At); c != nil {
			l.announce(a.Key, c)
		}
	}
	for _, g := range l.groups {
		changed = g.Step(now) || changed
	}
	return changed
}

// announce adds an event for an agent that has become unreachable, or answers again.
func (l *loads) announce(k memberKey, c *feedback.Change) {
	service := netip.AddrPortFrom(k.id.VIP, k.id.Port)
	what := fmt.Sprintf("the agent of server %s (of %s) answers again", k.at, service)
	if c.State == feedback.Unreachable {
		what = fmt.Sprintf("the agent of server %s (of %s) is unreachable; the server has its configured weight: %s", k.at, service, c.Error)
	}
	author.Announce(l.balancer.env, "feedback", what)
}

// view returns the container `feedback` of a server; nil if its weight does not follow its load.
func (l *loads) view(m *member) *feedback.View {
	if g := l.groups[m.memberKey.id]; g != nil {
		return g.View(m.memberKey)
	}
	return nil
}

// close ends all polls.
func (l *loads) close() {
	if l.poller != nil {
		l.poller.Close()
		l.poller = nil
	}
}

// agentCheck is how HAProxy asks agents: what they say replaces the weight at once.
func agentCheck(port uint16, interval time.Duration) *feedback.Config {
	const least, most, timeout = 200 * time.Millisecond, time.Hour, time.Second
	interval = min(max(interval, least), most)
	return &feedback.Config{
		Method: feedback.Agent, Port: port, Interval: uint32(interval.Milliseconds()), Timeout: uint32(min(interval, timeout).Milliseconds()), Misses: 3, Scale: 100,
	}
}
