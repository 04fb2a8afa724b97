// SPDX-License-Identifier: Apache-2.0

package lbrp

// Weights that follow the load of servers. A weight that changes moves its share of new sessions; sessions that exist have
// their servers in their entries.

import (
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/author"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/feedback"
)

const (
	// largestShare limits weights in tables, largestLeast those that programs compare.
	largestShare = 1 << 30
	largestLeast = math.MaxUint16
	// keptUnit is the unit of the map `followed`.
	keptUnit = 100
)

// loadKey is a server of a service.
type loadKey struct {
	service ServiceKey
	at      netip.AddrPort
}

// follower are the loads of the servers of a cube.
type follower struct {
	env    cube.Env
	kept   *table.Mapped[uint64]
	poller *feedback.Poller[loadKey] // nil: no service has feedback
	groups map[ServiceKey]*feedback.Group[loadKey]
	polled map[ServiceKey]map[netip.AddrPort]bool
	// due are services whose weights have changed and that do not have them yet.
	due       map[ServiceKey]bool
	restoring bool // weights of an earlier daemon are adopted
	changes   uint64
}

func newFollower(env cube.Env) follower {
	return follower{
		env: env, kept: table.NewMapped[uint64](env, "followed"), groups: map[ServiceKey]*feedback.Group[loadKey]{},
		polled: map[ServiceKey]map[netip.AddrPort]bool{}, due: map[ServiceKey]bool{},
	}
}

// follow makes polls what a change asks for.
func (f *follower) follow(next *change) {
	for key, w := range next.services {
		if w == nil || !w.conf.Feedback.Enabled() {
			f.forget(key)
		} else {
			f.followService(key, w)
		}
	}
	if len(f.groups) == 0 && f.poller != nil {
		f.poller.Close()
		f.poller = nil
	}
}

// forget ends the polls of a service.
func (f *follower) forget(key ServiceKey) {
	for at := range f.polled[key] {
		f.poller.Remove(loadKey{key, at})
	}
	delete(f.polled, key)
	delete(f.groups, key)
	delete(f.due, key)
}

func (f *follower) followService(key ServiceKey, w *wanted) {
	conf := w.conf.Feedback
	g := f.groups[key]
	if g == nil {
		g = feedback.NewGroup[loadKey](conf)
		f.groups[key], f.polled[key] = g, map[netip.AddrPort]bool{}
	} else {
		g.Configure(conf)
	}
	if f.poller == nil {
		f.poller = feedback.NewPoller[loadKey]()
	}
	for at, s := range w.backends {
		if s.Weight == 0 || s.AdminState == balance.Disabled {
			continue
		}
		target := at
		if at.Port() == 0 {
			target = netip.AddrPortFrom(at.Addr(), w.conf.VPort)
		}
		g.Set(loadKey{key, at}, s.Weight)
		f.poller.Set(loadKey{key, at}, conf.Agent(target, s.AgentAddress))
		f.polled[key][at] = true
	}
	for at := range f.polled[key] {
		if s := w.backends[at]; s == nil || s.Weight == 0 || s.AdminState == balance.Disabled {
			f.poller.Remove(loadKey{key, at})
			g.Remove(loadKey{key, at})
			delete(f.polled[key], at)
		}
	}
}

// weight returns the weight of a server in the table of its service, and whether its agent wants no new sessions; then the weight is
// the configured one.
func (f *follower) weight(m *member) (weight uint32, unwilling bool) {
	if g := f.groups[m.service.key]; g != nil {
		if units, unwilling, ok := g.Units(m.loadKey(), largestShare); ok {
			return units, unwilling
		}
	}
	return m.conf.Weight, false
}

// least returns the weight of a server that programs divide sessions by.
func (f *follower) least(m *member) uint16 {
	if g := f.groups[m.service.key]; g != nil {
		if units, _, ok := g.Units(m.loadKey(), largestLeast); ok {
			return uint16(units)
		}
	}
	return uint16(min(m.conf.Weight, largestLeast))
}

func (m *member) loadKey() loadKey { return loadKey{m.service.key, m.at} }

// adopt gives a server, which has just got its number, the weight that an earlier daemon gave it.
func (f *follower) adopt(m *member, isNew bool) error {
	g := f.groups[m.service.key]
	if g == nil || isNew || !f.restoring {
		return nil
	}
	kept, err := f.kept.Values()
	if err == nil {
		g.Adopt(m.loadKey(), float64(kept[m.number])/keptUnit)
	}
	return err
}

// keep records the weight of a server for the next daemon.
func (f *follower) keep(m *member) error {
	kept, err := f.kept.Values()
	if err != nil {
		return err
	}
	var is uint64
	if g := f.groups[m.service.key]; g != nil {
		weight, _ := g.Weight(m.loadKey())
		is = uint64(math.Round(weight * keptUnit))
	}
	if kept[m.number] != is {
		kept[m.number] = is
	}
	return nil
}

// tick takes the answers of agents. The services whose weights have changed are then affected.
func (f *follower) tick(now time.Time, affected map[ServiceKey]bool) {
	if f.poller == nil {
		return
	}
	for _, a := range f.poller.Take() {
		g := f.groups[a.Key.service]
		if g == nil {
			continue
		}
		if c := g.Answer(a.Key, a.Reading, a.Err, a.At); c != nil {
			f.announce(a.Key, c)
		}
	}
	for key, g := range f.groups {
		if g.Step(now) {
			f.due[key], affected[key] = true, true
			f.changes++
		}
	}
}

// announce adds an event for an agent that has become unreachable, or answers again.
func (f *follower) announce(k loadKey, c *feedback.Change) {
	what := fmt.Sprintf("the agent of server %s %d (of %s) answers again", k.at.Addr(), k.at.Port(), k.service)
	if c.State == feedback.Unreachable {
		what = fmt.Sprintf("the agent of server %s %d (of %s) is unreachable; the server falls back to its configured weight: %s",
			k.at.Addr(), k.at.Port(), k.service, c.Error)
	}
	author.Announce(f.env, "feedback", what)
}

// view returns the container `feedback` of a server; nil if its weight does not follow its load.
func (f *follower) view(key ServiceKey, at netip.AddrPort) *feedback.View {
	if g := f.groups[key]; g != nil {
		return g.View(loadKey{key, at})
	}
	return nil
}

// feedbackTotals is the container `feedback`.
type feedbackTotals struct {
	Following   uint32 `json:"following"`
	Waiting     uint32 `json:"waiting"`
	Unreachable uint32 `json:"unreachable"`
	Polls       uint64 `json:"polls"`
	Failed      uint64 `json:"failed"`
	Changes     uint64 `json:"changes"`
}

func (f *follower) totals() *feedbackTotals {
	var n feedback.Counts
	for _, g := range f.groups {
		g.Count(&n)
	}
	out := &feedbackTotals{Following: n.Following, Waiting: n.Waiting, Unreachable: n.Unreachable, Changes: f.changes}
	if f.poller != nil {
		s := f.poller.Stats()
		out.Polls, out.Failed = s.Polls, s.Failed
	}
	return out
}

// close ends all polls.
func (f *follower) close() error {
	if f.poller != nil {
		f.poller.Close()
		f.poller = nil
	}
	return f.kept.Close()
}
