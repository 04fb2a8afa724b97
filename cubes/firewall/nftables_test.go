// SPDX-License-Identifier: Apache-2.0

package firewall_test

// The same random rules and traffic through the cube and through a Linux router with nftables and nf_conntrack: each
// packet must pass or be dropped in both, by the same rule, and have the same state.

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/test/rulesets"
	"github.com/polycube/polycube/test/traffic"
)

// contest is a comparison.
type contest struct {
	linux *linux
	ours  []*ours
	// Numbers of packets: by state, those that pass, and those that are not compared, by reason.
	classes map[conntrack.Class]int
	passed  int
	ruled   int // those that a rule judges, not the default or the state
	known   map[string]int
}

// phases are how many rule sets follow each other while connections continue.
const phases = 2

// round compares a number of packets with random rules.
func (c *contest) round(t *testing.T, seed uint64, packets int) {
	if err := c.linux.Forget(); err != nil {
		t.Fatal(err)
	}
	for _, o := range c.ours {
		o.forget()
	}
	var source *traffic.Source
	for phase := range uint64(phases) {
		rules := randomRules(seed, phase)
		if phase == 0 {
			source = traffic.New(rules.plain(), seed)
		}
		source.Follow(rules.plain(), seed+phase)
		all, err := c.judge(rules, source, packets/phases)
		if err != nil {
			t.Fatalf("seed %d, phase %d: %v", seed, phase, err)
		}
		for _, o := range c.ours {
			o.load(rules)
			if err := o.compare(rules, all, phase == 0); err != nil {
				t.Errorf("seed %d, phase %d: %s: %v", seed, phase, o.name, err)
			}
		}
	}
}

// judge has Linux judge packets, and returns those that are compared.
func (c *contest) judge(rules *ruleset, source *traffic.Source, packets int) (all []traffic.Judged, err error) {
	if err := c.linux.load(rules); err != nil {
		return nil, err
	}
	for range packets {
		j, err := c.linux.judge(source.Next())
		if err != nil {
			return nil, err
		}
		known, err := j.Apply(c.linux.Router, rules.options)
		if err != nil {
			return nil, fmt.Errorf("packet %d: %w\n%s", len(all), err, rules.describe(&j))
		}
		if known != "" {
			c.known[known]++
			continue
		}
		c.classes[j.Class]++
		if j.Passed {
			c.passed++
		}
		if rules.ruled(&j) {
			c.ruled++
		}
		all = append(all, j)
	}
	return all, nil
}

// maxRetrans is that of the cube, and of Linux by default.
const maxRetrans = 3

// setCount is the number of sets of addresses.
const setCount = 3

// randomRules are the rules for a seed, and their phase. Connections are tracked alike in all phases; a change of that
// links programs, which takes longer than the packets.
func randomRules(seed, phase uint64) *ruleset {
	tracking := &matcher{rand.New(rand.NewPCG(seed, 17))}
	g := &matcher{rand.New(rand.NewPCG(seed, 13+phase<<8))}
	rules := &ruleset{sets: map[string][]string{}, pass: tracking.IntN(3) == 0, observed: g.IntN(3) > 0}
	rules.options = conntrack.Options{PickUp: tracking.IntN(4) > 0, Liberal: tracking.IntN(5) == 0, MaxRetrans: maxRetrans}
	var names []string
	for i := range setCount {
		names = append(names, fmt.Sprintf("set%d", i))
		for _, shape := range []string{"acl", "acl6"} {
			for _, r := range rulesets.Make(shape, 12, seed+uint64(i)) {
				rules.sets[names[i]] = append(rules.sets[names[i]], r.Dst.String())
			}
		}
		slices.Sort(rules.sets[names[i]])
		rules.sets[names[i]] = slices.Compact(rules.sets[names[i]])
	}
	for side := range rules.chains {
		rules.accept[side] = g.IntN(2) == 0
		if g.IntN(5) == 0 {
			continue
		}
		for range 1 + g.IntN(40) {
			rules.chains[side] = append(rules.chains[side], g.rule(names))
		}
	}
	return rules
}

// plain are the header fields of all rules.
func (r *ruleset) plain() (out []rulesets.Rule) {
	for _, chain := range r.chains {
		for i := range chain {
			one := chain[i].Rule
			if chain[i].dports != nil {
				one.DstPort = &chain[i].dports[0]
			}
			if chain[i].sports != nil {
				one.SrcPort = &chain[i].sports[0]
			}
			out = append(out, one)
		}
	}
	return out
}

// ruled reports whether a rule has judged a packet.
func (r *ruleset) ruled(j *traffic.Judged) bool {
	return slices.ContainsFunc(j.Counts, func(name string) bool {
		side, rule, ok := ruleOf(name)
		return ok && rule < len(r.chains[side])
	})
}

// describe says what a packet is, and which rules have counted it in Linux.
func (r *ruleset) describe(j *traffic.Judged) string {
	text := fmt.Sprintf("%s from side %d, %v in Linux, passed: %v: %x\n", j.What, j.From, j.Class, j.Passed, j.IP)
	for _, name := range j.Counts {
		if side, rule, ok := ruleOf(name); ok && rule < len(r.chains[side]) {
			text += r.chains[side][rule].nft(name) + r.chains[side][rule].api() + "\n"
		} else if ok {
			text += name + ", the default\n"
		}
	}
	return text
}

// expected are the packets that each rule of the cube counts.
func (r *ruleset) expected(all []traffic.Judged) (out [2][]uint64) {
	frees := 0
	if r.observed {
		frees = len(states)
	}
	for side := range out {
		out[side] = make([]uint64, frees+len(r.chains[side])+1)
	}
	for _, j := range all {
		for _, name := range j.Counts {
			side, rule, ok := ruleOf(name)
			if !ok {
				continue
			}
			out[side][frees+rule]++
			if r.observed {
				out[side][slices.Index(states, j.Class)]++
			}
		}
	}
	return out
}

// compare has the cube judge packets, and returns in what it differs. fresh says that there were no connections before, so
// that a difference can be found by judging the packets again.
func (o *ours) compare(rules *ruleset, all []traffic.Judged, fresh bool) error {
	again := func() string { return "" }
	if fresh {
		again = func() string { return o.replay(rules, all) }
	}
	for i, passed := range o.run(all) {
		if passed != all[i].Passed {
			return fmt.Errorf("packet %d of %d passes: %v\n%s%s", i, len(all), passed, rules.describe(&all[i]), again())
		}
	}
	for side, want := range rules.expected(all) {
		if got := o.counts(uint8(side)); !slices.Equal(got, want) {
			return fmt.Errorf("the counters of chain %s are\n%v, want\n%v\n%s", chainNames[side], got, want, again())
		}
	}
	return nil
}

// replay finds the first packet that another rule counts than in Linux.
func (o *ours) replay(rules *ruleset, all []traffic.Judged) string {
	o.forget()
	for i := range all {
		o.run(all[i : i+1])
		want := rules.expected(all[:i+1])
		for side := range want {
			if got := o.counts(uint8(side)); !slices.Equal(got, want[side]) {
				var b strings.Builder
				fmt.Fprintf(&b, "packet %d is the first that %s counts differently:\n%v, want\n%v\n", i, chainNames[side], got, want[side])
				for n := range i + 1 {
					if all[n].Conn != nil && all[n].Conn == all[i].Conn || n == i {
						fmt.Fprintf(&b, "%d: %s", n, rules.describe(&all[n]))
					}
				}
				for k := range got {
					if at := k - o.frees; got[k] != want[side][k] && at >= 0 && at < len(rules.chains[side]) {
						fmt.Fprintf(&b, "rule %d: %s\n", at, rules.chains[side][at].api())
					}
				}
				return b.String()
			}
		}
	}
	return "one by one, all packets are counted as in Linux"
}

func TestTheFirewallJudgesAsNftablesDoes(t *testing.T) {
	seed := repeat.Seed(t)
	c := &contest{linux: newLinux(t), classes: map[conntrack.Class]int{}, known: map[string]int{}}
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		c.ours = append(c.ours, newOurs(t, typ))
	}
	rounds, packets := uint64(10), 1200
	if os.Getenv("POLYCUBE_SOAK") != "" {
		rounds = 300
	}
	for round := range rounds {
		c.round(t, seed+round, packets)
		if t.Failed() {
			return
		}
	}
	c.enough(t)
}

// enough fails the test if its packets say too little.
func (c *contest) enough(t *testing.T) {
	all := 0
	for _, n := range c.classes {
		all += n
	}
	t.Logf("%d packets: %v; %d pass, a rule judges %d, known differences: %v", all, c.classes, c.passed, c.ruled, c.known)
	if c.passed < all/10 || all-c.passed < all/10 || c.ruled < all/10 {
		t.Error("the packets pass, are dropped, or are judged by rules too rarely")
	}
	for _, class := range []conntrack.Class{conntrack.New, conntrack.Established, conntrack.Related, conntrack.Invalid} {
		if c.classes[class] < all/100 {
			t.Errorf("%d packets are %v", c.classes[class], class)
		}
	}
}
