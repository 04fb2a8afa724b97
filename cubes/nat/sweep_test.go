// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// planted is a session that a test writes into the tables.
type planted struct {
	proto                      uint8
	internal, remote, external string
	talk                       talk
	age, inAge                 time.Duration
	origin                     origin
	rule                       uint32
	mapping                    bool
	mapped                     bool // found from outside through its mapping
}

func point(t testing.TB, text string) endpoint {
	t.Helper()
	p, err := netip.ParseAddrPort(text)
	if err != nil {
		t.Fatal(err)
	}
	return endpoint{p.Addr(), p.Port()}
}

// plant writes a session, or a mapping, as the fast path does.
func plant(t testing.TB, tables *tables, p planted) {
	t.Helper()
	now, err := cube.TimeCoarse()
	if err != nil {
		t.Fatal(err)
	}
	internal, remote, external := point(t, p.internal), point(t, p.remote), point(t, p.external)
	s := session{Key: keyOf(internal, remote, p.proto), Created: now - uint64(p.age), Seen: now - uint64(p.age), Packets: 3, Bytes: 300, Rule: p.rule,
		Progress: p.talk.after(p.proto), Port: portOf(external.port), Origin: p.origin, Addr: inet.AddressOf(external.addr)}
	back := s.outside()
	back.Seen, back.Packets, back.Bytes = now-uint64(p.inAge), 2, 200
	if p.mapping {
		s.Key, s.Flags, back.Key, back.Flags = s.Key.bare(), flagMapping, back.Key.bare(), flagMapping
	}
	if p.mapped {
		s.Flags, s.InSeen, s.InPackets, s.InBytes = flagMapped, uint32(back.Seen>>seenUnit), back.Packets, back.Bytes
	}
	if !p.mapped { // first, and new: a sweep must neither take it for a stray nor remove the session without it
		fresh := back
		fresh.Created, fresh.Seen = now, now
		err = tables.put(fresh)
	}
	if err = errors.Join(err, tables.put(s)); err != nil {
		t.Fatal(err)
	}
	tables.change(back.Key, func(s *session) { s.Created, s.Seen = back.Created, back.Seen })
}

func sizes(t testing.TB, tables *tables) (egress, ingress int) {
	t.Helper()
	return len(tables.all(0)), len(tables.all(zoneOutside))
}

// wantSessions waits until the tables have a number of entries on both sides.
func wantSessions(t testing.TB, tables *tables, egress, ingress int) {
	t.Helper()
	netns.Eventually(t, 4*bpftest.Patience, func() error {
		if e, i := sizes(t, tables); e != egress || i != ingress {
			return fmt.Errorf("there are %d entries of egress and %d of ingress, want %d and %d", e, i, egress, ingress)
		}
		return nil
	})
}

const someRules = `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.0/30"},{"id":2,"internal-net":"fd00::/64","external-ip":"2001:db8::1"}]},
	"dnat":{"entry":[{"id":3,"external-ip":"203.0.113.9","internal-ip":"10.0.0.9"}]},
	"port-forwarding":{"entry":[{"id":4,"external-ip":"203.0.113.8","external-port":80,"external-port-last":89,"internal-ip":"10.0.0.8","internal-port":8080}]}}}`

// segment is one of a side; other protocols have packets without flags.
type segment struct {
	side  uint8
	flags conntrack.Flag
}

// talk is what the packets of a session were; nil: one from inside.
type talk []segment

// both is an established session.
var both = talk{{0, conntrack.SYN}, {1, conntrack.SYN | conntrack.ACK}, {0, conntrack.ACK}}

// and is the talk with more packets.
func (t talk) and(more ...segment) talk { return append(t[:len(t):len(t)], more...) }

// after is the progress of a session after the talk.
func (t talk) after(proto uint8) (p conntrack.Progress) {
	if t == nil {
		t = both[:1]
	}
	for _, s := range t {
		p.Follow(s.side, proto, s.flags)
	}
	return p
}

// TestTimeouts: each protocol and state has its timeout, which is that of the later direction.
func TestTimeouts(t *testing.T) {
	timeout := Timeout{TCPEstablished: 7440, TCPTransitory: 240, UDP: 300, ICMP: 60, Other: 100}
	out, in := segment{0, conntrack.FIN | conntrack.ACK}, segment{1, conntrack.FIN | conntrack.ACK}
	for _, tt := range []struct {
		proto uint8
		talk  talk
		want  int // seconds
		shown string
	}{
		{unix.IPPROTO_TCP, nil, 240, "opening"},
		{unix.IPPROTO_TCP, both[:2], 240, "opening"},
		{unix.IPPROTO_TCP, both[:1].and(out), 240, "opening"},
		{unix.IPPROTO_TCP, both, 7440, "established"},
		{unix.IPPROTO_TCP, both.and(out), 7440, "established"},
		{unix.IPPROTO_TCP, both.and(out, segment{1, conntrack.ACK}), 7440, "established"},
		{unix.IPPROTO_TCP, both.and(out, in), 240, "closing"},
		{unix.IPPROTO_TCP, both.and(out, in, segment{0, conntrack.ACK}), 240, "closing"},
		{unix.IPPROTO_TCP, both.and(segment{1, conntrack.RST}), 240, "closing"},
		{unix.IPPROTO_TCP, both.and(segment{0, conntrack.RST}), 240, "closing"},
		{unix.IPPROTO_UDP, nil, 300, "opening"},
		{unix.IPPROTO_UDP, both, 300, "established"},
		{unix.IPPROTO_ICMP, both, 60, "established"},
		{unix.IPPROTO_ICMPV6, nil, 60, "opening"},
		{unix.IPPROTO_SCTP, both, 100, "established"},
		{unix.IPPROTO_GRE, nil, 100, "opening"},
	} {
		is := session{Key: key{Proto: tt.proto}, Progress: tt.talk.after(tt.proto)}
		if got := timeout.of(&is); got != time.Duration(tt.want)*time.Second {
			t.Errorf("protocol %d, %+v: %v, want %d s", tt.proto, is.Progress, got, tt.want)
		}
		if got := stateOf(&is.Progress); got != tt.shown {
			t.Errorf("protocol %d, %+v is %s, want %s", tt.proto, is.Progress, got, tt.shown)
		}
	}
}

// TestAgedSessionsGo: each leaf of `timeout` decides on the sessions of its protocol; a packet of either direction keeps one.
func TestAgedSessionsGo(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("nat", "n", someRules)
	tables := tablesOf(t, l)
	fill := func() {
		for i, p := range []planted{
			{proto: unix.IPPROTO_TCP, talk: both}, {proto: unix.IPPROTO_TCP}, {proto: unix.IPPROTO_UDP, talk: both},
			{proto: unix.IPPROTO_ICMP}, {proto: unix.IPPROTO_GRE},
		} {
			p.rule, p.age, p.inAge = 1, 50*time.Second, 50*time.Second
			p.internal, p.remote, p.external = fmt.Sprintf("10.0.0.%d:1000", i+1), "198.51.100.1:80", fmt.Sprintf("203.0.113.1:%d", 2000+i)
			plant(t, tables, p)
		}
		// The other direction was heard.
		plant(t, tables, planted{proto: unix.IPPROTO_UDP, rule: 2, age: 50 * time.Second, internal: "[fd00::1]:1", remote: "[2001:db8:1::1]:1", external: "[2001:db8::1]:1"})
	}
	leaves := map[string]string{"tcp-established": "10.0.0.1", "tcp-transitory": "10.0.0.2", "udp": "10.0.0.3", "icmp": "10.0.0.4", "other": "10.0.0.5"}
	for leaf := range leaves {
		l.Set("PATCH", "n timeout "+leaf, "7440")
	}
	for leaf, want := range leaves {
		fill()
		wantSessions(t, tables, 6, 6)
		l.Set("PATCH", "n timeout "+leaf, "40")
		wantSessions(t, tables, 5, 5)
		if shown := l.Read("n natting-table"); strings.Contains(shown, want) {
			t.Errorf("%s 40: left are %s", leaf, shown)
		}
		l.Set("PATCH", "n timeout "+leaf, "7440")
	}
}

// TestSessionsAreDeletedByConditions: with what is seen of them outside, and mappings that no session uses any more.
func TestSessionsAreDeletedByConditions(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("nat", "n", someRules)
	tables := tablesOf(t, l)
	for i := range 4 {
		p := planted{proto: unix.IPPROTO_TCP, rule: 1, internal: fmt.Sprintf("10.0.0.%d:1000", i+1), remote: "198.51.100.1:80", external: fmt.Sprintf("203.0.113.1:%d", 2000+i)}
		if i < 2 {
			p.talk = both
		}
		plant(t, tables, p)
	}
	plant(t, tables, planted{proto: unix.IPPROTO_UDP, rule: 2, internal: "[fd00::1]:1", remote: "[2001:db8:1::1]:1", external: "[2001:db8::1]:1"})
	mapped := planted{proto: unix.IPPROTO_UDP, rule: 1, internal: "10.0.0.9:53", remote: "198.51.100.1:53", external: "203.0.113.1:53", mapped: true}
	plant(t, tables, mapped)
	mapped.mapped, mapped.mapping = false, true
	plant(t, tables, mapped)
	wantSessions(t, tables, 7, 6)
	for _, c := range []struct {
		conditions               string
		deleted, inside, outside int
	}{
		{`{"internal-src":"10.0.0.1","internal-dport":81}`, 0, 7, 6},
		{`{"internal-dst":"10.0.0.0/8"}`, 0, 7, 6},
		{`{"proto":"tcp","state":"established"}`, 2, 5, 4},
		{`{"internal-src":"fd00::/16"}`, 1, 4, 3},
		{`{"internal-src":"10.0.0.0/8","internal-sport":53}`, 1, 2, 2},
		{``, 2, 0, 0},
	} {
		if got, want := l.Action("n delete-sessions", c.conditions), fmt.Sprintf(`{"deleted":%d}`, c.deleted); got != want {
			t.Errorf("conditions %s: %s, want %s", c.conditions, got, want)
		}
		wantSessions(t, tables, c.inside, c.outside)
	}
	if _, err := l.TryAction("n delete-sessions", `{"proto":"nope"}`); err == nil {
		t.Error("a protocol that does not exist is accepted")
	}
}

// TestSessionsGoWithTheirRule: and if its translation changes, but no others.
func TestSessionsGoWithTheirRule(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1, Follow: true})
	l.Lab.Run("sysctl", "-qw", "net.ipv4.conf.all.promote_secondaries=1")
	l.Lab.Run("ip", "addr", "add", "192.0.2.1/24", "dev", "veth1")
	l.Create("nat", "n", someRules)
	l.Attach("n", "veth1")
	l.Set("PATCH", "n rule masquerade enabled", "true")
	wantMasquerade(t, l, `["192.0.2.1"]`)
	tables := tablesOf(t, l)
	const remote = "198.51.100.1:80"
	fill := func() {
		for _, p := range []planted{
			{internal: "10.0.0.1:1", external: "203.0.113.3:1024", origin: originSnat, rule: 1},
			{internal: "10.0.0.1:2", external: "203.0.113.2:1025", origin: originSnat, rule: 1},
			{internal: "10.9.0.1:2", external: "192.0.2.1:1024", origin: originMasquerade},
			{internal: "10.0.0.9:2", external: "203.0.113.9:2", origin: originDnat, rule: 3},
			{internal: "10.0.0.8:8085", external: "203.0.113.8:85", origin: originForwarding, rule: 4},
			{internal: "10.0.0.8:8084", external: "203.0.113.8:84", origin: originForwarding, rule: 4, proto: unix.IPPROTO_UDP},
		} {
			p.proto, p.remote, p.talk = max(p.proto, unix.IPPROTO_TCP), remote, both
			plant(t, tables, p)
			p.remote, p.mapping = "0.0.0.0:0", true
			plant(t, tables, p)
		}
	}
	fill()
	for _, tt := range []struct {
		what   string
		change func()
		left   int
	}{
		{"a rule more", func() {
			l.Action("n rule snat append", `{"internal-net":"10.0.0.1/32","external-ip":"203.0.113.77"}`)
		}, 12},
		{"a smaller pool", func() { l.Set("PATCH", "n rule snat entry 1 external-ip", `"203.0.113.2/31"`) }, 12},
		{"a pool without one of them", func() { l.Set("PATCH", "n rule snat entry 1 external-ip", `"203.0.113.3"`) }, 10},
		{"other ports", func() { l.Set("PATCH", "n rule port-forwarding entry 4 external-port-last", "86") }, 10},
		{"ports without it", func() { l.Set("PATCH", "n rule port-forwarding entry 4 external-port-last", "84") }, 8},
		{"another protocol", func() { l.Set("PATCH", "n rule port-forwarding entry 4 proto", `"tcp"`) }, 6},
		{"another host", func() { l.Set("PATCH", "n rule dnat entry 3 internal-ip", `"10.0.0.10"`) }, 4},
		{"another address of the netdev", func() {
			l.Lab.Run("ip", "addr", "add", "192.0.2.2/24", "dev", "veth1")
			l.Lab.Run("ip", "addr", "del", "192.0.2.1/24", "dev", "veth1") // the other becomes the first
		}, 2},
		{"no rule", func() { l.Set("DELETE", "n rule snat", "") }, 0},
	} {
		tt.change()
		netns.Eventually(t, 4*bpftest.Patience, func() error {
			if e, i := sizes(t, tables); e != tt.left || i != tt.left {
				return fmt.Errorf("%s: left are %d and %d entries, want %d", tt.what, e, i, tt.left)
			}
			return nil
		})
	}
	// The next daemon detects rules deleted while none ran.
	l.Set("PATCH", "n rule snat", `{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.0/30"}]}`)
	fill()
	l.Restart(nil)
	tables = tablesOf(t, l)
	wantSessions(t, tables, 4, 4)
}

// TestUnusedMappingsGo: a mapping stays while there is a session on it.
func TestUnusedMappingsGo(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("nat", "n", strings.Replace(someRules, "{", `{"timeout":{"icmp":1},`, 1))
	tables := tablesOf(t, l)
	p := planted{proto: unix.IPPROTO_UDP, rule: 1, talk: both, internal: "10.0.0.1:5", external: "203.0.113.1:1024"}
	for i := range 3 {
		p.remote = fmt.Sprintf("198.51.100.%d:53", i+1)
		plant(t, tables, p)
	}
	p.remote, p.mapping = "0.0.0.0:0", true // of now: its sessions are
	plant(t, tables, p)
	p.internal, p.external, p.age = "10.0.0.1:6", "203.0.113.1:1025", time.Hour // has no sessions
	plant(t, tables, p)
	wantSessions(t, tables, 4, 4)
	netns.Eventually(t, 4*bpftest.Patience, func() error { // the sweep that removes one is visible before it has counted
		if got := l.Read("n sessions mappings"); got != "1" {
			return fmt.Errorf("%s mappings are counted, want 1", got)
		}
		return nil
	})
	for i := range 3 {
		l.Set("DELETE", fmt.Sprintf("n natting-table 10.0.0.1 198.51.100.%d 5 53 udp", i+1), "")
	}
	wantSessions(t, tables, 0, 0)
}

// TestHalvesOfSessionsGo: an ingress entry whose egress entry is gone is found, and its port is free again.
func TestHalvesOfSessionsGo(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("nat", "n", strings.Replace(someRules, "{", `{"timeout":{"icmp":1},`, 1))
	tables := tablesOf(t, l)
	p := planted{proto: unix.IPPROTO_TCP, rule: 1, talk: both, internal: "10.0.0.1:5", remote: "198.51.100.1:53", external: "203.0.113.1:1024",
		age: time.Minute, inAge: time.Minute}
	plant(t, tables, p)
	p.internal, p.external = "10.0.0.2:5", "203.0.113.1:1025"
	plant(t, tables, p)
	if !tables.sessions.End(keyOf(point(t, p.internal), point(t, p.remote), p.proto).entry()) {
		t.Fatal("there is no session")
	}
	l.Restart(nil) // the first sweep looks for them
	wantSessions(t, tablesOf(t, l), 1, 1)
}

// shownSession contains the fields of an entry that tests check.
type shownSession struct {
	InternalSrc     string `json:"internal-src"`
	Proto           string
	OriginatingRule string `json:"originating-rule"`
}

// TestTheTableIsShown: one session by its keys with all its leaves, few with the cube, many not; numbers always.
func TestTheTableIsShown(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("nat", "n", someRules)
	tables := tablesOf(t, l)
	plant(t, tables, planted{proto: unix.IPPROTO_TCP, rule: 1, talk: both, internal: "10.0.0.1:5", remote: "198.51.100.1:53", external: "203.0.113.1:1024",
		age: 100 * time.Second, inAge: 40 * time.Second})
	plant(t, tables, planted{proto: unix.IPPROTO_ICMPV6, rule: 2, internal: "[fd00::1]:7", remote: "[2001:db8::5]:0", external: "[2001:db8::1]:9"})
	plant(t, tables, planted{proto: unix.IPPROTO_UDP, rule: 1, internal: "10.0.0.2:5", remote: "198.51.100.1:53", external: "203.0.113.1:1026"})
	l.Set("DELETE", "n natting-table 10.0.0.2 198.51.100.1 5 53 UDP", "") // and counts again
	var one map[string]any
	if err := json.Unmarshal([]byte(l.Read("n natting-table 10.0.0.1 198.51.100.1 5 53 tcp")), &one); err != nil {
		t.Fatal(err)
	}
	for leaf, want := range map[string]any{"internal-src": "10.0.0.1", "internal-dst": "198.51.100.1", "internal-sport": 5.0, "internal-dport": 53.0,
		"proto": "tcp", "originating-rule": "snat", "rule-id": 1.0, "external-ip": "203.0.113.1", "external-port": 1024.0, "state": "established",
		"packets-out": 3.0, "bytes-out": 300.0, "packets-in": 2.0, "bytes-in": 200.0} {
		if one[leaf] != want {
			t.Errorf("%s is %v, want %v", leaf, one[leaf], want)
		}
	}
	for leaf, want := range map[string]float64{"age": 40, "expires": 7400, "duration": 100} {
		if got, _ := one[leaf].(float64); got < want-20 || got > want+20 {
			t.Errorf("%s is %v, want about %v", leaf, one[leaf], want)
		}
	}
	var whole struct {
		NattingTable []shownSession `json:"natting-table"`
	}
	if err := json.Unmarshal([]byte(l.Read("n")), &whole); err != nil || len(whole.NattingTable) != 2 {
		t.Errorf("the cube has %+v, %v", whole, err)
	}
	if got := l.Read("n natting-table fd00::1 2001:db8::5 7 0 icmpv6"); !strings.Contains(got, `"state":"opening"`) {
		t.Errorf("the session of IPv6 is %s", got)
	}
	netns.Eventually(t, 4*bpftest.Patience, func() error {
		if got := l.Read("n sessions"); !strings.HasPrefix(got, `{"active":2,"tcp":1,"udp":0,"icmp":1,"other":0,"mappings":0,`) {
			return fmt.Errorf("the numbers are %s", got)
		}
		return nil
	})
	for _, words := range []string{"10.0.0.1 198.51.100.1 5 54 tcp", "10.0.0.1 198.51.100.1 5 53 17", "x 198.51.100.1 5 53 tcp", "10.0.0.1 fd00::1 5 53 tcp", "10.0.0.1 198.51.100.1 70000 53 tcp"} {
		if got, err := l.TryRead("n natting-table " + words); err == nil {
			t.Errorf("%s is %s", words, got)
		}
		if err := l.Try("DELETE", "n natting-table "+words, ""); err == nil {
			t.Errorf("%s is deleted", words)
		}
	}
	l.Set("DELETE", "n natting-table", "")
	wantSessions(t, tables, 0, 0)
}

// TestManySessionsAreReadInPages: all of them, each once, by pages of the REST server's size; the whole cube has none.
func TestManySessionsAreReadInPages(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("nat", "n", someRules)
	tables := tablesOf(t, l)
	const each = 1500
	now, err := cube.TimeCoarse()
	if err != nil {
		t.Fatal(err)
	}
	for i := range each {
		remote := endpoint{netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)}), 53}
		is := session{Created: now, Seen: now, Rule: 1}.as("203.0.113.1", 1024)
		is.Key = keyOf(point(t, "10.0.0.1:5"), remote, unix.IPPROTO_UDP)
		remote6 := endpoint{netip.AddrFrom16([16]byte{0x20, 1, 14: byte(i >> 8), 15: byte(i)}), 53}
		is6 := session{Created: now, Seen: now, Rule: 2}.as("2001:db8::1", 1024)
		is6.Key = keyOf(point(t, "[fd00::1]:5"), remote6, unix.IPPROTO_UDP)
		for _, s := range []session{is, is6, is.outside(), is6.outside()} {
			if err := tables.add(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.Set("PATCH", "n timeout udp", "301") // counts again
	netns.Eventually(t, 4*bpftest.Patience, func() error {
		if got := l.Read("n sessions active"); got != fmt.Sprint(2*each) {
			return fmt.Errorf("%s sessions are counted", got)
		}
		return nil
	})
	if got := l.Read("n"); strings.Contains(got, "natting-table") {
		t.Error("the cube is read with all its sessions")
	}
	seen := map[string]int{}
	for entry := range l.Entries("n natting-table") {
		seen[string(entry[:strings.Index(string(entry), `"internal-sport"`)])]++
	}
	if len(seen) != 2*each {
		t.Errorf("%d sessions are read, want %d", len(seen), 2*each)
	}
	for s, n := range seen {
		if n != 1 {
			t.Errorf("%s is read %d times", s, n)
		}
	}
}
