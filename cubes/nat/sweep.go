// SPDX-License-Identifier: Apache-2.0

package nat

// Sessions end here: expired ones, those whose rule is gone, and claims of external endpoints without a session. A
// sweep processes the tables in steps, between which the cube does other work; it counts the remaining sessions.

import (
	"errors"
	"hash/maphash"
	"math/bits"
	"net/netip"
	"time"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// stepEntries is the number of entries per step: a few milliseconds.
const stepEntries = 16384

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
	stage stage
	after string
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

type stage int

const (
	stageEgress4 stage = iota
	stageEgress6
	stageIngress4
	stageIngress6
	stageEnd
)

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

// restart starts again with other maps.
func (s *sweeper) restart() {
	if s.stopStep != nil {
		s.stopStep()
	}
	s.running, s.stopStep, s.last = false, nil, nil
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
		created, err = n.created()
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
	if s.after = next; next == "" {
		s.stage++
		if s.stage == stageIngress4 && !s.looksForStrays() {
			s.stage = stageEnd
		}
	}
	if s.stage < stageEnd {
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

// work processes the current part.
func (s *sweeper) work() (next string, err error) {
	now, err := cube.TimeCoarse()
	if err != nil {
		return "", err
	}
	switch t := &s.nat.tables; s.stage {
	case stageEgress4:
		return sweepEgress(s, &t.v4, now)
	case stageEgress6:
		return sweepEgress(s, &t.v6, now)
	case stageIngress4:
		return sweepIngress(s, &t.v4, now)
	case stageIngress6:
		return sweepIngress(s, &t.v6, now)
	case stageEnd:
	}
	return "", nil
}

// sweepEgress removes finished sessions in a part of an egress table.
func sweepEgress[K comparable, V any](s *sweeper, f *family[K, V], now uint64) (string, error) {
	entries, next, err := f.egress.Page(s.after, stepEntries, nil)
	if err != nil {
		return "", err
	}
	var ingress, egress []K
	for _, e := range entries {
		is := f.session(e.Key, e.Value)
		stays := s.nat.fits(is)
		switch {
		case is.Flags&flagMapping != 0:
			mapping := is.remote.addr.IsUnspecified() // other entries record destinations
			if stays = stays || !mapping; stays && s.inUse(is) {
				if mapping {
					s.mappings++
				}
			} else if err := dropMapping(f, e.Key, e.Value, stays); err != nil {
				return "", err
			}
			continue
		case stays:
			if stays, err = isActive(s, f, e.Key, e.Value, now); err != nil {
				return "", err
			}
		}
		if !stays {
			if egress = append(egress, e.Key); is.Flags&flagMapped == 0 {
				ingress = append(ingress, f.twin(e.Key, e.Value))
			}
			continue
		}
		s.sessions[kindOf(is.proto)]++
		s.use(is)
	}
	return next, dropSessions(f, ingress, egress)
}

// dropSessions deletes sessions: packets from outside are stopped first.
func dropSessions[K comparable, V any](f *family[K, V], ingress, egress []K) error {
	_, err := f.ingress.DeleteAll(ingress)
	if err == nil {
		_, err = f.egress.DeleteAll(egress)
	}
	return err
}

// dropMapping deletes the claim of an external endpoint. If a session was created on it in the meantime, it is
// restored, unless fits is false.
func dropMapping[K comparable, V any](f *family[K, V], k K, v V, fits bool) error {
	was, ok, err := f.egress.LookupAndDelete(k)
	if err != nil || !ok {
		return err
	}
	if fits && aging.Later(f.half(was).Seen, f.half(v).Seen) {
		_, err := f.egress.Add(k, was) // the fast path may have done it
		if !errors.Is(err, cube.ErrFull) {
			return err
		}
	}
	_, err = f.ingress.Delete(f.twin(k, was))
	return err
}

// isActive reports whether a session had a packet within its timeout. A session whose mapping was removed when a packet
// raced with a sweep is not alive: packets from outside do not find it, and the next one from inside creates a new one.
func isActive[K comparable, V any](s *sweeper, f *family[K, V], k K, v V, now uint64) (bool, error) {
	is := f.session(k, v)
	if is.Flags&flagMapped != 0 && s.looksForStrays() && aging.Age(now, is.Created) >= strayAge {
		back := f.bare(f.twin(k, v))
		mapping, ok, err := f.ingress.Get(back)
		if err != nil || !ok || f.twin(back, mapping) != f.bare(k) {
			return false, err
		}
	}
	return s.fresh(is, func() (uint64, error) {
		other, err := otherHalf(f, k, v)
		return other.Seen, err
	}, now)
}

// sweepIngress deletes halves of sessions and mappings whose other half is gone: races between packets and sweeps leave
// some.
func sweepIngress[K comparable, V any](s *sweeper, f *family[K, V], now uint64) (string, error) {
	entries, next, err := f.ingress.Page(s.after, stepEntries, nil)
	if err != nil {
		return "", err
	}
	var stray []K
	for _, e := range entries {
		if h := f.half(e.Value); min(aging.Age(now, h.Created), aging.Age(now, h.Seen)) < strayAge {
			continue
		}
		_, ok, err := f.egress.Get(f.twin(e.Key, e.Value))
		if err != nil {
			return "", err
		}
		if !ok {
			stray = append(stray, e.Key)
		}
	}
	_, err = f.ingress.DeleteAll(stray)
	return next, err
}

// fresh reports whether a session had a packet within its timeout. twin returns the other direction's entry.
func (s *sweeper) fresh(is session, twin func() (uint64, error), now uint64) (bool, error) {
	timeout := s.nat.config.Timeout.of(is.proto, is.State)
	if aging.Age(now, is.Seen) <= timeout {
		return true, nil
	}
	seen, err := twin()
	return seen != 0 && aging.Age(now, seen) <= timeout, err
}

// of returns the timeout of a session.
func (t Timeout) of(proto uint8, state uint32) time.Duration {
	seconds := t.Other
	switch inet.Protocol(proto) {
	case inet.TCP:
		if seconds = t.TCPTransitory; stateOf(proto, state) == stateEstablished {
			seconds = t.TCPEstablished
		}
	case inet.UDP:
		seconds = t.UDP
	case inet.ICMP, inet.ICMPv6:
		seconds = t.ICMP
	default:
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
func (p *pass) bit(is session) (word int, mask uint64) {
	h := maphash.Comparable(p.seed, struct {
		addr, remote inet.Address
		port         uint16
		proto        uint8
	}{inet.AddressOf(is.internal.addr), inet.AddressOf(is.remote.addr), is.internal.port, is.proto})
	h %= uint64(len(p.used)) * 64
	return int(h / 64), 1 << (h % 64)
}

// use records that an internal endpoint has a session.
func (s *sweeper) use(is session) {
	word, mask := s.bit(is)
	s.used[word] |= mask
	is.remote.addr = unspecifiedLike(is.remote.addr)
	word, mask = s.bit(is)
	s.used[word] |= mask
}

func unspecifiedLike(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// inUse reports whether a mapping had sessions in the last sweep, or got one since that began.
func (s *sweeper) inUse(is session) bool {
	if s.last == nil || !aging.Later(s.last.began, is.Seen) {
		return true
	}
	word, mask := s.last.bit(is)
	return s.last.used[word]&mask != 0
}

// fits reports whether the rule of a session, or of a mapping, still exists and translates the same way.
func (n *nat) fits(is session) bool {
	if n.flushed != 0 && !aging.Later(is.Created, n.flushed) {
		return false
	}
	switch is.Origin {
	case originSnat:
		r := n.rules.snat[is.Rule]
		return r != nil && r.InternalNet.Contains(is.internal.addr) && r.ExternalIP.Contains(is.external.addr)
	case originMasquerade:
		return n.masqueradeAddress(is.external.addr.Is4()) == is.external.addr
	case originDnat:
		r := n.rules.dnat[is.Rule]
		return r != nil && r.ExternalIP.Addr() == is.external.addr && r.InternalIP == is.internal.addr
	case originForwarding:
		r := n.rules.forward[is.Rule]
		return r != nil && r.ExternalIP.Addr() == is.external.addr && r.InternalIP == is.internal.addr &&
			r.ExternalPort <= is.external.port && is.external.port <= r.last() &&
			is.external.port-r.ExternalPort == is.internal.port-r.InternalPort && (r.Proto == protoAll || numbers[r.Proto] == is.proto)
	}
	return false
}
