// SPDX-License-Identifier: Apache-2.0

package nat

// Sessions that packets from outside find through the mapping, so that they have one entry.

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// TestSessionsOfMappingsAreSweptAndShown: both directions are read from the one entry, and one without its mapping is
// removed.
func TestSessionsOfMappingsAreSweptAndShown(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("nat", "n", strings.Replace(someRules, "{", `{"timeout":{"udp":40},`, 1))
	tables := tablesOf(t, l)
	l.Restart(func() { // while nothing is swept; the first sweep looks for mappings
		for _, family := range []struct {
			rule                               uint32
			internal, external, remote, nobody string
		}{
			{1, "10.0.0.1:5", "203.0.113.1:1024", "198.51.100.1:53", "0.0.0.0:0"},
			{2, "[fd00::1]:5", "[2001:db8::1]:1024", "[2001:db8:1::1]:53", "[::]:0"},
		} {
			p := planted{proto: unix.IPPROTO_UDP, rule: family.rule, internal: family.internal, external: family.external, remote: family.nobody, mapping: true}
			plant(t, tables, p)
			p.remote, p.mapping, p.mapped = family.remote, false, true
			p.talk, p.age = both, 50*time.Second // the remote was heard
			plant(t, tables, p)
			p.remote = strings.Replace(family.remote, "53", "54", 1)
			p.inAge = 50 * time.Second
			plant(t, tables, p)
			p.remote = strings.Replace(family.remote, "53", "55", 1)
			p.internal, p.inAge = strings.Replace(family.internal, "5", "6", 1), 0 // has no mapping
			plant(t, tables, p)
			p.age = 0 // the same, but it may be in flight
			p.remote = strings.Replace(family.remote, "53", "56", 1)
			plant(t, tables, p)
		}
	})
	wantSessions(t, tablesOf(t, l), 6, 2)
	for _, words := range []string{"10.0.0.1 198.51.100.1 5 53 udp", "fd00::1 2001:db8:1::1 5 53 udp"} {
		var shown struct {
			PacketsIn string `json:"packets-in"`
			BytesIn   string `json:"bytes-in"`
			Age       uint32
		}
		text := l.Read("n natting-table " + words)
		if err := json.Unmarshal([]byte(strings.NewReplacer(`"packets-in":2`, `"packets-in":"2"`, `"bytes-in":200`, `"bytes-in":"200"`).Replace(text)), &shown); err != nil {
			t.Fatal(err)
		}
		if shown.PacketsIn != "2" || shown.BytesIn != "200" || shown.Age >= 40 {
			t.Errorf("%s is %s", words, text)
		}
	}
	// One is removed without its mapping, all with it.
	l.Set("DELETE", "n natting-table 10.0.0.1 198.51.100.1 5 53 udp", "")
	if got, err := l.TryRead("n natting-table 10.0.0.1 198.51.100.1 5 53 udp"); err == nil {
		t.Errorf("what was deleted is %s", got)
	}
	l.Set("DELETE", "n natting-table", "")
	wantSessions(t, tablesOf(t, l), 0, 0)
}

// TestASessionIsOfTheRuleOfItsMapping: a rule added for a host applies to its new endpoints. An endpoint in use keeps
// its external one, even for new sessions, which last as long as the original rule.
func TestASessionIsOfTheRuleOfItsMapping(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/8","external-ip":"203.0.113.1"}]}}}`)
		b.steps(step{"before", false, out4(host, other).UDP(4000, 53), out4(ours, other).UDP(4000, 53), ""})
		l.Set("POST", "n rule snat entry 2", `{"internal-net":"10.0.0.0/24","external-ip":"203.0.113.9"}`)
		b.steps(
			step{"another port", false, out4(host, other).UDP(4001, 53), out4("203.0.113.9", other).UDP(4001, 53), ""},
			step{"the same port to another remote", false, out4(host, other).UDP(4000, 54), out4(ours, other).UDP(4000, 54), ""},
		)
		for ports, rule := range map[string]string{"4000 53": "1", "4001 53": "2", "4000 54": "1"} {
			if got := l.Read("n natting-table 10.0.0.7 198.51.100.1 " + ports + " udp rule-id"); got != rule {
				t.Errorf("the session of ports %s is of rule %s, want %s", ports, got, rule)
			}
		}
		// Its mapping has no rule any more: both of its sessions go, and no other.
		l.Set("DELETE", "n rule snat entry 1", "")
		netns.Eventually(t, 4*bpftest.Patience, func() error {
			if sessions, mappings, err := b.claims(); sessions != 1 || mappings != 1 || err != nil {
				return fmt.Errorf("%d sessions and %d mappings are left, want 1: %w", sessions, mappings, err)
			}
			return nil
		})
	})
}

// Bits of session.Flags.
const (
	flagTentative = 1 << 6
	flagWithdrawn = 1 << 7
)

// A packet finds a tentative session that another CPU inserted: it decides, and no packet uses the session before.
func TestSessionsThatAreNotDecided(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"0.0.0.0/0","external-ip":"203.0.113.1"},
			{"id":2,"internal-net":"::/0","external-ip":"2001:db8::1"}]}}}`)
		tables := tablesOf(t, l)
		udp4 := func(from, to string, sport, dport uint16) []byte {
			return plain4(from, to, nextUDP, udp(from, to, sport, dport, nil))
		}
		udp6 := func(from, to string, sport, dport uint16) []byte {
			return ip6(from, to, nextUDP, udp(from, to, sport, dport, nil))
		}
		notDecided(b, tables, udp4, host, ours, other)
		notDecided(b, tables, udp6, host6, ours6, other6)
	})
}

func notDecided(b *bench, tables *tables, udp func(from, to string, sport, dport uint16) []byte, host, ours, other string) {
	at := func(addr string, port uint16) endpoint { return endpoint{netip.MustParseAddr(addr), port} }
	key := keyOf(at(host, 2000), at(other, 53), nextUDP)
	entry := func() session {
		b.t.Helper()
		v, ok := tables.find(key)
		if !ok {
			b.t.Fatalf("there is no session of %s", host)
		}
		return v
	}
	flags := func(set uint8) {
		b.t.Helper()
		if !tables.change(key, func(s *session) { s.Flags |= set }) {
			b.t.Fatalf("there is no session of %s", host)
		}
	}
	wantFlags := func(want uint8) {
		b.t.Helper()
		v := entry()
		if got := v.Flags & (flagMapped | flagTentative | flagWithdrawn); got != want {
			b.t.Errorf("the session of %s has flags %#x, want %#x", host, got, want)
		}
	}
	leaves := step{"from inside", false, outFrame(udp(host, other, 2000, 53)), outFrame(udp(ours, other, 2000, 53)), ""}
	enters := step{"from outside", true, inFrame(udp(other, ours, 53, 2000)), inFrame(udp(other, host, 53, 2000)), ""}
	none := enters
	none.want, none.why = nil, "filtered"

	b.steps(leaves, enters)
	wantFlags(flagMapped)
	// No other session has the endpoint.
	flags(flagTentative)
	b.step(none)
	wantFlags(flagMapped | flagTentative)
	b.steps(leaves, enters)
	wantFlags(flagMapped)
	// The host has it, towards another remote.
	b.step(step{"of the host", false, outFrame(udp(ours, ours[:len(ours)-1]+"9", 2000, 53)), outFrame(udp(ours, ours[:len(ours)-1]+"9", 2000, 53)), ""})
	flags(flagTentative)
	b.steps(leaves, enters)
	wantFlags(flagMapped)
	// The host has it, towards the same remote.
	flags(flagTentative)
	alone := entry().outside()
	alone.Flags = 0
	if err := tables.add(alone); err != nil {
		b.t.Fatal(err)
	}
	leaves.want, leaves.why = nil, "endpoint-taken"
	b.steps(leaves)
	wantFlags(flagMapped | flagTentative | flagWithdrawn)
	b.steps(leaves) // it is not decided again
	wantFlags(flagMapped | flagTentative | flagWithdrawn)
}

// A session of a mapping and one of the host that has the external address are made at the same time: one of both gets the
// external endpoint towards their remote.
func TestMappingsAndTheHostShareNoEndpoint(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"0.0.0.0/0","external-ip":"203.0.113.1"}]}}}`)
		const ports = 300
		var frames [][]byte
		from := func(addr string, port int) {
			frames = append(frames, outFrame(plain4(addr, other, nextUDP, udp(addr, other, uint16(port), 53, nil))))
		}
		for i := range ports {
			for range 2 {
				from(host, 2000+i)
				from(ours, 2000+i)
			}
		}
		holder := map[uint16]string{}
		through := map[string]int{}
		l.Together("veth1", 4, frames, func(n int, got []byte) {
			if got == nil {
				return // the host was faster, and the mapping has just that port
			}
			who := []string{host, ours}[n%2]
			through[who]++
			p := binary.BigEndian.Uint16(got[34:])
			if had, ok := holder[p]; ok && had != who {
				t.Errorf("port %d is that of %s and %s", p, had, who)
			}
			holder[p] = who
		})
		if through[ours] != 2*ports {
			t.Errorf("%d of %d datagrams of the host went out", through[ours], 2*ports)
		}
		b.claimed()
	})
}
