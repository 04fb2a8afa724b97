// SPDX-License-Identifier: Apache-2.0

package feedback

// The weights of the servers of a service.

import (
	"math"
	"strconv"
	"time"
)

const (
	// knee is the difference of loads below which the cube root is a line. The slope there is 4.6; at 0 that of the root
	// is infinite.
	knee = 0.1
	// idle is the difference of loads that is never acted on: below it, what differs is not the work for clients.
	idle = 0.02
	// maxLoad limits what a part of the load and an answer may say: a server that is twice overloaded.
	maxLoad = 2
)

// Reading is the answer of an agent.
type Reading struct {
	// Load is the load of the server: 0 idle, 1 full.
	Load float64
	// Pending says that the load is not known yet: counters of a CPU have to be read twice.
	Pending bool
	// Says is what an agent of the method AGENT demands instead of a load; nil for the others.
	Says *Demand
}

// Group is the servers of a service. It is not safe for concurrent use.
type Group[K comparable] struct {
	conf    Config
	servers map[K]*server
	due     time.Time // of the next step
}

// server is a server of a group.
type server struct {
	base  float64 // configured weight
	want  float64 // by the formula
	given float64 // what the load balancer has

	state  State
	load   float64 // smoothed
	known  bool    // load is
	fresh  bool    // since the last step
	misses uint8
	demand demands
	at     time.Time
	why    string
}

// Change is a server whose agent has become unreachable, or answers again.
type Change struct {
	State State
	Error string
}

// NewGroup returns a service without servers.
func NewGroup[K comparable](conf *Config) *Group[K] {
	return &Group[K]{conf: *conf, servers: map[K]*server{}}
}

// Configure changes the configuration. With another method, all servers are as new ones; so their weights stay until they answer.
func (g *Group[K]) Configure(conf *Config) {
	if conf.Method != g.conf.Method {
		for _, s := range g.servers {
			*s = server{base: s.base, want: s.want, given: s.given, state: Waiting}
		}
	}
	g.conf = *conf
	g.due = time.Time{}
	for _, s := range g.servers {
		if s.given > 0 { // else its agent wants no sessions
			s.want, s.given = g.clamp(s, s.want), g.clamp(s, s.given)
		}
	}
}

// Set adds a server, or changes its configured weight, with which its weight changes in proportion.
func (g *Group[K]) Set(k K, configured uint32) {
	base := float64(configured)
	s := g.servers[k]
	switch {
	case s == nil:
		g.servers[k] = &server{base: base, want: base, given: base, state: Waiting}
	case s.base == base:
	case s.base == 0:
		s.base, s.want, s.given = base, base, base
	default:
		s.want, s.given, s.base = s.want*base/s.base, s.given*base/s.base, base
	}
}

// Adopt gives a server that has not answered yet the weight that an earlier daemon gave it.
func (g *Group[K]) Adopt(k K, weight float64) {
	if s := g.servers[k]; s != nil && s.state == Waiting && s.base > 0 && weight > 0 {
		s.want = g.clamp(s, weight)
		s.given = s.want
	}
}

// Remove removes a server, if it is there.
func (g *Group[K]) Remove(k K) { delete(g.servers, k) }

// Weight returns the weight that a server has now; false if there is no such server.
func (g *Group[K]) Weight(k K) (float64, bool) {
	if s := g.servers[k]; s != nil {
		return s.given, true
	}
	return 0, false
}

// Units returns the weight of a server as a whole number: in hundredths, or in larger units if the largest weight of the group would
// otherwise exceed a limit. If its agent wants no sessions, unwilling is true, and the units are those of its configured weight, for the
// case that no other server is left. ok is false if there is no such server.
func (g *Group[K]) Units(k K, limit float64) (units uint32, unwilling, ok bool) {
	is := g.servers[k]
	if is == nil {
		return 0, false, false
	}
	weight, unwilling := is.given, is.given == 0
	if unwilling {
		weight = is.base
	}
	largest := 0.0
	for _, s := range g.servers {
		largest = max(largest, s.base)
	}
	unit := min(100, limit/max(largest*max(float64(g.conf.Scale), 1), 1))
	return uint32(min(max(math.Round(weight*unit), 1), limit)), unwilling, true
}

// Answer takes the result of a poll. The returned change is nil if the agent's state is neither UNREACHABLE now nor was it before.
func (g *Group[K]) Answer(k K, r Reading, failed error, at time.Time) *Change {
	s := g.servers[k]
	if s == nil {
		return nil
	}
	if failed != nil {
		return g.missed(s, failed.Error())
	}
	s.misses, s.why, s.at = 0, "", at
	if r.Pending {
		return nil
	}
	was := s.state
	s.state, s.fresh = Following, true
	switch {
	case r.Says != nil:
		s.demand.add(r.Says)
		s.why = s.demand.reason()
	case !s.known:
		s.load, s.known = within(r.Load), true
	default:
		old := float64(g.conf.Smoothing) / 100
		s.load = old*s.load + (1-old)*within(r.Load)
	}
	if was == Unreachable {
		return &Change{State: Following}
	}
	return nil
}

// within limits a load; NaN, which no collector returns, is none.
func within(load float64) float64 {
	if math.IsNaN(load) {
		return 0
	}
	return min(max(load, 0), maxLoad)
}

// missed counts a poll without an answer.
func (g *Group[K]) missed(s *server, why string) *Change {
	s.why = why
	if s.misses < math.MaxUint8 {
		s.misses++
	}
	if s.misses < g.conf.Misses || s.state == Unreachable {
		return nil
	}
	s.state, s.known, s.fresh, s.demand = Unreachable, false, false, demands{}
	s.want = s.base
	g.due = time.Time{} // at once
	return &Change{State: Unreachable, Error: why}
}

// Step computes the weights, if it is time, and reports whether a server has another one.
func (g *Group[K]) Step(now time.Time) (changed bool) {
	if now.Before(g.due) {
		return false
	}
	g.due = now.Add(g.conf.interval())
	if g.conf.Method == Agent {
		for _, s := range g.servers {
			if s.fresh {
				s.want, s.fresh = s.base*min(s.demand.share(), float64(g.conf.Scale)), false
			}
		}
	} else {
		g.follow()
	}
	for _, s := range g.servers {
		if g.differs(s) {
			s.given, changed = s.want, true
		}
	}
	return changed
}

// differs reports whether a weight has changed enough to be passed on. The configured weight and 0 are passed on as they are.
func (g *Group[K]) differs(s *server) bool {
	if s.want == s.given {
		return false
	}
	if s.state == Unreachable || s.want == 0 || s.given == 0 {
		return true
	}
	return math.Abs(s.want-s.given) > s.given*float64(g.conf.Threshold)/100
}

// follow applies the formula to the servers that have answered since the last time.
func (g *Group[K]) follow() {
	target, counted := float64(g.conf.Target)/100, 0
	if g.conf.Target == 0 {
		for _, s := range g.servers {
			if s.known && s.base > 0 {
				target += s.load
				counted++
			}
		}
		target /= max(float64(counted), 1)
	}
	still := max(idle, target*float64(g.conf.Threshold)/100)
	moved := false
	for _, s := range g.servers {
		if !s.fresh || s.base == 0 {
			continue
		}
		s.fresh = false
		if math.Abs(target-s.load) > still {
			s.want = g.clamp(s, Weigh(s.want, float64(g.conf.Gain)/100*s.base, target, s.load))
			moved = true
		}
	}
	if moved && g.conf.Target == 0 {
		g.balance()
	}
}

// balance makes the sum of weights what it is by configuration, for the servers whose load is known: the target moves with them, so
// nothing else would keep all weights from growing or shrinking together. Servers without an answer then keep their share.
func (g *Group[K]) balance() {
	var base, want float64
	for _, s := range g.servers {
		if s.known {
			base += s.base
			want += s.want
		}
	}
	if want == 0 {
		return
	}
	for _, s := range g.servers {
		if s.known {
			s.want = g.clamp(s, s.want*base/want)
		}
	}
}

// clamp limits a weight.
func (g *Group[K]) clamp(s *server, weight float64) float64 {
	scale := max(float64(g.conf.Scale), 1)
	return min(max(weight, s.base/scale), s.base*scale)
}

// Weigh returns the weight after a step of the formula: weight + a × root(target − load).
func Weigh(weight, a, target, load float64) float64 { return weight + a*root(target-load) }

// root is the cube root, and near zero the line from zero to the root at the knee.
func root(x float64) float64 {
	if math.Abs(x) < knee {
		return x / knee * math.Cbrt(knee)
	}
	return math.Cbrt(x)
}

// Counts are the numbers of servers by the states of their agents.
type Counts struct{ Waiting, Following, Unreachable uint32 }

// Count adds the servers of the group.
func (g *Group[K]) Count(c *Counts) {
	for _, s := range g.servers {
		switch s.state {
		case Waiting:
			c.Waiting++
		case Following:
			c.Following++
		case Unreachable:
			c.Unreachable++
		}
	}
}

// View returns what is known of a server; nil if there is no such server.
func (g *Group[K]) View(k K) *View {
	s := g.servers[k]
	if s == nil {
		return nil
	}
	v := &View{State: s.state, Weight: hundredths(s.given), LastError: s.why}
	if s.known {
		v.Load = hundredths(s.load)
	}
	if !s.at.IsZero() {
		v.LastAnswer = s.at.UTC().Format(time.RFC3339)
	}
	return v
}

func hundredths(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) }
