// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/repeat"
)

// forwardsOf returns the entries of the map by their match.
func forwardsOf(t *testing.T, l *bpftest.Lab) map[string]string {
	t.Helper()
	table, err := table.Of[forwardKey, forward]("forwards", l.Map("n", "forwards"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for k, v := range table.All(&err) {
		out[fmt.Sprintf("%s %d %d/%d", k.Addr.Addr(), k.Proto, k.Port.number(), k.Bits)] =
			fmt.Sprintf("%s %s %d-%d rule %d", v.Origin, v.To.Addr(), v.Port.number(), v.Base.number(), v.Rule)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEachRuleIsInTheMaps: the value of each leaf of a rule is in the map, and is removed with the rule at any level.
func TestEachRuleIsInTheMaps(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("nat", "n", "")
	tests := []struct {
		words, body string
		sources     map[string]string
		forwards    map[string]string
	}{
		{"rule snat entry 3", `{"internal-net":"10.0.0.7/24","external-ip":"203.0.113.1"}`,
			map[string]string{"10.0.0.0/120": "snat 203.0.113.1+1 0-0 rule 3"}, nil},
		{"rule snat entry 3", `{"internal-net":"10.0.0.0/24","external-ip":"203.0.113.0/28","port-first":1000}`,
			map[string]string{"10.0.0.0/120": "snat 203.0.113.0+16 1000-65535 rule 3"}, nil},
		{"rule snat entry 3", `{"internal-net":"fd00::/64","external-ip":"2001:db8::/124","port-last":500}`,
			map[string]string{"fd00::/64": "snat 2001:db8::+16 500-500 rule 3"}, nil},
		{"rule dnat entry 4", `{"external-ip":"203.0.113.2/32","internal-ip":"10.0.0.2"}`, nil,
			map[string]string{"203.0.113.2 0 0/128": "dnat 10.0.0.2 0-0 rule 4"}},
		{"rule dnat entry 4", `{"external-ip":"2001:db8::2","internal-ip":"fd00::2"}`, nil,
			map[string]string{"2001:db8::2 0 0/128": "dnat fd00::2 0-0 rule 4"}},
		{"rule port-forwarding entry 5", `{"external-ip":"203.0.113.3","external-port":80,"proto":"TCP","internal-ip":"10.0.0.3","internal-port":8080}`, nil,
			map[string]string{"203.0.113.3 6 80/160": "portforwarding 10.0.0.3 8080-80 rule 5"}},
		{"rule port-forwarding entry 5", `{"external-ip":"203.0.113.3","external-port":53,"internal-ip":"10.0.0.3","internal-port":5353}`, nil,
			map[string]string{"203.0.113.3 6 53/160": "portforwarding 10.0.0.3 5353-53 rule 5", "203.0.113.3 17 53/160": "portforwarding 10.0.0.3 5353-53 rule 5"}},
		{"rule port-forwarding entry 5", `{"external-ip":"203.0.113.3","external-port":100,"external-port-last":104,"proto":"udp","internal-ip":"10.0.0.3","internal-port":200}`, nil,
			map[string]string{"203.0.113.3 17 100/158": "portforwarding 10.0.0.3 200-100 rule 5", "203.0.113.3 17 104/160": "portforwarding 10.0.0.3 200-100 rule 5"}},
	}
	for i, tt := range tests {
		words := strings.Fields(tt.words)
		for _, method := range []string{"POST", "PUT"} {
			l.Set(method, "n "+tt.words, tt.body)
			if got := sourcesOf(t, l); !maps.Equal(got, tt.sources) {
				t.Errorf("%s: sources are %v, want %v", tt.body, got, tt.sources)
			}
			if got := forwardsOf(t, l); !maps.Equal(got, tt.forwards) {
				t.Errorf("%s: forwards are %v, want %v", tt.body, got, tt.forwards)
			}
			if i%2 == 0 {
				l.Restart(nil)
				if got := sourcesOf(t, l); !maps.Equal(got, tt.sources) {
					t.Errorf("%s: after a restart sources are %v, want %v", tt.body, got, tt.sources)
				}
			}
			// Deleting is possible at each level.
			if method == "POST" {
				l.Set("DELETE", "n "+strings.Join(words[:len(words)-i%4], " "), "")
				if s, f := sourcesOf(t, l), forwardsOf(t, l); len(s)+len(f) != 0 {
					t.Errorf("%s: left are %v %v", tt.words, s, f)
				}
			}
		}
		l.Set("DELETE", "n rule", "")
	}
}

// TestWhatARuleCannotBe: each refusal names the error, and nothing is left of the rule.
func TestWhatARuleCannotBe(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("nat", "n", `{"rule":{"snat":{"entry":[{"id":0,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"}]},
		"dnat":{"entry":[{"id":0,"external-ip":"203.0.113.2","internal-ip":"10.0.0.2"}]},
		"port-forwarding":{"entry":[{"id":0,"external-ip":"203.0.113.3","external-port":80,"external-port-last":89,"proto":"tcp","internal-ip":"10.0.0.3","internal-port":8080}]}}}`)
	before := l.Read("n rule")
	for _, tt := range []struct {
		words, body, says string
		kind              error
	}{
		{"snat", `{"internal-net":"10.0.0.99/24","external-ip":"203.0.113.9"}`, "internal-net 10.0.0.0/24 is already used by entry 0", cube.ErrExists},
		{"snat", `{"internal-net":"10.1.0.0/24","external-ip":"2001:db8::1"}`, "internal-net 10.1.0.0: the external address is an IPv6 address", cube.ErrInvalid},
		{"snat", `{"internal-net":"fd00::/64","external-ip":"203.0.113.1"}`, "is an IPv4 address", cube.ErrInvalid},
		{"snat", `{"internal-net":"10.1.0.0/24","external-ip":"198.0.0.0/15"}`, "at most 65536 addresses", cube.ErrInvalid},
		{"snat", `{"internal-net":"10.1.0.0/24","external-ip":"0.0.0.0"}`, "unspecified", cube.ErrInvalid},
		{"snat", `{"internal-net":"10.1.0.0/24","external-ip":"203.0.113.9","port-first":2000,"port-last":1999}`, "port-first 2000 is greater than port-last 1999", cube.ErrInvalid},
		{"snat", `{"internal-net":"::ffff:10.1.0.0/120","external-ip":"2001:db8::1"}`, "write an IPv4 address as a.b.c.d", cube.ErrInvalid},
		{"snat", `{"internal-net":"10.1.0.0/24"}`, "external-ip", nil},
		{"dnat", `{"external-ip":"203.0.113.2/32","internal-ip":"10.0.0.9"}`, "external-ip 203.0.113.2/32 is already used by entry 0", cube.ErrExists},
		{"dnat", `{"external-ip":"203.0.113.0/24","internal-ip":"10.0.0.9"}`, "must be a single address", cube.ErrInvalid},
		{"dnat", `{"external-ip":"203.0.113.9","internal-ip":"fd00::1"}`, "is an IPv4 address", cube.ErrInvalid},
		{"port-forwarding", `{"external-ip":"203.0.113.3","external-port":85,"proto":"tcp","internal-ip":"10.0.0.4","internal-port":1}`, "external-port 85 of tcp is already used by entry 0", cube.ErrExists},
		{"port-forwarding", `{"external-ip":"203.0.113.3","external-port":70,"external-port-last":80,"proto":"tcp","internal-ip":"10.0.0.4","internal-port":1}`, "external-port 80 of tcp", cube.ErrExists},
		{"port-forwarding", `{"external-ip":"203.0.113.3","external-port":20,"external-port-last":10,"internal-ip":"10.0.0.4","internal-port":1}`, "external-port 20 is greater than", cube.ErrInvalid},
		{"port-forwarding", `{"external-ip":"203.0.113.3","external-port":1000,"external-port-last":1999,"internal-ip":"10.0.0.4","internal-port":65000}`, "is above 65535", cube.ErrInvalid},
		{"port-forwarding", `{"external-ip":"203.0.113.3","external-port":0,"internal-ip":"10.0.0.4","internal-port":1}`, "external-port", nil},
		{"port-forwarding", `{"external-ip":"203.0.113.3","external-port":1,"proto":"icmp","internal-ip":"10.0.0.4","internal-port":1}`, "proto", nil},
	} {
		err := l.Try("POST", "n rule "+tt.words+" entry 1", tt.body)
		if err == nil || !strings.Contains(err.Error(), tt.says) || tt.kind != nil && !errors.Is(err, tt.kind) {
			t.Errorf("%s %s: %v, want %q", tt.words, tt.body, err, tt.says)
		}
	}
	if after := l.Read("n rule"); after != before {
		t.Errorf("the rules are %s, want %s", after, before)
	}
	if s, f := sourcesOf(t, l), forwardsOf(t, l); len(s) != 1 || len(f) != 3 {
		t.Errorf("the maps have %v %v", s, f)
	}
}

func TestAppendedRulesAreNumberedInTheirOrder(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("nat", "n", "")
	for i, tt := range []struct{ words, input, id, entry string }{
		{"snat", `{"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1","port-first":5,"port-last":6}`, "0",
			`{"id":0,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1/32","port-first":5,"port-last":6}`},
		{"snat", `{"internal-net":"10.1.0.0/24","external-ip":"203.0.113.1/32"}`, "1", `{"id":1,"internal-net":"10.1.0.0/24","external-ip":"203.0.113.1/32"}`},
		{"dnat", `{"external-ip":"203.0.113.1","internal-ip":"10.0.0.1"}`, "0", `{"id":0,"external-ip":"203.0.113.1/32","internal-ip":"10.0.0.1"}`},
		{"port-forwarding", `{"external-ip":"2001:DB8::1","external-port":1,"external-port-last":2,"proto":"UDP","internal-ip":"fd00::1","internal-port":9}`, "0",
			`{"id":0,"external-ip":"2001:db8::1/128","external-port":1,"external-port-last":2,"proto":"udp","internal-ip":"fd00::1","internal-port":9}`},
	} {
		if got := l.Action("n rule "+tt.words+" append", tt.input); got != `{"id":`+tt.id+`}` {
			t.Errorf("%d: append answers %s, want id %s", i, got, tt.id)
		}
		if got := l.Read("n rule " + tt.words + " entry " + tt.id); got != tt.entry {
			t.Errorf("%d: the rule is %s, want %s", i, got, tt.entry)
		}
	}
	l.Set("POST", "n rule snat entry 4294967295", `{"internal-net":"10.2.0.0/24","external-ip":"203.0.113.1"}`)
	if got := l.Action("n rule snat append", `{"internal-net":"10.3.0.0/24","external-ip":"203.0.113.1"}`); got != `{"id":2}` {
		t.Errorf("with the last number taken, append answers %s", got)
	}
}

// winner returns the rule for a port of a protocol, according to the model.
func winner(rules map[uint32]*ForwardEntry, proto Protocol, port uint16) (found *ForwardEntry) {
	for _, r := range rules {
		if r.ExternalPort <= port && port <= r.last() && (r.Proto == proto || r.Proto == protoAll && found == nil) {
			found = r
		}
	}
	return found
}

// TestForwardedPortsAreThoseOfTheRules: after random changes, the longest prefix of each port leads where the rules
// say, and incremental changes give the same result as a rebuild.
func TestForwardedPortsAreThoseOfTheRules(t *testing.T) {
	seed := repeat.Seed(t)
	random := rand.New(rand.NewPCG(seed, 1))
	set, have := newRuleSet(), map[forwardKey]forward{}
	external := External{netip.MustParsePrefix("203.0.113.1/32"), false}
	for step := range 600 {
		id := random.Uint32N(30)
		c := change{list: listForward}
		if old, ok := set.forward[id]; ok {
			c.old = old
		}
		if c.old == nil || random.IntN(3) == 0 {
			first := uint16(random.IntN(200) + 1)
			e := &ForwardEntry{ID: id, ExternalIP: external, ExternalPort: first, Proto: Protocol(random.IntN(3)),
				InternalIP: netip.MustParseAddr("10.0.0.1"), InternalPort: uint16(id) * 100}
			if random.IntN(2) == 0 {
				e.ExternalPortLast = first + uint16(random.IntN(40))
			}
			c.new = e
		}
		before := set.forwardEntries([]change{c})
		if err := set.apply([]change{c}); err != nil {
			if !errors.Is(err, cube.ErrExists) {
				t.Fatal(err)
			}
			continue
		}
		after := set.forwardEntries([]change{c})
		for k := range before {
			delete(have, k)
		}
		maps.Copy(have, after)
		var all []change
		for _, r := range set.forward {
			all = append(all, change{list: listForward, new: r})
		}
		if want := set.forwardEntries(all); !maps.Equal(have, want) {
			t.Fatalf("step %d: %d entries, want %d", step, len(have), len(want))
		}
	}
	for proto := protoTCP; proto < protoAll; proto++ {
		for port := range uint16(300) {
			want := winner(set.forward, proto, port)
			got, ok := longest(have, proto, port)
			if ok != (want != nil) || ok && (got.Rule != want.ID || got.Base.number() != want.ExternalPort || got.Port.number() != want.InternalPort) {
				t.Errorf("port %d of %s: %+v, want %+v", port, protocolNames[proto], got, want)
			}
		}
	}
}

func longest(have map[forwardKey]forward, proto Protocol, port uint16) (found forward, ok bool) {
	length := uint32(0)
	for k, v := range have {
		shift := portBits - k.Bits
		if k.Proto == numbers[proto] && k.Port.number()>>shift == port>>shift && k.Bits > length {
			found, ok, length = v, true, k.Bits
		}
	}
	return found, ok
}

// TestTimedOneRuleAmongTenThousand: the cost of a change depends on the change, not on the number of rules.
func TestTimedOneRuleAmongTenThousand(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	var snat, forwards []map[string]any
	for i := range 10000 {
		snat = append(snat, map[string]any{"id": i, "internal-net": fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255), "external-ip": "203.0.113.1"})
		forwards = append(forwards, map[string]any{"id": i, "external-ip": "203.0.113.2/32", "external-port": i + 1, "internal-ip": "10.0.0.1", "internal-port": 80})
	}
	body, err := json.Marshal(map[string]any{"rule": map[string]any{"snat": map[string]any{"entry": snat}, "port-forwarding": map[string]any{"entry": forwards}}})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	l.Create("nat", "n", string(body))
	whole := time.Since(began)
	t.Logf("20,000 rules were made in %v", whole)
	if s, f := len(sourcesOf(t, l)), len(forwardsOf(t, l)); s != 10000 || f != 20000 {
		t.Fatalf("%d sources and %d forwards", s, f)
	}
	var took []time.Duration
	for i := range 50 {
		began := time.Now()
		l.Set("POST", fmt.Sprintf("n rule snat entry %d", 20000+i), fmt.Sprintf(`{"internal-net":"172.16.%d.0/24","external-ip":"203.0.113.1/32"}`, i))
		l.Set("PATCH", fmt.Sprintf("n rule port-forwarding entry %d internal-port", i), "81")
		took = append(took, time.Since(began)/2)
	}
	slices.Sort(took)
	t.Logf("one change: median %v, longest %v", took[25], took[49])
	if s := len(sourcesOf(t, l)); s != 10050 {
		t.Errorf("%d sources", s)
	}
	if took[25] > whole/20 {
		t.Errorf("one change takes %v, all of them %v", took[25], whole)
	}
}
