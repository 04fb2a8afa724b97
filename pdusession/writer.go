// SPDX-License-Identifier: Apache-2.0

package pdusession

// Writes the rows of a session, which no packet uses yet.

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/sdf"
)

// writer writes one session.
type writer struct {
	t       *Tables
	s       *Session
	was, is *Rows
	undo    cube.Undo
	// after are carried out once packets use the new rows, and no others.
	after []func()
}

func (w *writer) write() error {
	if err := w.s.check(); err != nil {
		return err
	}
	if w.was != nil {
		w.is.Number = w.was.Number
	} else {
		w.t.number++
		w.is.Number = w.t.number
	}
	for _, step := range []func() error{w.meters, w.usages, w.queues, w.redirects, w.rules, w.ways, w.peers} {
		if err := step(); err != nil {
			return err
		}
	}
	return w.t.own(w.was, w.is, &w.undo)
}

// check checks a session alone.
func (s *Session) check() error {
	switch {
	case !s.IPv4.IsValid() && !s.IPv6.IsValid():
		return fmt.Errorf("a session without an address: %w", cube.ErrInvalid)
	case s.IPv4.IsValid() && !s.IPv4.Is4(), s.IPv6.IsValid() && (!s.IPv6.Addr().Is6() || s.IPv6.Bits() != 64 || s.IPv6.Masked() != s.IPv6):
		return fmt.Errorf("addresses %s and %s: a device has an IPv4 address, an IPv6 prefix of 64 bits, or both: %w", s.IPv4, s.IPv6, cube.ErrInvalid)
	case len(s.Rules) == 0 || len(s.Rules) > MaxRules:
		return fmt.Errorf("%d rules: a session has 1 to %d: %w", len(s.Rules), MaxRules, cube.ErrInvalid)
	}
	for _, network := range s.Routes {
		if !network.IsValid() || network.Masked() != network || network.Addr().Is4In6() {
			return fmt.Errorf("network %s behind a device: %w", network, cube.ErrInvalid)
		}
	}
	for i := range s.Rules {
		if r := &s.Rules[i]; len(r.Meters) > MaxRuleMeters || len(r.Usages) > MaxRuleUsages {
			return fmt.Errorf("rule %d: %d meters and %d usages: at most %d and %d are possible: %w",
				r.ID, len(r.Meters), len(r.Usages), MaxRuleMeters, MaxRuleUsages, cube.ErrInvalid)
		}
		if err := s.Rules[i].checkRedirect(); err != nil {
			return err
		}
	}
	return nil
}

// checkRedirect checks that requests can be redirected, to a URL that is one line.
func (r *Rule) checkRedirect() error {
	f := &r.Forward
	switch url := f.Redirect; {
	case url == "":
		return nil
	case r.TEID == 0 || r.FromNetwork || f.Peer.IsValid() || f.Action != Pass:
		return fmt.Errorf("rule %d: only packets from a device that pass without a tunnel are redirected: %w", r.ID, cube.ErrInvalid)
	case len(url) > MaxURL || strings.ContainsFunc(url, func(c rune) bool { return c <= ' ' || c > '~' }):
		return fmt.Errorf("rule %d: a URL of %d bytes: it has up to %d printable characters of ASCII: %w", r.ID, len(url), MaxURL, cube.ErrInvalid)
	}
	return nil
}

// take takes rows of a table for the session.
func (w *writer) take(s *space, n uint32) (uint32, error) {
	row, err := s.take(n)
	if err == nil {
		w.undo.Push(func() error {
			s.free(row, n)
			return nil
		})
	}
	return row, err
}

// now is the clock of programs.
func now() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // it cannot fail with this clock
	return time.Duration(t.Nano())
}

// meters writes those that are new or have other rates: these have what is left of their buckets.
func (w *writer) meters() error {
	w.is.Meters = map[uint32]uint32{}
	for _, m := range w.s.Meters {
		var is meter
		var err error
		for i, r := range []Rate{m.Up, m.Down} {
			if is.Limit[i], err = r.limit(); err != nil {
				return fmt.Errorf("meter %d: %w", m.ID, err)
			}
		}
		if w.was != nil {
			if row, ok := w.was.Meters[m.ID]; ok {
				before := &w.t.meters.values[row]
				if before.Limit == is.Limit {
					w.is.Meters[m.ID] = row
					continue
				}
				for i := range is.Bucket {
					is.Bucket[i] = before.Limit[i].Moved(atomic.LoadUint64(&before.Bucket[i]), is.Limit[i], now())
				}
			}
		}
		row, err := w.take(w.t.meters.space, 1)
		if err != nil {
			return err
		}
		w.t.meters.values[row] = is
		w.is.Meters[m.ID] = row
	}
	return nil
}

// Bursts: what a rate carries in 100 ms, but at least two packets of the largest size.
const (
	burst      = 100 * time.Millisecond
	leastBurst = 2 * 65536
)

// limit returns the limit of a rate.
func (r Rate) limit() (bucket.Limit, error) {
	switch {
	case r.Closed:
		return bucket.Limit{}, nil
	case !r.Limited:
		return bucket.Unlimited, nil
	}
	bytes := max(r.BitsPerSecond/8, 1)
	return bucket.New(bytes, time.Second, uint32(min(max(bytes/uint64(time.Second/burst), leastBurst), 1<<31)))
}

// usages writes those that are new, and gives others their limits.
func (w *writer) usages() error {
	w.is.Usages = map[uint32]uint32{}
	for _, u := range w.s.Usages {
		if w.was != nil {
			if row, ok := w.was.Usages[u.ID]; ok {
				w.is.Usages[u.ID] = row
				w.after = append(w.after, func() { w.t.usages.values[row].watch(&u) })
				continue
			}
		}
		row, err := w.take(w.t.usages.space, 1)
		if err != nil {
			return err
		}
		is := &w.t.usages.values[row]
		*is = usage{}
		is.watch(&u)
		w.is.Usages[u.ID] = row
	}
	return nil
}

// watch gives a usage its limits, and has it tell of the first packet.
func (u *usage) watch(is *Usage) {
	u.arm(is.Threshold, is.Quota)
	if is.Start {
		atomic.OrUint32(&u.Watches, watchStart)
	}
}

// queues gives a row to each rule whose packets wait, and keeps those of rules whose packets have waited: newer ones follow them.
func (w *writer) queues() error {
	w.is.Queues = map[uint16]uint32{}
	for i := range w.s.Rules {
		r := &w.s.Rules[i]
		row, had := uint32(0), false
		if w.was != nil {
			row, had = w.was.Queues[r.ID]
		}
		if !had {
			if r.Forward.Action != Wait {
				continue
			}
			var err error
			if row, err = w.take(w.t.queues.space, 1); err != nil {
				return err
			}
		}
		w.is.Queues[r.ID] = row
		q, action := &w.t.queues.values[row], r.Forward.Action
		state := map[Action]uint32{Drop: discard, Pass: release, Wait: hold}[action]
		w.after = append(w.after, func() { q.set(state) })
		if action == Wait {
			was := atomic.LoadUint32(&q.State)
			w.undo.Push(func() error {
				q.set(was)
				return nil
			})
			q.set(hold) // before the first packet waits
		}
	}
	return nil
}

// redirects writes the URLs of rules, and keeps the rows of those that stay.
func (w *writer) redirects() error {
	w.is.Redirects = map[uint16]uint32{}
	for i := range w.s.Rules {
		r := &w.s.Rules[i]
		if r.Forward.Redirect == "" {
			continue
		}
		is := redirectTo(r.Forward.Redirect)
		if w.was != nil {
			if row, ok := w.was.Redirects[r.ID]; ok && w.t.urls.values[row] == is {
				w.is.Redirects[r.ID] = row
				continue
			}
		}
		row, err := w.take(w.t.urls.space, 1)
		if err != nil {
			return err
		}
		w.t.urls.values[row] = is
		w.is.Redirects[r.ID] = row
	}
	return nil
}

// set says what happens to packets that wait. Once they are held, the next one makes a notice again.
func (q *queue) set(state uint32) {
	if was := atomic.SwapUint32(&q.State, state); state == hold && was != hold {
		atomic.StoreUint32(&q.Told, 0)
	}
}

// rules writes the rows of the rules, one after the other.
func (w *writer) rules() error {
	n := uint32(len(w.s.Rules))
	first, err := w.take(w.t.rules.space, n)
	if err != nil {
		return err
	}
	w.is.Block, w.is.Size = first, n
	for i := range w.s.Rules {
		r := &w.s.Rules[i]
		is := rule{Index: indexOf(i, r.Forward.Instance), TEID: r.Forward.TEID, Action: uint8(r.Forward.Action), QFI: r.Forward.QFI, DSCP: r.Forward.DSCP, Queue: w.is.Queues[r.ID]}
		for flag, set := range map[uint8]bool{flagNotify: r.Forward.Notify, flagTunnel: r.Forward.Peer.IsValid(), flagIPv6: r.Forward.Peer.Is6(), flagMark: r.Forward.Mark,
			flagGuaranteed: r.Forward.Guaranteed, flagRedirects: r.Forward.Redirect != ""} {
			if set {
				is.Flags |= flag
			}
		}
		if r.Forward.Redirect != "" {
			is.TEID = w.is.Redirects[r.ID]
		}
		if r.Forward.Peer.IsValid() {
			is.Peer = inet.AddressOf(r.Forward.Peer)
		}
		if err := rowsOf(is.Meters[:], r.Meters, w.is.Meters, "meter"); err != nil {
			return fmt.Errorf("rule %d: %w", r.ID, err)
		}
		if err := rowsOf(is.Usages[:], r.Usages, w.is.Usages, "usage"); err != nil {
			return fmt.Errorf("rule %d: %w", r.ID, err)
		}
		w.t.rules.values[first+uint32(i)] = is
	}
	return nil
}

// rowsOf looks up rows by their IDs.
func rowsOf(to []uint32, ids []uint32, rows map[uint32]uint32, what string) error {
	for i, id := range ids {
		row, ok := rows[id]
		if !ok {
			return fmt.Errorf("%s %d: %w", what, id, cube.ErrNotFound)
		}
		to[i] = row
	}
	return nil
}

// ways says how packets find the rules.
func (w *writer) ways() error {
	by := map[TunnelKey][]int{}
	var order []TunnelKey
	for i := range w.s.Rules {
		var key TunnelKey // 0: the device's addresses
		if r := &w.s.Rules[i]; r.TEID != 0 {
			key = keyOfTunnel(r.Instance, r.TEID)
		}
		if by[key] == nil {
			order = append(order, key)
		}
		by[key] = append(by[key], i)
	}
	w.is.Tunnels = map[TunnelKey]Way{}
	for _, key := range order {
		way, err := w.way(by[key])
		switch {
		case err != nil && key == 0:
			return fmt.Errorf("rules of the device's addresses: %w", err)
		case err != nil:
			return fmt.Errorf("rules of %s: %w", key, err)
		case key == 0:
			w.is.Device, w.is.Routes = &way, w.s.Routes
		default:
			w.is.Tunnels[key] = way
		}
	}
	return nil
}

// way is that to some of the rules, by their indices.
func (w *writer) way(of []int) (Way, error) {
	first := &w.s.Rules[of[0]]
	is := Way{Rule: w.is.Block + uint32(of[0]), FromNetwork: first.FromNetwork}
	var flows []sdf.Flow
	var values []uint32
	for _, i := range of {
		r := &w.s.Rules[i]
		if r.FromNetwork != is.FromNetwork {
			return is, fmt.Errorf("rules %d and %d differ in the direction of their packets: %w", first.ID, r.ID, cube.ErrInvalid)
		}
		each := r.Flows
		if len(each) == 0 {
			each = []sdf.Flow{{}}
		}
		for _, f := range each {
			flows, values = append(flows, f), append(values, uint32(i))
		}
	}
	if len(of) == 1 && len(first.Flows) == 0 {
		return is, nil
	}
	l, err := sdf.NewList(flows, values)
	if err != nil {
		return is, err
	}
	is.Rule = w.is.Block
	is.List, err = w.t.lists.Take(*l)
	if err == nil {
		w.undo.Push(func() error { return w.t.lists.Drop([]sdf.List{*l}) })
	}
	return is, err
}

// peers counts the other ends of tunnels.
func (w *writer) peers() error {
	seen := map[netip.Addr]bool{}
	for i := range w.s.Rules {
		f := &w.s.Rules[i].Forward
		peer := f.Peer
		if !peer.IsValid() || seen[peer] {
			continue
		}
		seen[peer] = true
		if err := w.t.peer(peer, f.Instance); err != nil {
			return err
		}
		w.undo.Push(func() error {
			w.t.unpeer(peer)
			return nil
		})
		w.is.Peers = append(w.is.Peers, peer)
	}
	return nil
}
