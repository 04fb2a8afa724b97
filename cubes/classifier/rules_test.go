// SPDX-License-Identifier: Apache-2.0

package classifier_test

// Random rules of both directions and random packets, against the rules one after the other in Go.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/repeat"
)

// rule is a traffic class; -1 and "" match anything.
type rule struct {
	id, priority, family, proto, dscp, qfi int
	direction, sender, from, to            string
	sport, dport                           [2]int
}

// rule draws one; those of a family may have prefixes.
func (d dice) rule(id int) rule {
	r := rule{id: id, priority: d.IntN(8), direction: []string{"INGRESS", "EGRESS", "BOTH", "BOTH"}[d.IntN(4)], family: d.pick(-1, 4, 4, 6, 6),
		proto: d.pick(-1, -1, 6, 17, 1), dscp: d.pick(-1, -1, -1, 0, 46), qfi: d.pick(-1, -1, -1, 5, 6), sport: [2]int{-1, -1}, dport: [2]int{-1, -1}}
	if r.proto != 1 {
		r.sport, r.dport = d.ports(), d.ports()
	}
	if d.IntN(4) == 0 {
		r.sender = fmt.Sprintf("02:00:00:00:00:%02x", d.pick(5, 6))
	}
	prefix := func() string {
		switch {
		case r.family < 0 || d.IntN(2) == 0:
			return ""
		case r.family == 4 && d.IntN(3) == 0:
			return netip.PrefixFrom(netip.MustParseAddr("10.1.0.1"), d.pick(8, 20, 32)).Masked().String()
		case r.family == 4:
			return netip.PrefixFrom(d.address(false), d.pick(1, 22, 24, 30, 32)).Masked().String()
		case d.IntN(3) == 0:
			return netip.PrefixFrom(netip.MustParseAddr("2001:db8:1:1::77"), d.pick(48, 64, 128)).Masked().String()
		}
		return netip.PrefixFrom(d.address(true), d.pick(1, 62, 64, 65, 126, 128)).Masked().String()
	}
	r.from, r.to = prefix(), prefix()
	return r
}

func (r *rule) json() map[string]any {
	m := map[string]any{"id": r.id, "class": 1000 + r.id, "priority": r.priority, "direction": r.direction}
	for name, n := range map[string]int{"l4proto": r.proto, "dscp": r.dscp, "qfi": r.qfi} {
		if n >= 0 {
			m[name] = n
		}
	}
	for name, text := range map[string]string{"smac": r.sender, "srcip": r.from, "dstip": r.to, "ethtype": map[int]string{4: "IP", 6: "IPV6"}[r.family]} {
		if text != "" {
			m[name] = text
		}
	}
	for name, ports := range map[string][2]int{"sport": r.sport, "dport": r.dport} {
		if ports[0] >= 0 {
			m[name] = fmt.Sprintf("%d-%d", ports[0], ports[1])
		}
	}
	return m
}

func (r *rule) matches(p *packet) bool {
	from, to, sport, dport, direction := p.local, p.remote, p.localPort, p.remotePort, "INGRESS"
	if !p.uplink {
		from, to, sport, dport, direction = to, from, dport, sport, "EGRESS"
	}
	within := func(ports [2]int, port int) bool {
		return ports[0] < 0 || p.proto != 1 && ports[0] <= port && port <= ports[1]
	}
	in := func(prefix string, a netip.Addr) bool {
		return prefix == "" || netip.MustParsePrefix(prefix).Contains(a)
	}
	return (r.direction == "BOTH" || r.direction == direction) && (r.family < 0 || (r.family == 4) == from.Is4()) &&
		(r.proto < 0 || r.proto == p.proto) && (r.dscp < 0 || r.dscp == p.dscp) && (r.qfi < 0 || r.qfi == p.qfi) &&
		(r.sender == "" || r.sender == fmt.Sprintf("02:00:00:00:00:%02x", p.qfi)) &&
		in(r.from, from) && in(r.to, to) && within(r.sport, sport) && within(r.dport, dport)
}

func TestRulesAreWhatALinearSearchFinds(t *testing.T) {
	seed := repeat.Seed(t)
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		const none = 7
		c, d := classify(t, l, fmt.Sprintf(`{"default-class":%d}`, none)), dice{rand.New(rand.NewPCG(seed, 0))}
		local := [2]netip.Addr{netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("2001:db8:1:1::77")}
		hits := map[uint32]int{}
		for round := range 8 {
			rules := make([]rule, 1+d.IntN([2]int{10, 200}[round%2]))
			var config []any
			for i := range rules {
				rules[i] = d.rule(1 + i)
				config = append(config, rules[i].json())
			}
			body, err := json.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			c.Set("PUT", "k traffic-class", string(body))
			slices.SortFunc(rules, func(a, b rule) int { return cmp.Or(a.priority-b.priority, a.id-b.id) })
			for range 100 {
				p, want := d.packet(local), uint32(none)
				if i := slices.IndexFunc(rules, func(r rule) bool { return r.matches(&p) }); i >= 0 {
					want = uint32(1000 + rules[i].id)
				}
				run := c.out
				if p.uplink {
					run = c.in
				}
				if got := run(p.frame()); got != want {
					t.Fatalf("%+v has class %d, want %d of %+v", p, got, want, rules)
				}
				hits[want]++
			}
		}
		if len(hits) < 20 || hits[none] == 0 {
			t.Errorf("packets match only these: %v", hits)
		}
	})
}
