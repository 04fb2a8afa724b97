// SPDX-License-Identifier: Apache-2.0

package nat

// The oracle's rules, and which external endpoints they let a new session have.

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// The values of Behaviour.
const (
	mapIndependent, mapDependent          Mapping        = 0, 1
	filterNone, filterAddress, filterBoth Filtering      = 0, 1, 2
	otherDrop, otherPass, otherTranslate  OtherProtocols = 0, 1, 2
)

// translator is SNAT or masquerade.
type translator struct {
	id            uint32
	origin        origin
	net, external netip.Prefix
	first, last   uint16 // both 0: the usual ports
}

func (t translator) body() string {
	ports := ""
	if t.last != 0 {
		ports = fmt.Sprintf(`,"port-first":%d,"port-last":%d`, t.first, t.last)
	}
	return fmt.Sprintf(`{"internal-net":%q,"external-ip":%q%s}`, t.net, t.external, ports)
}

// director is DNAT or the forwarding of ports.
type director struct {
	id                 uint32
	origin             origin
	external, internal endpoint
	last               uint16 // of the external ports
	proto              Protocol
}

func (d director) body() string {
	if d.origin == originDnat {
		return fmt.Sprintf(`{"external-ip":%q,"internal-ip":%q}`, d.external.addr, d.internal.addr)
	}
	return fmt.Sprintf(`{"external-ip":%q,"external-port":%d,"external-port-last":%d,"proto":%q,"internal-ip":%q,"internal-port":%d}`,
		d.external.addr, d.external.port, d.last, protocolNames[d.proto], d.internal.addr, d.internal.port)
}

// takes reports whether the rule applies to packets to an endpoint.
func (d director) takes(to endpoint, proto uint8) bool {
	switch {
	case d.external.addr != to.addr:
		return false
	case d.origin == originDnat:
		return true
	}
	return d.external.port <= to.port && to.port <= d.last && (proto == unix.IPPROTO_TCP && d.proto != protoUDP || proto == unix.IPPROTO_UDP && d.proto != protoTCP)
}

// leads is where packets to an endpoint go.
func (d director) leads(to endpoint) endpoint {
	if d.origin == originDnat {
		return endpoint{d.internal.addr, to.port}
	}
	return endpoint{d.internal.addr, d.internal.port + (to.port - d.external.port)}
}

// rulebook contains the rules in effect.
type rulebook struct {
	snat          map[uint32]translator
	dnat, forward map[uint32]director
	masquerade    *translator // nil: it is off
	parent        [2]netip.Addr
}

func newRulebook() rulebook {
	return rulebook{snat: map[uint32]translator{}, dnat: map[uint32]director{}, forward: map[uint32]director{}}
}

func (b *rulebook) sources() bool      { return len(b.snat) > 0 || b.masquerade != nil }
func (b *rulebook) destinations() bool { return len(b.dnat)+len(b.forward) > 0 }

// source is the rule for new sessions of an address.
func (b *rulebook) source(a netip.Addr) (found translator, ok bool) {
	for _, t := range b.snat {
		if t.net.Contains(a) && (!ok || t.net.Bits() > found.net.Bits()) {
			found, ok = t, true
		}
	}
	if ok || b.masquerade == nil {
		return found, ok
	}
	for i, mine := range b.parent {
		if mine.IsValid() && a.Is4() == (i == 0) {
			m := *b.masquerade
			m.origin, m.external = originMasquerade, netip.PrefixFrom(mine, mine.BitLen())
			return m, true
		}
	}
	return found, false
}

// forwarded is the rule that forwards a port.
func (b *rulebook) forwarded(to endpoint, proto uint8) (found director, ok bool) {
	for _, d := range b.forward {
		if d.takes(to, proto) && (!ok || found.proto == protoAll) {
			found, ok = d, true
		}
	}
	return found, ok
}

// destination is the rule for new sessions to an endpoint.
func (b *rulebook) destination(to endpoint, proto uint8) (director, bool) {
	if d, ok := b.forwarded(to, proto); ok {
		return d, true
	}
	return b.host(to.addr)
}

// host is the rule for all of an address.
func (b *rulebook) host(a netip.Addr) (director, bool) {
	for _, d := range b.dnat {
		if d.external.addr == a {
			return d, true
		}
	}
	return director{}, false
}

// stands reports whether the rule of a session, or of a mapping, still translates the same way.
func (b *rulebook) stands(from origin, id uint32, internal, external endpoint, proto uint8) bool {
	switch from {
	case originSnat:
		t, ok := b.snat[id]
		return ok && t.net.Contains(internal.addr) && t.external.Contains(external.addr)
	case originMasquerade:
		return b.masquerade != nil && slices.Contains(b.parent[:], external.addr)
	case originDnat:
		d, ok := b.dnat[id]
		return ok && d.takes(external, proto) && d.leads(external) == internal
	}
	d, ok := b.forward[id]
	return ok && d.takes(external, proto) && d.leads(external) == internal
}

// revise ends sessions whose rule is gone, and mappings without a session.
func (o *oracle) revise() {
	o.loose = false
	for _, t := range []*sessionTable{o.v4, o.v6} {
		for _, f := range t.flows {
			if !o.ruled.stands(f.origin, f.rule, f.local, f.external, f.proto) {
				t.forget(f)
			}
		}
		for c, m := range t.mappings {
			if !o.ruled.stands(m.origin, m.rule, c.endpoint, m.external, c.proto) {
				delete(t.mappings, c)
				delete(t.claimed, claim{m.external, c.proto})
			}
		}
		t.sweep()
	}
}

// ports returns the ports that a session may have.
func (p *opening) ports() (first, last uint16) {
	switch mine := p.local.port; {
	case p.fixed:
		return mine, mine
	case p.last != 0:
		return p.first, p.last
	case p.proto == unix.IPPROTO_ICMP, p.proto == unix.IPPROTO_ICMPV6:
		return 0, 65535
	case mine < 1024:
		return 512, 1023
	}
	return 1024, 65535
}

// keeps reports whether a session may keep its internal port.
func (p *opening) keeps() bool {
	first, last := p.ports()
	return p.own || first <= p.local.port && p.local.port <= last
}

// addresses returns the addresses that a session may get.
func (o *oracle) addresses(p *opening) (all []netip.Addr) {
	if p.own {
		return []netip.Addr{p.local.addr}
	}
	if a, ok := o.hosts[p.external][p.local.addr]; ok {
		return []netip.Addr{a}
	}
	for a := p.external.Addr(); p.external.Contains(a); a = a.Next() {
		all = append(all, a)
	}
	return all
}

// free reports whether no other session has an external endpoint.
func (o *oracle) free(p *opening, at endpoint) bool {
	t := o.tableOf(at.addr)
	m := t.claimed[claim{at, p.proto}]
	if !p.alone {
		_, forwarded := o.ruled.forwarded(at, p.proto)
		return m == nil && !forwarded
	}
	k := pair{at, p.remote, p.proto}
	return t.alone[k] == nil && t.translation(k, true) == nil
}

// vacant reports whether an address has a port for a session. If there are more ports than probes, one is assumed to be
// found.
func (o *oracle) vacant(p *opening, a netip.Addr) bool {
	first, last := p.ports()
	if last-first >= tried || p.keeps() && o.free(p, endpoint{a, p.local.port}) {
		return true
	}
	for n := int(first); n <= int(last); n++ {
		if o.free(p, endpoint{a, uint16(n)}) {
			return true
		}
	}
	return false
}

// tried is the number of ports that the NAT tries.
const tried = 64

// choices determines what may prevent a session.
func (o *oracle) choices(p *opening) {
	t := o.tableOf(p.local.addr)
	if m := t.mappings[claim{p.local, p.proto}]; m != nil && !p.alone {
		switch taken := t.alone[pair{m.external, p.remote, p.proto}] != nil; {
		case !t.room(1, 0):
			p.refused = "session-table-full"
			return
		case !taken:
			return
		case !o.behaviour.Overload:
			p.refused = "endpoint-taken"
			return
		}
		p.alone, p.id, p.origin = true, m.rule, m.origin
		p.external = netip.PrefixFrom(m.external.addr, m.external.addr.BitLen())
	}
	vacant, all := 0, o.addresses(p)
	for _, a := range all {
		if o.vacant(p, a) {
			vacant++
		}
	}
	if vacant == 0 && !p.alone && o.behaviour.Overload {
		p.alone = true
		o.choices(p)
		return
	}
	why := "ports-exhausted"
	if p.fixed {
		why = "endpoint-taken"
	}
	entries := 2
	if p.alone {
		entries = 1
	}
	switch {
	case vacant == 0:
		p.refused = why
	case !t.room(entries, 1):
		p.refused = "session-table-full"
	case vacant < len(all):
		p.perhaps = []string{why}
	}
	for k := range t.alone { // one of these may have the endpoint that a mapping gets
		if p.alone || k.remote != p.remote || k.proto != p.proto || !slices.Contains(all, k.local.addr) {
			continue
		}
		if p.perhaps = append(p.perhaps, "endpoint-taken"); o.behaviour.Overload {
			p.perhaps = append(p.perhaps, "ports-exhausted", "session-table-full") // where another one is looked for
		}
		break
	}
}

// refuse reports whether a session had to be refused, and whether it left a mapping.
func (o *oracle) refuse(p *opening, why string) (left bool, err error) {
	if why != p.refused && !slices.Contains(p.perhaps, why) || why == "" {
		return false, fmt.Errorf("a new session is refused as %q, want %q, perhaps %q", why, p.refused, p.perhaps)
	}
	t := o.tableOf(p.local.addr)
	left = !p.alone && t.mappings[claim{p.local, p.proto}] == nil
	switch why {
	case "ports-exhausted":
		o.counted[exhausted]++
		return left && why != p.refused, nil
	case "session-table-full":
		o.counted[tableFull]++
		return left && t.room(1, 1), nil
	}
	return left, nil
}

// claim records a mapping, if the endpoint may have one.
func (o *oracle) claim(p *opening, at endpoint) (*mapping, error) {
	if err := o.suits(p, at); err != nil {
		return nil, err
	}
	t := o.tableOf(p.local.addr)
	m := &mapping{internal: claim{p.local, p.proto}, external: at, rule: p.id, origin: p.origin}
	t.mappings[m.internal], t.claimed[claim{at, p.proto}] = m, m
	o.counted[madeMappings]++
	o.paired(p, at.addr)
	return m, nil
}

// chosen records the external endpoint of a session, if it is permitted.
func (o *oracle) chosen(p *opening, at endpoint) (f *flow, err error) {
	t := o.tableOf(p.local.addr)
	m := t.mappings[claim{p.local, p.proto}]
	switch {
	case p.refused != "":
		return nil, fmt.Errorf("a session gets %v, want it refused as %s", at, p.refused)
	case p.alone:
		if err := o.suits(p, at); err != nil {
			return nil, err
		}
		o.paired(p, at.addr)
	case m == nil:
		if m, err = o.claim(p, at); err != nil {
			return nil, err
		}
	case m.external != at:
		return nil, fmt.Errorf("a session gets %v, but its endpoint has %v", at, m.external)
	}
	f = &flow{pair: p.pair, external: at, mapped: !p.alone, turns: p.turns, rule: p.id, origin: p.origin}
	o.open(f)
	if f.mapped {
		f.rule, f.origin = m.rule, m.origin
		if o.behaviour.Filtering == filterAddress && p.remote.port != 0 && t.room(1, 0) {
			t.permits[permit{m.internal, p.remote.addr}] = true
		}
	}
	return f, nil
}

// paired records the address of a host.
func (o *oracle) paired(p *opening, a netip.Addr) {
	if p.own {
		return
	}
	if o.hosts[p.external] == nil {
		o.hosts[p.external] = map[netip.Addr]netip.Addr{}
	}
	o.hosts[p.external][p.local.addr] = a
}

// suits returns why a session must not have an endpoint.
func (o *oracle) suits(p *opening, at endpoint) error {
	first, last := p.ports()
	mine := endpoint{at.addr, p.local.port}
	switch {
	case !slices.Contains(o.addresses(p), at.addr):
		return fmt.Errorf("a session gets address %s, want one of %v", at.addr, o.addresses(p))
	case (at.port < first || at.port > last) && (!p.own || at != mine):
		return fmt.Errorf("a session gets port %d, want %d to %d", at.port, first, last)
	case !o.free(p, at):
		return fmt.Errorf("a session gets %v, which another one has", at)
	case p.keeps() && o.free(p, mine) && at != mine:
		return fmt.Errorf("a session gets %v, but its own port is free", at)
	case p.proto == unix.IPPROTO_UDP && p.last == 0 && at.port%2 != mine.port%2:
		return fmt.Errorf("a session gets port %d for %d: another parity, and there are more such ports", at.port, mine.port)
	}
	return nil
}

// equal compares two sets, and returns their differences.
func equal[K comparable, V comparable](what string, is, want map[K]V) error {
	for k, v := range want {
		if got, ok := is[k]; !ok || got != v {
			return fmt.Errorf("%s: %v is %v (there: %v), want %v", what, k, got, ok, v)
		}
	}
	for k, v := range is {
		if _, ok := want[k]; !ok {
			return fmt.Errorf("%s: %v is there, with %v", what, k, v)
		}
	}
	return nil
}
