// SPDX-License-Identifier: Apache-2.0

package pbforwarder

// Random rules and packets through the whole cube, against the rules one after the other in Go.

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/test/rulesets"
)

const labPorts = 3

// text returns a rule in the form of the API.
func text(id int, r *rulesets.Rule, action string) string {
	m := r.Members(nil)
	m["id"] = id
	out, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return strings.TrimSuffix(string(out), "}") + action + "}"
}

// generated are rules of a shape for a lab's ports.
func generated(shape string, n int, seed uint64) []rulesets.Rule {
	rules := rulesets.Make(shape, n, seed)
	for i := range rules {
		for _, r := range []*rulesets.Rule{&rules[i], rules[i].Not} {
			if r != nil && r.InPort != nil {
				*r.InPort %= labPorts
			}
		}
	}
	return rules
}

// oracle is a set of rules, searched one by one.
type oracle struct {
	matches map[int]classifier.Match
	counts  map[int]uint64 // -1: no rule
}

func (o *oracle) see(p rulesets.Packet) {
	k, _ := classifier.KeyOf(p.Frame, p.InPort, 0)
	best := -1
	for id, m := range o.matches {
		if (best < 0 || id < best) && m.Matches(&k) {
			best = id
		}
	}
	o.counts[best]++
}

// compare compares the counters of the cube with the oracle's.
func (o *oracle) compare(t *testing.T, l *bpftest.Lab, when string) {
	t.Helper()
	var rules []counted
	if err := json.Unmarshal([]byte(l.Read("f rules")), &rules); err != nil {
		t.Fatal(err)
	}
	if len(rules) != len(o.matches) {
		t.Errorf("%s: there are %d rules, want %d", when, len(rules), len(o.matches))
	}
	for _, r := range rules {
		if want := o.counts[int(r.ID)]; r.Packets != want {
			t.Errorf("%s: rule %d has %d packets, want %d", when, r.ID, r.Packets, want)
		}
	}
	if got := l.Fates("f")["no-rule"]; got != o.counts[-1] {
		t.Errorf("%s: %d packets matched no rule, want %d", when, got, o.counts[-1])
	}
}

func TestACubeDecidesWhatALinearSearchDecides(t *testing.T) {
	seed := repeat.Seed(t)
	shapes := map[string]int{"mixed": 400, "fw": 300, "l2": 60, "overlapping": 200, "ranges": 700, "wildcards": 30, "masks": 50,
		"headers": 300, "negated": 300}
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("pbforwarder", "f", threePorts)
		var none uint64
		first := 0 // ids that no other shape had, so that counters are new
		for _, shape := range slices.Sorted(maps.Keys(shapes)) {
			n := shapes[shape]
			none = differ(t, l, shape, n, seed, first, none)
			first += 10 * n
		}
	})
}

// differ tests rules of a shape, with ids starting at first. none is the number of packets without a matching rule so
// far.
func differ(t *testing.T, l *bpftest.Lab, shape string, n int, seed uint64, first int, none uint64) uint64 {
	rules := generated(shape, n, seed)
	o := &oracle{matches: map[int]classifier.Match{}, counts: map[int]uint64{-1: none}}
	texts := make([]string, n)
	for i := range rules {
		texts[i] = text(first+10*i, &rules[i], "")
		o.matches[first+10*i] = rules[i].Match()
	}
	l.Set("PUT", "f rules", "["+strings.Join(texts, ",")+"]")
	rng := rand.New(rand.NewPCG(seed, 3))
	packets := rulesets.NewPackets(rules, labPorts, seed)
	for round := range 2 {
		for range 100 {
			p := packets.Next()
			o.see(p)
			l.Flood(fmt.Sprintf("veth%d", p.InPort+1), p.Frame, 1)
		}
		o.compare(t, l, fmt.Sprintf("%s, round %d", shape, round))
		for range 5 {
			id := first + 10*rng.IntN(n) + rng.IntN(2)
			r := rules[rng.IntN(n)]
			if _, there := o.matches[id]; there && rng.IntN(2) == 0 {
				l.Set("DELETE", fmt.Sprintf("f rules %d", id), "")
				delete(o.matches, id)
				delete(o.counts, id)
				continue
			}
			l.Set("PUT", fmt.Sprintf("f rules %d", id), text(id, &r, ""))
			o.matches[id] = r.Match()
		}
	}
	return o.counts[-1]
}

// TestACubeSearchesTheGroupsThatMayMatch has 12,500 rules on ranges of ports, in more than 64 groups. Packets with ports
// near zero match few of them or none.
func TestACubeSearchesTheGroupsThatMayMatch(t *testing.T) {
	seed := repeat.Seed(t)
	const n = 12_500
	rules := generated("ranges", n, seed)
	o := &oracle{matches: map[int]classifier.Match{}, counts: map[int]uint64{}}
	texts := make([]string, n)
	for i := range rules {
		texts[i] = text(i, &rules[i], "")
		o.matches[i] = rules[i].Match()
	}
	l := bpftest.New(t, bpftest.Options{Type: cube.TypeXDPDRV})
	l.Create("pbforwarder", "f", threePorts)
	l.Set("PUT", "f rules", "["+strings.Join(texts, ",")+"]")
	rng := rand.New(rand.NewPCG(seed, 4))
	low := func() *rulesets.Ports {
		p := uint16(1<<rng.IntN(14)) + uint16(rng.IntN(1<<rng.IntN(14)))
		return &rulesets.Ports{First: p, Last: p}
	}
	for range 400 {
		p := rulesets.NewPackets([]rulesets.Rule{{SrcPort: low(), DstPort: low()}}, labPorts, rng.Uint64()).In(0)
		o.see(p)
		l.Flood(fmt.Sprintf("veth%d", p.InPort+1), p.Frame, 1)
	}
	if len(o.counts) < 6 || o.counts[-1] < 20 {
		t.Fatalf("packets match %d rules, and %d packets match none: too few to tell", len(o.counts), o.counts[-1])
	}
	o.compare(t, l, "wide ranges")
}
