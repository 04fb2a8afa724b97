// SPDX-License-Identifier: Apache-2.0

package perf

// Forwarding by rules, compared with nftables and tc.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const rulesText = "TCP SYNs and UDP datagrams of 60 bytes go from a generator through one veth, the device " +
	"under test and another veth to a counting sink, as for the bridge. Rules are like those of access lists " +
	"(prefixes, protocol, a port or a range) and send to the outer netdev; packets without a match are dropped. 1,024 " +
	"frames of randomly chosen rules are sent in rotation, or 256 that match no rule, most of which differ from a " +
	"matching one in one field. No two rules overlap, because a set has no order; ours and lists do not depend on " +
	"that. All baselines match on ingress. nftables, in the hook *ingress* of the family netdev and with `fwd to`, " +
	"has one rule for each; or one set of concatenated intervals; or a hash map from the /24 of destinations to " +
	"chains of rules, and one from the /16. tc has u32 with `mirred`, hashed by two bytes of destinations, and " +
	"nftables drops the rest; this kernel has no flower. The last two are laid out by hand for rules that all have a " +
	"destination; ours finds a layout itself, whatever fields rules have. At TC, where the skb has been allocated " +
	"already, it is about as fast as u32, except with ten thousand rules. Ours is set up through the daemon's API. In " +
	"*net*, generator and first veth are subtracted; packets without a match have no second veth and no sink."

// ruleCounts are the numbers of rules.
var ruleCounts = []int{10, 100, 1000, 10_000}

// ruleCase is one measurement.
type ruleCase struct {
	name  string
	rules int
	kind  packetKind
}

// ruleCosts are CPU times in ns of a packet, and how many were lost.
type ruleCosts struct {
	times map[ruleCase]report.Sample
	lost  map[ruleCase]uint64
}

// pbforwarder is the part "pbforwarder".
func pbforwarder(ctx context.Context, r *Run) error {
	type combination struct {
		by *ruleForwarder
		rs *ruled
	}
	var all []combination
	for _, n := range ruleCounts {
		rs := newRuled(n)
		for i := range ruleForwarders {
			all = append(all, combination{&ruleForwarders[i], rs})
		}
	}
	costs := ruleCosts{map[ruleCase]report.Sample{}, map[ruleCase]uint64{}}
	n := r.rounds(3, 1)
	for round := range n {
		r.progress("pbforwarder: round %d of %d", round+1, n)
		shuffle(all)
		for _, c := range all {
			if err := costs.measure(ctx, r, c.by, c.rs); err != nil {
				return fmt.Errorf("%s, %d rules: %w", c.by.name, len(c.rs.rules), err)
			}
		}
	}
	section := Section{Title: "pbforwarder", Text: rulesText}
	for _, kind := range packetKinds {
		section.Tables = append(section.Tables, costs.table(kind))
	}
	r.add(section, costs.checks()...)
	return nil
}

// measure sets one up and measures all kinds of packets.
func (c *ruleCosts) measure(ctx context.Context, r *Run, by *ruleForwarder, rs *ruled) error {
	return lab.With(ctx, func(rig *lab.Rig) error {
		w, err := rig.NewFrameWire()
		if err == nil {
			err = errors.Join(rig.Sink(w, cube.XDP), by.setup(rig, r, w, rs))
		}
		if err != nil {
			return err
		}
		for _, kind := range packetKinds {
			cost, err := rulesCost(w, rs.frames[kind], kind == noRule && by.name != nothing)
			if err != nil {
				return fmt.Errorf("packets %s: %w", kind, err)
			}
			which := ruleCase{by.name, len(rs.rules), kind}
			c.times[which] = append(c.times[which], cost.NS)
			c.lost[which] += cost.Lost
		}
		return nil
	})
}

// ruleBudget is the approximate maximum duration of a run, in ns: long lists are measured with fewer packets than
// rulePackets, and once if each of the frames is sent only once.
const (
	ruleBudget  = 5e7
	rulePackets = 1 << 15
)

// rulesCost is the best of a few runs with some frames.
func rulesCost(w *lab.Wire, frames [][]byte, drop bool) (best lab.Cost, err error) {
	if err := w.Frames(frames); err != nil {
		return best, err
	}
	run := func(packets int) (c lab.Cost, err error) {
		if drop {
			c.NS, err = w.MeasureDropped(packets, 0)
			return c, err
		}
		return w.Measure(packets, 0)
	}
	first, err := run(lab.MaxFrames) // everything is in the caches then
	if err != nil {
		return best, err
	}
	best.NS = math.Inf(1)
	runs := 3
	if first.NS > ruleBudget/lab.MaxFrames {
		runs = 1
	}
	for range runs {
		c, err := run(max(lab.MaxFrames, min(rulePackets, int(ruleBudget/first.NS))))
		if err != nil {
			return best, err
		}
		best.NS = min(best.NS, c.NS)
		best.Lost += c.Lost
	}
	return best, nil
}

// net is the cost of a packet without the harness.
func (c *ruleCosts) net(name string, n int, kind packetKind) report.Sample {
	null := c.times[ruleCase{nothing, n, kind}].Median()
	var out report.Sample
	for _, ns := range c.times[ruleCase{name, n, kind}] {
		out = append(out, ns-null)
	}
	return out
}

// least is the cost of the cheapest baseline.
func (c *ruleCosts) least(peers []string, n int, kind packetKind) float64 {
	least := math.Inf(1)
	for _, by := range peers {
		least = min(least, c.net(by, n, kind).Median())
	}
	return least
}

var (
	nftPeers  = []string{nftSet, nftMap, nftList}
	rulePeers = append([]string{tcU32}, nftPeers...)
)

func (c *ruleCosts) table(kind packetKind) *report.Table {
	t := &report.Table{Title: "Packets " + string(kind), Columns: []string{"net ns of CPU per packet"}}
	for _, n := range ruleCounts {
		t.Columns = append(t.Columns, thousands(n)+" rules")
	}
	t.Columns = append(t.Columns, "lost")
	for _, by := range ruleForwarders[1:] {
		row, lost := []string{by.name}, uint64(0)
		for _, n := range ruleCounts {
			row = append(row, c.net(by.name, n, kind).Spread(0))
			lost += c.lost[ruleCase{by.name, n, kind}]
		}
		t.Add(append(row, fmt.Sprint(lost))...)
	}
	for _, ours := range []string{rulesXDP, rulesTC} {
		row := []string{"× best peer, " + ours}
		for _, n := range ruleCounts {
			row = append(row, fmt.Sprintf("%.2f", c.least(rulePeers, n, kind)/c.net(ours, n, kind).Median()))
		}
		t.Add(append(row, "")...)
	}
	return t
}

// thousands writes a number below a million with a comma.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

func (c *ruleCosts) checks() []report.Check {
	var out []report.Check
	for _, k := range []struct {
		ours, than string
		peers      []string
		rules      int
		kind       packetKind
		promised   float64
	}{
		{rulesXDP, "the best baseline", rulePeers, 10, anyRule, 3},
		{rulesXDP, "the best baseline", rulePeers, 1000, anyRule, 2},
		{rulesXDP, "the best baseline", rulePeers, 10_000, anyRule, 2},
		{rulesXDP, "the best baseline", rulePeers, 1000, noRule, 2.5},
		{rulesXDP, "nftables' set", []string{nftSet}, 1000, anyRule, 4},
		{rulesXDP, "nftables' list", []string{nftList}, 1000, anyRule, 30},
		{rulesTC, "the best nftables", nftPeers, 10, anyRule, 1.1},
		{rulesTC, "the best nftables", nftPeers, 1000, anyRule, 1.05},
		{rulesTC, "the best nftables", nftPeers, 10_000, anyRule, 1.1},
		{rulesTC, tcU32, []string{tcU32}, 1000, anyRule, 0.8},
	} {
		what := fmt.Sprintf("%s, against %s, %s rules, packets %s, net", k.ours, k.than, thousands(k.rules), k.kind)
		out = append(out, report.AtLeast(what, "%.2f ×", c.least(k.peers, k.rules, k.kind)/c.net(k.ours, k.rules, k.kind).Median(), k.promised))
	}
	more := c.net(rulesXDP, 10_000, anyRule).Median() - c.net(rulesXDP, 10, anyRule).Median()
	return append(out, report.AtMost(rulesXDP+", 10,000 rules against 10, packets "+string(anyRule), "%.0f ns more", more, 150))
}
