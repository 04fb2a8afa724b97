// SPDX-License-Identifier: Apache-2.0

package nat

// Changes between packets: rules, behaviours, sessions that end. After each change the tables of the NAT must equal the
// oracle's, entry by entry.

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
)

func endpointOf(text string) endpoint {
	p := netip.MustParseAddrPort(text)
	return endpoint{p.Addr(), p.Port()}
}

func snatOf(id uint32, net, external string, ports ...uint16) translator {
	t := translator{id: id, origin: originSnat, net: netip.MustParsePrefix(net), external: netip.MustParsePrefix(external)}
	if len(ports) == 2 {
		t.first, t.last = ports[0], ports[1]
	}
	return t
}

func dnatOf(id uint32, external, internal string) director {
	return director{id: id, origin: originDnat, external: endpoint{addr: netip.MustParseAddr(external)}, internal: endpoint{addr: netip.MustParseAddr(internal)}}
}

func forwardOf(id uint32, external string, last uint16, proto Protocol, internal string) director {
	return director{id: id, origin: originForwarding, external: endpointOf(external), last: last, proto: proto, internal: endpointOf(internal)}
}

// The rules to add and remove; those with the same number take turns.
var (
	snats = []translator{
		snatOf(1, "10.0.0.0/24", "203.0.113.1/32"), snatOf(1, "10.0.0.0/24", "203.0.113.1/32"), snatOf(1, "10.0.0.0/24", "203.0.113.1/32", 4000, 4003),
		snatOf(1, "10.0.0.0/24", "203.0.113.16/30"), snatOf(2, "fd00::/64", "2001:db8::1/128"), snatOf(2, "fd00::/64", "2001:db8::1/128", 4000, 4001),
		snatOf(2, "fd00::/64", "2001:db8::10/126"), snatOf(3, "10.0.0.0/8", "203.0.113.16/30"), snatOf(3, "10.0.0.0/8", "203.0.113.1/32", 1000, 1063),
		snatOf(4, "10.0.0.8/32", "203.0.113.3/32"), snatOf(5, "fd00::/16", "2001:db8::3/128"), snatOf(6, "0.0.0.0/0", "203.0.113.1/32"),
	}
	dnats = []director{
		dnatOf(1, "203.0.113.2", "10.0.0.8"), dnatOf(1, "203.0.113.2", "10.0.0.9"), dnatOf(2, "2001:db8::2", "fd00::8"), dnatOf(3, "203.0.113.1", "10.0.0.7"),
	}
	forwardings = []director{
		forwardOf(1, "203.0.113.1:80", 80, protoAll, "10.0.0.7:8080"), forwardOf(1, "203.0.113.1:80", 80, protoUDP, "10.0.0.7:8080"),
		forwardOf(2, "203.0.113.1:4000", 4001, protoUDP, "10.0.0.9:5000"), forwardOf(3, "[2001:db8::1]:80", 80, protoAll, "[fd00::7]:8080"),
		forwardOf(4, "203.0.113.2:53", 53, protoTCP, "10.0.0.7:53"), forwardOf(5, "203.0.113.1:80", 80, protoTCP, "10.0.0.8:81"),
	}
	parents = [][]string{nil, {"203.0.113.5/24", "2001:db8::5/64"}, {"203.0.113.6/24"}, {"203.0.113.1/24", "2001:db8::1/64"}}
)

// reset creates a NAT that has seen no packets.
func (r *rig) reset(b Behaviour) error {
	r.o, r.seen, r.trail = newOracle(fuzzSessions), map[int]*passage{}, nil
	r.o.behaviour = b
	err := errors.Join(r.Try("DELETE", "n rule", ""), r.Try("PATCH", "n behaviour", b.body()), r.told(nil), r.flushed())
	for i := range r.base {
		var failed error
		r.base[i], failed = r.tables.counters.Sum(counterNames[i])
		err = errors.Join(err, failed)
	}
	notes := r.Map("n", "fragments").Iterate()
	var key [40]byte
	var value [32]byte
	var all [][40]byte
	for notes.Next(&key, &value) {
		all = append(all, key)
	}
	for _, k := range all {
		err = errors.Join(err, r.Map("n", "fragments").Delete(&k))
	}
	return errors.Join(err, notes.Err())
}

func (b Behaviour) body() string {
	return fmt.Sprintf(`{"mapping":%q,"filtering":%q,"other-protocols":%q,"overload":%v,"hairpin":%v}`,
		[]string{"endpoint-independent", "address-and-port-dependent"}[b.Mapping],
		[]string{"endpoint-independent", "address-dependent", "address-and-port-dependent"}[b.Filtering],
		[]string{"drop", "pass", "translate"}[b.OtherProtocols], b.Overload, b.Hairpin)
}

// change does an operation that sends no packet.
func (r *rig) change(o op) error {
	switch o.verb {
	case opSnat:
		t := snats[o.n%len(snats)]
		return toggle(r, o, listSnat, r.o.ruled.snat, t.id, t, t.body())
	case opDnat:
		d := dnats[o.n%len(dnats)]
		return toggle(r, o, listDnat, r.o.ruled.dnat, d.id, d, d.body())
	case opForward:
		d := forwardings[o.n%len(forwardings)]
		return toggle(r, o, listForward, r.o.ruled.forward, d.id, d, d.body())
	case opMasquerade:
		on := r.o.ruled.masquerade == nil
		if r.o.ruled.masquerade = nil; on {
			r.o.ruled.masquerade = &translator{}
		}
		return r.Try("PATCH", "n rule masquerade", fmt.Sprintf(`{"enabled":%v}`, on))
	case opParent:
		return r.told(parents[o.n%len(parents)])
	case opBehave:
		r.o.behaviour = drawBehaviour(o.seed)
		return r.Try("PATCH", "n behaviour", r.o.behaviour.body())
	case opFlush:
		r.o.v4.clear()
		r.o.v6.clear()
		return r.flushed()
	case opFill:
		return r.fill(o.n)
	}
	return r.end(o)
}

// toggle adds a rule, sometimes removes it, or replaces another one with its number.
func toggle[R comparable](r *rig, o op, list string, have map[uint32]R, id uint32, rule R, body string) error {
	words := fmt.Sprintf("n rule %s entry %d", list, id)
	if was, ok := have[id]; ok && was == rule {
		if o.seed%3 > 0 {
			return nil
		}
		delete(have, id)
		return r.Try("DELETE", words, "")
	}
	have[id] = rule
	return r.Try("PUT", words, body)
}

// told changes the addresses of the NAT's port, which masquerade uses. It is done in the cube's turn.
func (r *rig) told(addresses []string) error {
	p := cube.Parent{Name: "f:p2"}
	r.o.ruled.parent = [2]netip.Addr{}
	for _, a := range addresses {
		prefix := netip.MustParsePrefix(a)
		p.Addresses = append(p.Addresses, prefix)
		r.o.ruled.parent[map[bool]int{true: 0, false: 1}[prefix.Addr().Is4()]] = prefix.Addr()
	}
	return r.inTurn(func() { r.nat.ParentChanged(p) })
}

// inTurn runs a function in the cube's turn.
func (r *rig) inTurn(fn func()) error {
	done := make(chan struct{})
	r.nat.env.After(0, func() { fn(); close(done) })
	select {
	case <-done:
		return nil
	case <-time.After(4 * bpftest.Patience):
		return errors.New("the cube does not come to a turn")
	}
}

// flushed deletes all sessions. Sessions created before the coarse clock advances are deleted as well.
func (r *rig) flushed() error {
	if err := r.Try("DELETE", "n natting-table", ""); err != nil {
		return err
	}
	begin, err := cube.TimeCoarse()
	for now := begin; err == nil && now == begin; {
		now, err = cube.TimeCoarse()
	}
	return err
}

// fill sends packets of many hosts, for which the tables of IPv6 may have no room.
func (r *rig) fill(n int) error {
	if err := r.atRest(); err != nil {
		return err
	}
	if n%4 > 0 {
		n %= 40
	}
	for i := range n % 320 {
		from := fmt.Sprintf("fd00::1:%x", i)
		if err := r.send(false, outFrame(ip6(from, other6, nextUDP, udp(from, other6, uint16(1024+i%3), 53, nil)))); err != nil {
			return err
		}
	}
	return nil
}

// end ends the session of a packet.
func (r *rig) end(o op) error {
	of := o.about(r.seen)
	if of == nil {
		return nil
	}
	f := of.flow(r.o)
	if f == nil {
		return nil
	}
	r.o.tableOf(f.local.addr).forget(f)
	if o.verb == opDelete {
		return r.Try("DELETE", fmt.Sprintf("n natting-table %s %s %d %d %s", f.local.addr, f.remote.addr, f.local.port, f.remote.port, protoName(f.proto)), "")
	}
	now, err := cube.TimeCoarse()
	if err != nil {
		return err
	}
	then := now - uint64(3*time.Hour) // it wraps if the machine has not run for so long
	return r.tables.silence(f, then)
}

// silence makes a session look silent since a time before any timeout.
func (t *tables) silence(f *flow, then uint64) error {
	quiet := func(s *session) { s.Seen, s.InSeen = then, uint32(then>>seenUnit) }
	is, ok := t.find(keyOf(f.local, f.remote, f.proto))
	if !ok {
		return fmt.Errorf("there is no session %v", f.pair)
	}
	if !f.mapped && !t.change(is.twin(), quiet) {
		return fmt.Errorf("there is no way back of session %v", f.pair)
	}
	t.change(is.Key, quiet)
	return nil
}

// swept has the tables swept once more.
func (r *rig) swept() error {
	_ = r.Try("DELETE", "n natting-table 192.0.2.1 192.0.2.2 1 1 udp", "") // there is no such session, but they are read
	var before, now uint64
	if err := r.inTurn(func() { before = r.nat.sweep.swept }); err != nil {
		return err
	}
	for until := time.Now().Add(4 * bpftest.Patience); now <= before; {
		if err := r.inTurn(func() { now = r.nat.sweep.swept }); err != nil {
			return err
		}
		if time.Now().After(until) {
			return errors.New("the tables are not swept")
		}
	}
	return nil
}

// atRest waits for sweeps that follow earlier requests. Between packets that are sent one after the other, they would
// remove mappings that a refused session left.
func (r *rig) atRest() error {
	for until, sweeping := time.Now().Add(4*bpftest.Patience), true; sweeping; {
		if err := r.inTurn(func() { sweeping = r.nat.sweep.running || r.nat.sweep.more > 0 }); err != nil {
			return err
		}
		if time.Now().After(until) {
			return errors.New("the tables are swept without end")
		}
	}
	return nil
}

// sweepsToSettle is how many sweeps remove everything that must be removed: one ends sessions, one more finds that
// their mapping is unused, and it may have been created in the clock tick in which one began. Sweeps that repair races
// between packets and sweeps come later.
const sweepsToSettle = 6

// settle sweeps until the tables equal the oracle's.
func (r *rig) settle() error {
	r.o.revise()
	err := r.compare()
	for sweeps := 0; err != nil && sweeps < sweepsToSettle; sweeps++ {
		if failed := r.swept(); failed != nil {
			return errors.Join(err, failed)
		}
		err = r.compare()
	}
	return err
}

// compare compares tables and counters with the oracle.
func (r *rig) compare() error {
	for i, want := range r.o.counted {
		got, err := r.tables.counters.Sum(counterNames[i])
		if err == nil && uint32(i) != collisions && got-r.base[i] != want {
			err = fmt.Errorf("counter %s is %d, want %d", counterNames[i], got-r.base[i], want)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(r.tables.compare(0, r.o.v4), r.tables.compare(zoneIPv6, r.o.v6))
}

// shown is a session in the form of a table.
type shown struct {
	external endpoint
	mapped   bool
	turns    bool
	rule     uint32
	origin   origin
	out, in  count
}

// compare compares the sessions of a family with those of the oracle.
func (t *tables) compare(family uint16, o *sessionTable) error {
	sessions, mappings, permits, back := map[pair]shown{}, map[claim]endpoint{}, map[permit]bool{}, map[pair]endpoint{}
	for _, s := range t.all(zoneOutside) {
		if s.Key.Zone&zoneIPv6 == family {
			back[pair{s.internal(), s.like(s.remote()), s.Key.Proto}] = s.external() // as seen outside, the two are swapped
		}
	}
	for _, s := range t.all(0) {
		if s.Key.Zone&zoneIPv6 != family {
			continue
		}
		switch mine := (claim{s.internal(), s.Key.Proto}); {
		case s.is(flagMapping) && s.remote().addr.IsUnspecified():
			mappings[mine] = s.external()
		case s.is(flagMapping):
			permits[permit{mine, s.remote().addr}] = true
		default:
			in := count{s.InPackets, s.InBytes}
			if other, ok := t.find(s.twin()); ok && !s.is(flagMapped) {
				in = count{other.Packets, other.Bytes}
			}
			sessions[pair{s.internal(), s.remote(), s.Key.Proto}] = shown{s.external(), s.is(flagMapped), s.is(flagHairpin), s.Rule, s.Origin,
				count{s.Packets, s.Bytes}, in}
		}
	}
	want, claims, ways := map[pair]shown{}, map[claim]endpoint{}, map[pair]endpoint{}
	for k, f := range o.flows {
		want[k] = shown{f.external, f.mapped, f.turns, f.rule, f.origin, f.out, f.in}
	}
	for c, m := range o.mappings {
		claims[c] = m.external
		ways[pair{m.external, endpoint{addr: unspecifiedLike(m.external.addr)}, c.proto}] = c.endpoint
	}
	for k, f := range o.alone {
		ways[k] = f.local
	}
	return errors.Join(equal("sessions", sessions, want), equal("mappings", mappings, claims), equal("addresses that were sent to", permits, o.permits),
		equal("external endpoints", back, ways))
}

// like is an endpoint, the unspecified one of the family for that of a mapping.
func (s session) like(e endpoint) endpoint {
	if e.addr.IsUnspecified() {
		e.addr = unspecifiedLike(s.internal().addr)
	}
	return e
}

func unspecifiedLike(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// flagHairpin: the remote end is an external endpoint of another host inside.
const flagHairpin = 1 << 3
