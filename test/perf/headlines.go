// SPDX-License-Identifier: Apache-2.0

package perf

// The first page of docs/performance.md: ten ratios in plain words, and a chart of them.

import (
	"fmt"
	"strings"

	"github.com/polycube/polycube/test/perf/report"
)

// headline is a ratio that the first page names. check is the check that measured it.
type headline struct {
	check string
	// label and against are for the chart; sentence has one verb for the ratio.
	label, against, sentence string
	// inverse is set where the check measured what the other takes less of.
	inverse bool
}

// headlines are the ten ratios, in the order of the page.
var headlines = []headline{
	{"simplebridge on XDP against the Linux bridge", "simplebridge, XDP", "the Linux bridge",
		"A `simplebridge` at XDP forwards %s as many packets per core as the Linux bridge, end to end.", false},
	{"simplebridge on tcx against the Linux bridge", "simplebridge, TC", "the Linux bridge",
		"At TC, next to the host's stack, it forwards %s as many.", false},
	{"bridge on XDP against the Linux bridge, net", "bridge with VLANs, XDP", "the Linux bridge",
		"A `bridge` with VLANs at XDP uses a CPU %s as efficiently as the Linux bridge (without what generator and sink cost).", false},
	{"router on XDP against Linux forwarding, 10 routes, net", "router, 10 routes, XDP", "Linux forwarding",
		"A `router` at XDP forwards %s as many packets per core as Linux does with 10 routes.", false},
	{"router on XDP against Linux forwarding, 100000 routes, net", "router, 100,000 routes, XDP", "Linux forwarding",
		"With 100,000 routes it forwards %s as many.", false},
	{"router + nat on XDP against nftables, 1,000 sessions, net", "router and NAT, XDP", "nftables masquerade",
		"With source NAT and 1,000 sessions, `router` and `nat` at XDP forward %s as many packets as nftables' masquerade.", false},
	{"router + nat on tcx against nftables, 500,000 sessions, net", "router and NAT, 500,000 sessions, TC", "nftables masquerade",
		"At TC with 500,000 sessions they forward %s as many.", false},
	{"pbforwarder, XDP, against nftables' set, 1,000 rules, packets matching random rules, net", "pbforwarder, 1,000 rules, XDP", "an nftables set",
		"A `pbforwarder` with 1,000 rules classifies %s as many packets as an nftables set.", false},
	{"TCP through bridge, router and nat on tcx against Linux's chain, iperf3", "TCP through bridge, router, NAT, TC", "Linux's chain",
		"A TCP transfer through bridge, router and NAT at TC reaches %s the throughput of the same chain in Linux.", false},
	{"XDP, inlined chain of 8 against direct tail calls that count as ours does", "a chain of 8 cubes, XDP", "tail calls that count",
		"A packet crosses a chain of eight cubes %s as fast as eight programs joined by tail calls that count packets.", true},
}

// firstPage returns the sentences and the chart, of those ratios that were measured.
func (r *Run) firstPage() (sentences, chart string) {
	measured := map[string]report.Check{}
	for _, c := range r.Checks {
		measured[c.What] = c
	}
	var list strings.Builder
	var bars []report.Bar
	for _, h := range headlines {
		c, ok := measured[h.check]
		if !ok || c.Value <= 0 {
			continue
		}
		ratio := c.Value
		if h.inverse {
			ratio = 1 / ratio
		}
		fmt.Fprintf(&list, "%d. %s\n", len(bars)+1, fmt.Sprintf(h.sentence, times(ratio)))
		bars = append(bars, report.Bar{Label: h.label, Against: h.against, Ratio: ratio})
	}
	if len(bars) == 0 {
		return "", ""
	}
	return list.String(), report.Chart("Polycube compared with what else one would use, on one core", bars)
}

// times writes a ratio in words.
func times(ratio float64) string { return fmt.Sprintf("%.1f times", ratio) }
