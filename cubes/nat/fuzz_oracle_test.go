// SPDX-License-Identifier: Apache-2.0

package nat

// The expected behaviour of the NAT: rules, sessions and external endpoints according to the README and the RFCs, in
// plain maps and one packet at a time. The NAT chooses among several free ports; the oracle learns the choice from the
// packet and reports whether the port was free.

import (
	"fmt"
	"net/netip"
)

func (e endpoint) String() string { return netip.AddrPortFrom(e.addr, e.port).String() }

func (p pair) String() string { return fmt.Sprintf("%v > %v protocol %d", p.local, p.remote, p.proto) }

func (c claim) String() string { return fmt.Sprintf("%v protocol %d", c.endpoint, c.proto) }

// pair is a session's key on one side: the end that is translated, the other one, and the protocol.
type pair struct {
	local, remote endpoint
	proto         uint8
}

// claim is an endpoint in use by a mapping.
type claim struct {
	endpoint
	proto uint8
}

// permit records that an endpoint has sent to an address (address-dependent filtering).
type permit struct {
	claim
	to netip.Addr
}

// count is the packets and flags of a session in one direction.
type count struct{ packets, bytes uint64 }

// flow is a session.
type flow struct {
	pair     // the inside form
	external endpoint
	mapped   bool // packets from outside find it through its mapping
	turns    bool
	rule     uint32
	origin   origin
	out, in  count
}

// outside is the key of a session as seen outside.
func (f *flow) outside() pair { return pair{f.external, f.remote, f.proto} }

// mapping is the external endpoint of an internal one for all its remotes.
type mapping struct {
	internal claim
	external endpoint
	rule     uint32
	origin   origin
}

// datagram is one of which the first fragment went by.
type datagram struct {
	local, remote netip.Addr
	id            uint32
	proto         uint8
	in            bool
}

// note is the result of that fragment.
type note struct {
	to    netip.Addr
	turns bool
}

// sessionTable contains the sessions of one family, with its capacity.
type sessionTable struct {
	egress, ingress int // maximum number of entries
	flows           map[pair]*flow
	alone           map[pair]*flow // those without a mapping, by their external form
	mappings        map[claim]*mapping
	claimed         map[claim]*mapping // by the external endpoint
	permits         map[permit]bool
}

func newTable(egress, ingress int) *sessionTable {
	t := &sessionTable{egress: egress, ingress: ingress}
	t.clear()
	return t
}

func (t *sessionTable) clear() {
	t.flows, t.alone, t.permits = map[pair]*flow{}, map[pair]*flow{}, map[permit]bool{}
	t.mappings, t.claimed = map[claim]*mapping{}, map[claim]*mapping{}
}

// room reports whether that many entries still fit.
func (t *sessionTable) room(egress, ingress int) bool {
	return len(t.flows)+len(t.mappings)+len(t.permits)+egress <= t.egress && len(t.claimed)+len(t.alone)+ingress <= t.ingress
}

// translation finds the session of a packet from outside, nil if there is none.
func (t *sessionTable) translation(k pair, sources bool) *flow {
	if m := t.claimed[claim{k.local, k.proto}]; m != nil && sources {
		if f := t.flows[pair{m.internal.endpoint, k.remote, k.proto}]; f != nil && f.mapped {
			return f
		}
	}
	return t.alone[k]
}

// permitted reports whether a mapping has sent to an address. ICMP queries, which have no port, are matched by their
// session only.
func (t *sessionTable) permitted(m *mapping, from endpoint) bool {
	toPort0 := t.flows[pair{m.internal.endpoint, endpoint{addr: from.addr}, m.internal.proto}] // there is no other permit of it
	return from.port != 0 && (t.permits[permit{m.internal, from.addr}] || toPort0 != nil)
}

// forget ends a session.
func (t *sessionTable) forget(f *flow) {
	delete(t.flows, f.pair)
	if !f.mapped {
		delete(t.alone, f.outside())
	}
}

// sweep ends the mappings and permits that no session uses.
func (t *sessionTable) sweep() {
	used, sent := map[claim]bool{}, map[permit]bool{}
	for _, f := range t.flows {
		c := claim{f.local, f.proto}
		used[c], sent[permit{c, f.remote.addr}] = true, true
	}
	for c, m := range t.mappings {
		if !used[c] {
			delete(t.mappings, c)
			delete(t.claimed, claim{m.external, c.proto})
		}
	}
	for p := range t.permits {
		if !sent[p] {
			delete(t.permits, p)
		}
	}
}

// The counters, by the order of enum nat_counter.
const (
	createdTCP uint32 = iota
	createdUDP
	createdICMP
	createdOther
	madeMappings
	exhausted
	tableFull
	collisions
	hairpinned
	fragments
	icmpErrors
)

var counterNames = [...]string{"created-tcp", "created-udp", "created-icmp", "created-other", "mappings", "exhausted", "table-full",
	"collisions", "hairpinned", "fragments", "icmp-errors"}

// oracle knows the configuration and the packets.
type oracle struct {
	behaviour Behaviour
	ruled     rulebook
	v4, v6    *sessionTable
	notes     map[datagram]note
	// hosts are the addresses of pools that hosts got: a host has one for everything.
	hosts map[netip.Prefix]map[netip.Addr]netip.Addr
	// loose says that there is a mapping without a session: a sweep removes it.
	loose bool
	// counted are the counters of the fast path, but for collisions.
	counted [icmpErrors + 1]uint64
}

func newOracle(sessions int) *oracle {
	return &oracle{v4: newTable(2*sessions, sessions), v6: newTable(sessions/2, sessions/4), notes: map[datagram]note{},
		hosts: map[netip.Prefix]map[netip.Addr]netip.Addr{}, ruled: newRulebook()}
}

func (o *oracle) tableOf(a netip.Addr) *sessionTable {
	if a.Is4() {
		return o.v4
	}
	return o.v6
}

// ruling is the required result for a packet. One of drop, same, to, opens and sender is set.
type ruling struct {
	drop  string   // the reason
	same  bool     // it passes unchanged
	to    endpoint // the translation of its local end
	turns bool
	flow  *flow    // its session, which counts it
	opens *opening // the local end gets an endpoint that is still to be chosen
	// sender is for an ICMP error without a session, of which only the address is translated, to one that is still
	// to be chosen.
	sender *opening
}

// opening is a session to be opened from inside.
type opening struct {
	pair
	translator
	own, fixed, alone, turns bool
	refused                  string   // the drop reason if there is no port or no room
	perhaps                  []string // reasons that depend on which endpoint is chosen
}

var untouched = ruling{same: true}

// isExempt reports whether an address is link-local or invalid.
func isExempt(a netip.Addr) bool {
	return a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() && a.Is6() || a.IsLoopback() && a.Is6() ||
		a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// hides returns the rule that hides an inside address from a remote one, if there is one.
func (o *oracle) hides(local, remote netip.Addr) (translator, bool) {
	from, ok := o.ruled.source(local)
	return from, ok && !isExempt(local) && !isExempt(remote) && !from.external.Contains(local)
}

// rule returns the required result for a packet.
func (o *oracle) rule(s *sight, in bool) ruling {
	if !o.ruled.sources() && !o.ruled.destinations() {
		return untouched
	}
	switch s.look {
	case foreign, neighbourly:
		return untouched
	case broken:
		return ruling{drop: "malformed"}
	case laterPiece:
		return o.piece(s, in)
	case failure:
		return o.failure(s, in)
	}
	local, remote := s.sides(in)
	k := pair{local, remote, s.proto}
	if in {
		return o.incoming(s, k)
	}
	return o.outgoing(s, k)
}

// piece is rule for a fragment without ports.
func (o *oracle) piece(s *sight, in bool) ruling {
	local, remote := s.sides(in)
	if n, ok := o.notes[datagram{local.addr, remote.addr, s.id, s.proto, in}]; ok {
		o.counted[fragments]++
		return ruling{to: endpoint{addr: n.to}, turns: n.turns && !in && o.behaviour.Hairpin}
	}
	if _, forwarded := o.ruled.host(local.addr); in && forwarded && !isExempt(local.addr) && !isExempt(remote.addr) {
		return ruling{drop: "fragment-without-first"}
	}
	if _, hidden := o.hides(local.addr, remote.addr); !in && hidden {
		return ruling{drop: "fragment-without-first"}
	}
	return untouched
}

// failure is rule for an ICMP error: the packet inside went in the other direction.
func (o *oracle) failure(s *sight, in bool) ruling {
	local, remote := s.inner.sides(!in)
	if s.inner.look != broken {
		k, t := pair{local, remote, s.inner.proto}, o.tableOf(local.addr)
		if f := t.flows[k]; f != nil && !in {
			o.counted[icmpErrors]++
			return ruling{to: f.external, turns: f.turns && o.behaviour.Hairpin}
		}
		if f := t.translation(k, o.ruled.sources()); f != nil && in {
			o.counted[icmpErrors]++
			return ruling{to: f.local}
		}
	}
	if in {
		return untouched
	}
	if _, hidden := o.hides(local.addr, remote.addr); hidden {
		return ruling{drop: "icmp-unrelated"}
	}
	if from, hidden := o.hides(s.from.addr, s.to.addr); hidden { // an internal router, about an untranslated packet
		return ruling{sender: &opening{pair: pair{local: s.from}, translator: from}}
	}
	return untouched
}

// outgoing is rule for a packet from inside.
func (o *oracle) outgoing(s *sight, k pair) ruling {
	t := o.tableOf(k.local.addr)
	if f := t.flows[k]; f != nil && s.look != otherICMP {
		return ruling{to: f.external, turns: f.turns && o.behaviour.Hairpin, flow: f}
	}
	if m := t.mappings[claim{k.local, k.proto}]; m != nil && k.remote.port == 0 && s.look != otherICMP &&
		(k.remote.addr.IsUnspecified() || t.permits[permit{m.internal, k.remote.addr}]) {
		// With the unspecified address or port 0, the key is that of the mapping or permit itself. It gives no
		// information.
		return ruling{to: m.external}
	}
	from, ok := o.ruled.source(k.local.addr)
	if !ok || isExempt(k.local.addr) || isExempt(k.remote.addr) {
		return untouched
	}
	p := &opening{pair: k, translator: from, own: from.external.Contains(k.local.addr)}
	if s.look == portless || s.look == otherICMP {
		switch {
		case p.own || o.behaviour.OtherProtocols == otherPass:
			return untouched
		case s.look == otherICMP || o.behaviour.OtherProtocols == otherDrop:
			return ruling{drop: "protocol"}
		}
	}
	if s.look == ported && s.tcp&4 != 0 {
		if p.own {
			return untouched
		}
		return ruling{drop: "no-session"}
	}
	p.fixed = s.look == unchanging || s.look == portless
	p.alone = p.fixed || p.own || o.behaviour.Mapping == mapDependent
	p.turns = !p.own && o.behaviour.Hairpin && o.isHairpin(s, k)
	o.choices(p)
	return ruling{opens: p, turns: p.turns}
}

// isHairpin reports whether a packet from inside goes to an external endpoint of another internal host.
func (o *oracle) isHairpin(s *sight, k pair) bool {
	if _, ok := o.ruled.destination(k.remote, k.proto); ok {
		return true
	}
	return (s.look == ported || s.look == unchanging) && o.behaviour.Mapping == mapIndependent &&
		o.tableOf(k.remote.addr).claimed[claim{k.remote, k.proto}] != nil
}

// incoming is rule for a packet from outside.
func (o *oracle) incoming(s *sight, k pair) ruling {
	t := o.tableOf(k.local.addr)
	if f := t.translation(k, o.ruled.sources()); f != nil && s.look != otherICMP {
		return ruling{to: f.local, flow: f}
	}
	if d, ok := o.ruled.destination(k.local, k.proto); ok && !isExempt(k.remote.addr) {
		if r := o.forwarded(s, k, d); !r.same {
			return r
		}
	}
	if !o.ruled.sources() || o.behaviour.Mapping != mapIndependent || s.look != ported && s.look != query {
		return untouched
	}
	m := t.claimed[claim{k.local, k.proto}]
	switch {
	case m == nil:
		return untouched
	case o.behaviour.Filtering == filterBoth, isExempt(k.remote.addr), o.behaviour.Filtering == filterAddress && !t.permitted(m, k.remote):
		return ruling{drop: "filtered"}
	}
	return o.accept(s, k, &flow{pair: pair{m.internal.endpoint, k.remote, k.proto}, external: k.local, mapped: true, rule: m.rule, origin: m.origin})
}

// forwarded is incoming for a packet that a rule forwards to an internal host.
func (o *oracle) forwarded(s *sight, k pair, d director) ruling {
	if s.look == portless || s.look == otherICMP {
		switch {
		case o.behaviour.OtherProtocols == otherPass:
			return untouched
		case s.look == otherICMP || o.behaviour.OtherProtocols == otherDrop:
			return ruling{drop: "protocol"}
		}
	}
	to := d.leads(k.local)
	if s.look == unchanging && to.port != k.local.port {
		return ruling{drop: "protocol"}
	}
	return o.accept(s, k, &flow{pair: pair{to, k.remote, k.proto}, external: k.local, rule: d.id, origin: d.origin})
}

// accept opens a session from outside.
func (o *oracle) accept(s *sight, k pair, f *flow) ruling {
	t := o.tableOf(k.local.addr)
	switch {
	case s.look == ported && s.tcp&4 != 0:
		return ruling{drop: "no-session"}
	case t.flows[f.pair] != nil && (f.mapped || t.room(0, 1)):
		return ruling{drop: "endpoint-taken"}
	case !f.mapped && !t.room(1, 1), !t.room(1, 0):
		o.counted[tableFull]++
		return ruling{drop: "session-table-full"}
	}
	turned := pair{k.remote, k.local, k.proto}
	if s.isICMP() {
		turned.local.port, turned.remote.port = k.local.port, 0
	}
	f.turns = o.behaviour.Hairpin && o.ruled.sources() && t.translation(turned, true) != nil
	o.open(f)
	return ruling{to: f.local, flow: f}
}

// open adds a session.
func (o *oracle) open(f *flow) {
	t := o.tableOf(f.local.addr)
	t.flows[f.pair] = f
	if !f.mapped {
		t.alone[f.outside()] = f
	}
	o.counted[createdTCP+uint32(kindOf(f.proto))]++
}

// seen counts a packet that was ruled on, and records what its other fragments need.
func (o *oracle) seen(s *sight, in bool, size int, f *flow, to endpoint, turns bool) {
	if f == nil {
		return
	}
	c := &f.out
	if in {
		c = &f.in
	}
	c.packets++
	c.bytes += uint64(size)
	if s.first {
		local, remote := s.sides(in)
		o.notes[datagram{local.addr, remote.addr, s.id, s.proto, in}] = note{to.addr, turns}
	}
}
