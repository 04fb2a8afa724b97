// SPDX-License-Identifier: Apache-2.0

package nat

// Sessions end here: expired ones, those whose rule is gone, and claims of external endpoints without a session. A
// sweep processes the tables in steps, between which the cube does other work; it counts the remaining sessions.

import (
	"hash/maphash"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/polycube/polycube/aging"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// strayEvery says that one in so many sweeps, including the first, looks for halves of sessions whose other half is
// gone, and strayAge how old they must be: a new session gets its second half within microseconds.
const (
	strayEvery = 10
	strayAge   = 10 * time.Second
)

// sweeper processes the tables.
type sweeper struct {
	nat   *nat
	timer aging.Timer
	// stopStep stops the timer of the next step.
	stopStep func()

	// running is a sweep between begin and finish. more is the number of sweeps that follow immediately.
	running bool
	more    int
	swept   uint64
	pass
	// last is the previous sweep, which recorded which mappings are in use.
	last *pass
}

// pass is the state of one sweep.
type pass struct {
	cursor uint32 // in the table
	// began is its start, in the fast path's time.
	began uint64
	// used has bits for internal endpoints with sessions, alone and with the remote address.
	used []uint64
	seed maphash.Seed
	counts
	// created is the fast path's count when the sweep began.
	created [4]uint64
}

// counts are numbers of sessions by protocol, in the order of the counters: TCP, UDP, ICMP, other.
type counts struct {
	sessions [4]uint32
	mappings uint32
}

// every sets the interval of sweeps.
func (s *sweeper) every(period time.Duration) { s.timer.Every(s.nat.env, period, s.begin) }

// stop stops sweeping.
func (s *sweeper) stop() {
	s.timer.Stop()
	if s.stopStep != nil {
		s.stopStep()
	}
	*s = sweeper{nat: s.nat}
}

// sweepNow sweeps at once, twice: during the first sweep, the fast path may still create sessions on a mapping that must be
// removed.
func (s *sweeper) sweepNow() {
	s.more = 2
	s.again()
}

func (s *sweeper) again() {
	if !s.running {
		s.running = true
		s.stopStep = s.nat.env.After(0, func() { s.running = false; s.begin() })
	}
}

// begin starts a sweep unless one is running.
func (s *sweeper) begin() {
	n := s.nat
	if s.running {
		return
	}
	now, err := cube.TimeCoarse()
	var created [4]uint64
	if err == nil {
		created, err = n.group.created()
	}
	if err != nil {
		n.env.Logger().Error("sweep the sessions", "error", err)
		return
	}
	s.running, s.more = true, max(0, s.more-1)
	size := uint32(1024)
	if s.last != nil {
		size = max(size, s.last.active()+s.last.mappings)
	}
	s.pass = pass{began: now, seed: maphash.MakeSeed(), created: created, used: make([]uint64, 1<<bits.Len32(size/4))}
	s.step()
}

// step processes a part of a table, and returns when the next step is due.
func (s *sweeper) step() {
	next, err := s.work()
	if err != nil {
		s.nat.env.Logger().Error("sweep the sessions", "error", err)
		s.running = false
		return
	}
	if s.cursor = next; next != 0 {
		s.stopStep = s.nat.env.After(0, s.step)
		return
	}
	s.swept++
	done := s.pass
	s.last, s.running = &done, false
	if s.more > 0 {
		s.again()
	}
}

// looksForStrays reports whether this sweep looks for halves of sessions.
func (s *sweeper) looksForStrays() bool { return s.swept%strayEvery == 0 }

// work processes the current part of the table, and returns the next one, 0 at the end.
func (s *sweeper) work() (next uint32, err error) {
	now, err := cube.TimeCoarse()
	if err != nil {
		return 0, err
	}
	sessions := s.nat.tables.sessions
	unused := map[conns.Key]uint64{} // mappings, and when they had been used last
	_, next, err = sessions.RemoveSome(s.cursor, func(e *conns.Entry) bool {
		is := sessionOf(e)
		is.adopt()
		switch care := s.nat.group.careFor(is.Origin.member(), s.nat.place, now); {
		case care == careEnd:
			return true
		case care == careNone:
			s.count(is)
			return false
		case is.Key.Zone&zoneOutside != 0:
			return s.isStray(is, now)
		case is.is(flagMapping):
			if s.keeps(is) {
				return false
			}
			unused[e.Key] = is.Seen
			return false
		case !s.nat.fits(is) || !s.isActive(is, now):
			s.nat.end(is)
			return true
		}
		s.sessions[kindOf(is.Key.Proto)]++
		s.use(is)
		return false
	}, nil)
	if err != nil || len(unused) == 0 {
		return next, err
	}
	return next, s.dropMappings(unused)
}

// count counts a session or mapping of another NAT.
func (s *sweeper) count(is *session) {
	switch {
	case is.Key.Zone&zoneOutside != 0:
	case !is.is(flagMapping):
		s.sessions[kindOf(is.Key.Proto)]++
	case is.remote().addr.IsUnspecified():
		s.mappings++
	}
}

// keeps reports whether a mapping stays, and counts it. Other entries with its flag record destinations.
func (s *sweeper) keeps(is *session) bool {
	mapping := is.remote().addr.IsUnspecified()
	if (mapping && !s.nat.fits(is)) || !s.inUse(is) {
		return false
	}
	if mapping {
		s.mappings++
	}
	return true
}

// dropMappings ends claims of external endpoints. If a session was created on one in the meantime, that stays unless its rule
// is gone.
func (s *sweeper) dropMappings(unused map[conns.Key]uint64) error {
	stays := map[conns.Key]bool{}
	twins := map[conns.Key]conns.Key{}
	err := s.nat.tables.sessions.Retire(slices.Collect(maps.Keys(unused)), func(e *conns.Entry) bool {
		is := sessionOf(e)
		twins[e.Key] = is.twin().entry()
		stays[e.Key] = s.nat.fits(is) && aging.Later(is.Seen, unused[e.Key])
		return stays[e.Key]
	})
	for k, twin := range twins {
		if !stays[k] {
			s.nat.tables.sessions.End(twin)
		}
	}
	return err
}

// isActive reports whether a session had a packet within its timeout. A session whose mapping was removed when a packet
// raced with a sweep is not alive: packets from outside do not find it, and the next one from inside creates a new one.
func (s *sweeper) isActive(is *session, now uint64) bool {
	if is.is(flagMapped) && s.looksForStrays() && aging.Age(now, is.Created) >= strayAge {
		mapping, ok := s.nat.tables.find(is.twin().bare())
		if !ok || mapping.twin() != is.Key.bare() {
			return false
		}
	}
	timeout := s.nat.config.Timeout.of(is)
	if aging.Age(now, is.Seen) <= timeout {
		return true
	}
	if is.is(flagMapped) {
		age, received := is.inAge(now)
		return received && age <= timeout
	}
	other, ok := s.nat.tables.find(is.twin())
	return ok && aging.Age(now, other.Seen) <= timeout
}

// isStray reports whether an entry as seen outside has lost its other half: races between packets and sweeps leave some.
func (s *sweeper) isStray(is *session, now uint64) bool {
	if !s.looksForStrays() || min(aging.Age(now, is.Created), aging.Age(now, is.Seen)) < strayAge {
		return false
	}
	_, ok := s.nat.tables.find(is.twin())
	return !ok
}

// of returns the timeout of a session.
func (t Timeout) of(is *session) time.Duration {
	kind := kindOf(is.Key.Proto)
	seconds := [...]uint32{t.TCPTransitory, t.UDP, t.ICMP, t.Other}[kind]
	if kind == 0 && stateOf(&is.Progress) == stateEstablished {
		seconds = t.TCPEstablished
	}
	return time.Duration(seconds) * time.Second
}

// kindOf returns the index of a protocol among the counters.
func kindOf(proto uint8) int {
	switch inet.Protocol(proto) {
	case inet.TCP:
		return 0
	case inet.UDP:
		return 1
	case inet.ICMP, inet.ICMPv6:
		return 2
	default:
		return 3
	}
}

func (c counts) active() (sum uint32) {
	for _, n := range c.sessions {
		sum += n
	}
	return sum
}

// bit returns the position of an internal endpoint, with a remote address or the unspecified one, among those in use.
// Two may share a position, so that a mapping stays longer; the next sweep uses another seed, so this rarely happens
// twice.
func (p *pass) bit(k key) (word int, mask uint64) {
	h := maphash.Comparable(p.seed, k) % (uint64(len(p.used)) * 64)
	return int(h / 64), 1 << (h % 64)
}

// use records that an internal endpoint has a session.
func (s *sweeper) use(is *session) {
	permit := is.Key
	permit.RemotePort = port{}
	for _, k := range []key{permit, is.Key.bare()} {
		word, mask := s.bit(k)
		s.used[word] |= mask
	}
}

// inUse reports whether a mapping had sessions in the last sweep, or got one since that began.
func (s *sweeper) inUse(is *session) bool {
	if s.last == nil || !aging.Later(s.last.began, is.Seen) {
		return true
	}
	word, mask := s.last.bit(is.Key)
	return s.last.used[word]&mask != 0
}

// fits reports whether the rule of a session, or of a mapping, still exists and translates the same way.
func (n *nat) fits(is *session) bool {
	internal, external := is.internal(), is.external()
	if n.flushed != 0 && !aging.Later(is.Created, n.flushed) {
		return false
	}
	if is.Origin.member() != n.place {
		return true // the rules of a NAT that is absent are unknown
	}
	if n.config.hasTable() { // as in Linux, what a rule has translated stays when the rule is gone
		return is.Origin.kind() != originMasquerade || n.links.has(external.addr)
	}
	switch is.Origin.kind() {
	case originSnat:
		r := n.rules.snat[is.Rule]
		return r != nil && r.InternalNet.Contains(internal.addr) && r.ExternalIP.Contains(external.addr)
	case originMasquerade:
		return n.masqueradeAddress(external.addr.Is4()) == external.addr
	case originDnat:
		r := n.rules.dnat[is.Rule]
		return r != nil && r.ExternalIP.Addr() == external.addr && r.InternalIP == internal.addr
	case originForwarding:
		r := n.rules.forward[is.Rule]
		return r != nil && r.ExternalIP.Addr() == external.addr && r.InternalIP == internal.addr &&
			r.ExternalPort <= external.port && external.port <= r.last() &&
			external.port-r.ExternalPort == internal.port-r.InternalPort && (r.Proto == protoAll || numbers[r.Proto] == is.Key.Proto)
	}
	return false
}
