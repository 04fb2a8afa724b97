// SPDX-License-Identifier: Apache-2.0

package router

// The routes of all origins, and which of them packets use. The cost of a change is proportional to the change.

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// origin is the source of a route; lower ones are preferred.
type origin uint8

const (
	connected origin = iota
	static
	learned
)

// String returns the word used in messages.
func (o origin) String() string { return [...]string{"connected", "static", "learned"}[o] }

// route is a route to a prefix.
type route struct {
	target
	origin origin
	cost   uint32
	// hidden routes are not listed: host routes of single addresses.
	hidden   bool
	protocol string // learned
}

// same reports whether two routes are the same entry of the table, whatever their metric.
func (r route) same(s route) bool { return r.target == s.target && r.origin == s.origin }

// ribChange is a route that is added or removed.
type ribChange struct {
	prefix netip.Prefix
	route
	gone bool
}

// destination contains the routes of a prefix.
type destination struct {
	routes    []route
	installed bool
	hop       uint32
}

// rib is the routing information base.
type rib struct {
	trie    *trie
	routes6 table.Table[prefix6, uint32]
	fib4    fib4
	hops    *hops
	table   map[netip.Prefix]*destination
	// listed contains the prefixes with a route that is not configured.
	listed map[netip.Prefix]bool
	// earlier contains the IPv6 routes of a previous run of the cube that nothing has requested yet; hops4 and
	// chunks4 are used by its IPv4 routes, all of which are replaced at once.
	earlier        map[netip.Prefix]uint32
	hops4, chunks4 map[uint32]bool
	// down contains the ports that cannot be used: packets do not use their routes.
	down map[uint16]bool
	// limit is the maximum number of prefixes of a family, count the current number.
	limit int
	count [2]int
}

func newRib(h *hops, t tables) *rib {
	r := &rib{hops: h, routes6: t.routes6, fib4: t.fib4, table: map[netip.Prefix]*destination{}, listed: map[netip.Prefix]bool{},
		earlier: map[netip.Prefix]uint32{}, trie: newTrie()}
	r.trie.store = t.fib4
	return r
}

// adopt takes over the maps of a previous run of the cube: its routes stay in use until sweep.
func (r *rib) adopt() error {
	used := map[uint32]int{}
	var err error
	if r.chunks4, r.hops4, err = r.fib4.used(); err != nil {
		return err
	}
	for id := range r.hops4 {
		used[id]++
	}
	r.trie.ids.claim(r.chunks4)
	r.trie.held = len(r.hops4) > 0
	for p, id := range r.routes6.All(&err) {
		r.earlier[p.prefix()] = id
		used[id]++
	}
	if err != nil {
		return err
	}
	return r.hops.begin(used)
}

// sweep removes the remaining routes of a previous run of the cube.
func (r *rib) sweep() error {
	var gone []prefix6
	for p := range r.earlier {
		gone = append(gone, prefix6Of(p))
	}
	if _, err := r.routes6.DeleteAll(gone); err != nil {
		return err
	}
	for _, id := range r.earlier {
		r.hops.release(id)
	}
	clear(r.earlier)
	if !r.trie.held {
		return nil
	}
	if err := r.trie.release(); err != nil {
		r.trie.held = true
		return err
	}
	for id := range r.hops4 {
		r.hops.release(id)
	}
	for n := range r.chunks4 {
		r.trie.ids.give(n)
	}
	r.hops4, r.chunks4 = nil, nil
	return nil
}

func family(p netip.Prefix) int {
	if p.Addr().Is4() {
		return 0
	}
	return 1
}

// compare orders routes to one prefix: the lowest ones are used.
func (r route) compare(s route) int {
	return cmp.Or(cmp.Compare(r.origin, s.origin), cmp.Compare(r.cost, s.cost))
}

// isDown reports whether a target is behind a port that cannot be used.
func (r *rib) isDown(t target) bool { return t.kind == kindUnicast && r.down[t.port] }

// bestRoutes returns the routes to a destination that are used.
func (r *rib) bestRoutes(d *destination) (best []route) {
	for _, is := range d.routes {
		if r.isDown(is.target) || len(best) > 0 && best[0].compare(is) < 0 {
			continue
		}
		if len(best) > 0 && best[0].compare(is) > 0 {
			best = best[:0]
		}
		best = append(best, is)
	}
	for _, is := range best {
		if is.kind != kindUnicast { // routes without a target cannot share
			return []route{is}
		}
	}
	return best
}

// best returns the targets of the routes that are used, in a fixed order.
func (r *rib) best(d *destination) []target {
	routes := r.bestRoutes(d)
	out := make([]target, 0, len(routes))
	for _, is := range routes {
		out = append(out, is.target)
	}
	slices.SortFunc(out, func(a, b target) int {
		return cmp.Or(a.gateway.Compare(b.gateway), cmp.Compare(a.port, b.port))
	})
	return slices.Compact(out)
}

// uses reports whether packets use a route to the destination.
func (r *rib) uses(d *destination, is route) bool {
	return slices.ContainsFunc(r.bestRoutes(d), is.same)
}

// has reports whether a route exists.
func (r *rib) has(p netip.Prefix, is route) bool {
	d := r.table[p]
	return d != nil && slices.ContainsFunc(d.routes, is.same)
}

// lookup finds the longest matching prefix of an address and the targets of a packet to it: one of them.
func (r *rib) lookup(a netip.Addr) (t target, ok bool) {
	for bits := a.BitLen(); bits >= 0; bits-- {
		p, err := a.Prefix(bits)
		if err != nil {
			return target{}, false
		}
		if d := r.table[p]; d != nil {
			if best := r.best(d); len(best) > 0 {
				return best[0], true
			}
		}
	}
	return target{}, false
}

// apply changes routes, all or none. The returned function undoes it.
func (r *rib) apply(changes []ribChange) (undo func() error, err error) {
	return r.follow(r.down, changes)
}

// follow changes routes, and which ports cannot be used, all or none. The returned function undoes it.
func (r *rib) follow(down map[uint16]bool, changes []ribChange) (undo func() error, err error) {
	touched, was := r.behind(down), r.down
	if len(touched) > 0 {
		if err := r.hops.avoid(down); err != nil {
			return nil, errors.Join(err, r.hops.avoid(was))
		}
	}
	r.down = down
	seen := make(map[netip.Prefix]bool, len(touched)+len(changes))
	for _, p := range touched {
		seen[p] = true
	}
	done := make([]ribChange, 0, len(changes))
	for _, c := range changes {
		if back, ok := r.change(c); ok {
			done = append(done, back)
		}
		if !seen[c.prefix] {
			seen[c.prefix] = true
			touched = append(touched, c.prefix)
		}
	}
	err = r.install(touched)
	slices.Reverse(done)
	if err != nil {
		if r.down = was; len(touched) > 0 {
			err = errors.Join(err, r.hops.avoid(was))
		}
		for _, c := range done {
			r.change(c)
		}
	}
	for _, p := range touched {
		r.removeEmpty(p)
	}
	if err != nil {
		return nil, err
	}
	return func() error {
		_, err := r.follow(was, done)
		return err
	}, nil
}

// behind returns the prefixes with a route through a port that went down or came up.
func (r *rib) behind(down map[uint16]bool) (out []netip.Prefix) {
	if maps.Equal(r.down, down) {
		return nil
	}
	for p, d := range r.table {
		if slices.ContainsFunc(d.routes, func(is route) bool {
			return is.kind == kindUnicast && r.down[is.port] != down[is.port]
		}) {
			out = append(out, p)
		}
	}
	return out
}

// change changes only the table, and returns its undo; false if there is nothing to change.
func (r *rib) change(c ribChange) (back ribChange, changed bool) {
	d := r.table[c.prefix]
	if d == nil {
		if c.gone {
			return ribChange{}, false
		}
		d = &destination{}
		d.hop, d.installed = r.earlier[c.prefix]
		delete(r.earlier, c.prefix)
		r.table[c.prefix] = d
	}
	before := len(d.routes)
	i := slices.IndexFunc(d.routes, c.same)
	switch {
	case i >= 0 && c.gone:
		back, changed = ribChange{prefix: c.prefix, route: d.routes[i]}, true
		d.routes = slices.Delete(d.routes, i, i+1)
	case i >= 0:
		back, changed = ribChange{prefix: c.prefix, route: d.routes[i]}, d.routes[i] != c.route
		d.routes[i] = c.route
	case !c.gone:
		back, changed = ribChange{prefix: c.prefix, route: c.route, gone: true}, true
		d.routes = append(d.routes, c.route)
	}
	r.count[family(c.prefix)] += min(1, len(d.routes)) - min(1, before)
	r.index(c.prefix, d)
	return back, changed
}

// removeEmpty removes a prefix without routes.
func (r *rib) removeEmpty(p netip.Prefix) {
	d := r.table[p]
	if d == nil || len(d.routes) > 0 {
		return
	}
	if d.installed { // adopted for a change that failed
		r.earlier[p] = d.hop
	}
	delete(r.table, p)
}

// index maintains the sets of prefixes that are shown in addition to the configured ones.
func (r *rib) index(p netip.Prefix, d *destination) {
	mark := func(set map[netip.Prefix]bool, is bool) {
		if is {
			set[p] = true
		} else {
			delete(set, p)
		}
	}
	mark(r.listed, slices.ContainsFunc(d.routes, func(o route) bool { return o.origin != static && !o.hidden }))
}

// step is a change of a prefix in the fast path: from was to is.
type step struct {
	prefix  netip.Prefix
	d       *destination
	was, is installation
}

// installation is a prefix in the fast path.
type installation struct {
	installed bool
	hop       uint32
}

// install updates the fast path to the table for some prefixes, or leaves it unchanged. Next hops of new routes are
// written before them, and removed after them.
func (r *rib) install(touched []netip.Prefix) error {
	for f, n := range r.count {
		if n > r.limit && slices.ContainsFunc(touched, func(p netip.Prefix) bool { return family(p) == f }) {
			return fmt.Errorf("%d prefixes, with those of the router's own addresses, but max-routes is %d: %w", n, r.limit, cube.ErrFull)
		}
	}
	steps, err := r.plan(touched)
	if err != nil {
		return err
	}
	if err := r.write(steps); err != nil {
		for i := range steps {
			steps[i].was, steps[i].is = steps[i].is, steps[i].was
		}
		err = errors.Join(err, r.write(steps))
		for i := range steps {
			steps[i].is = steps[i].was
		}
		r.abandon(steps)
		return err
	}
	for _, s := range steps {
		if s.was.installed {
			r.hops.release(s.was.hop)
		}
	}
	return nil
}

// plan acquires the next hops of prefixes.
func (r *rib) plan(touched []netip.Prefix) ([]step, error) {
	steps := make([]step, 0, len(touched))
	for _, p := range touched {
		d := r.table[p]
		if d == nil {
			continue
		}
		best := r.best(d)
		s := step{prefix: p, d: d, was: installation{d.installed, d.hop}, is: installation{installed: len(best) > 0}}
		var err error
		if s.is.hop, err = r.hops.acquire(best); err != nil {
			r.abandon(steps)
			return nil, fmt.Errorf("route %s: %w", p, err)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// abandon releases what plan acquired.
func (r *rib) abandon(steps []step) {
	for _, s := range steps {
		r.hops.release(s.is.hop)
	}
}

// write carries out steps.
func (r *rib) write(steps []step) error {
	for _, s := range steps {
		s.d.installed, s.d.hop = s.is.installed, s.is.hop
	}
	var set, gone []prefix6
	var hops []uint32
	for _, s := range steps {
		six := s.prefix.Addr().Is6()
		switch {
		case s.is == s.was:
		case six && s.is.installed:
			set, hops = append(set, prefix6Of(s.prefix)), append(hops, s.is.hop)
		case six:
			gone = append(gone, prefix6Of(s.prefix))
		case s.is.installed:
			if err := r.trie.set(s.prefix, s.is.hop); err != nil {
				return err
			}
		default:
			parent, hop := r.parent(s.prefix)
			r.trie.unset(s.prefix, parent, hop)
		}
	}
	if err := r.trie.flush(); err != nil {
		return err
	}
	if _, err := r.routes6.SetAll(set, hops); err != nil {
		return err
	}
	_, err := r.routes6.DeleteAll(gone)
	return err
}

// parent returns the next shorter installed prefix, and its next hop.
func (r *rib) parent(p netip.Prefix) (netip.Prefix, uint32) {
	for bits := p.Bits() - 1; bits > 0; bits-- {
		shorter := netip.PrefixFrom(p.Addr(), bits).Masked()
		if d := r.table[shorter]; d != nil && d.installed {
			return shorter, d.hop
		}
	}
	return netip.Prefix{}, 0
}
