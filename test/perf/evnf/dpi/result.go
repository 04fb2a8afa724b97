// SPDX-License-Identifier: Apache-2.0

package dpi

// Tables and checks.

import (
	"fmt"
	"math"
	"strconv"

	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// gigabits is how many gigabits of frames a second of CPU time is enough for, at some ns per frame.
func gigabits(ns float64) float64 { return lab.MixFrame * 8 / ns }

// chainsOf are all chains by name.
type chainsOf map[string]*runner

// time is the CPU time of a chain in ns per packet with a load.
func (c chainsOf) time(name string, l load) float64 { return c[name].at[l].all.Median() }

// peer is that of iptables and nDPI, the better of both.
func (c chainsOf) peer(l load) float64 { return math.Min(c.time(queued, l), c.time(copied, l)) }

// result has the figures of all chains, and the goals.
func result(all []*runner, long lasting) *contest.Result {
	by := chainsOf{}
	for _, r := range all {
		by[r.name] = r
	}
	out := &contest.Result{Title: "Hybrid functions: a firewall and nDPI", Text: text}
	out.Tables = append(out.Tables, throughput(all, by, false), throughput(all, by, true), counted(all), long.table())
	goals := map[int]float64{0: 1, lab.MixOf / 2: 1.3, lab.MixOf: 1.8}
	for _, l := range loads() {
		if goal, ok := goals[l.elephants]; ok {
			is := by.peer(l) / by.time(chainXDP, l)
			if l == allElephants {
				is = math.Min(by.time(queued, l), long.peer.Median()) / long.all.Median()
			}
			out.Checks = append(out.Checks, report.AtLeast(fmt.Sprintf("throughput of %s against iptables + nDPI, %s", chainXDP, l), "%.2f ×", is, goal))
		}
	}
	out.Checks = append(out.Checks, by.firewalls(copiedEFW, copied), by.firewalls(nextEFW, copiedNext),
		report.AtMost("polycube-ndpi, 100 % elephants, of a CPU while another one sends", "%.2f %%", 100*long.process.Median(), 1))
	for _, r := range all {
		if r.of != nil {
			flows, classified := r.flows()
			out.Checks = append(out.Checks, report.AtMost("packets lost by "+r.name, "%.2f %%", 100*r.lost(), 0.1))
			out.Checks = append(out.Checks, report.AtLeast("flows classified by "+r.name, "%.1f %%", 100*classified/flows, 99))
		}
	}
	return out
}

// firewalls compares two firewalls before the same nDPI.
func (c chainsOf) firewalls(ours, peer string) report.Check {
	var is, was float64
	for _, l := range loads() {
		if !l.mice {
			is, was = is+c.time(ours, l), was+c.time(peer, l)
		}
	}
	return report.AtLeast(fmt.Sprintf("throughput of %s against %s, as many packets of each share, long flows", ours, peer), "%.2f ×", was/is, 1.2)
}

// others are what packets belong to that are not of elephants.
var others = map[bool]string{false: "long flows", true: "mice"}

func (l load) String() string {
	text := fmt.Sprintf("%d %% elephants", 100*l.elephants/lab.MixOf)
	if l != allElephants {
		text += ", the others " + others[l.mice]
	}
	return text
}

// paper are the figures of the paper in Gbit/s, on machines of its own, and the CPU of eDPI.
var paper = [][]string{
	{"*the eVNF paper:* eFW + eDPI, Gbit/s", "3.0", "", "3.6", "", "5.0"},
	{"*the eVNF paper:* eFW + nDPI, Gbit/s", "3.04", "", "", "", ""},
	{"*the eVNF paper:* iptables + nDPI, Gbit/s", "2.3", "", "", "", ""},
	{"*the eVNF paper:* CPU of eDPI", "saturated", "", "66 %", "", "1 %"},
}

// throughput is the table of all chains by the share of elephants.
func throughput(all []*runner, by chainsOf, mice bool) *report.Table {
	t := &report.Table{Title: "Gigabits of frames per second of CPU time, elephants and " + others[mice], Columns: []string{"elephants", "0 %", "25 %", "50 %", "75 %", "100 %"}}
	add := func(name string, cell func(l load) string) {
		cells := []string{name}
		for n := range lab.MixOf {
			cells = append(cells, cell(load{n, mice}))
		}
		t.Add(append(cells, cell(allElephants))...)
	}
	for _, r := range all {
		add(r.name, func(l load) string { return fmt.Sprintf("%.2f", gigabits(by.time(r.name, l))) })
	}
	for _, name := range []string{chainXDP, chainTCX} {
		add(name+", × iptables + nDPI", func(l load) string { return fmt.Sprintf("%.2f", by.peer(l)/by.time(name, l)) })
	}
	t.Notes = []string{"Medians of all rounds. Each mouse is a new flow, of which nDPI has to see each packet, whoever brings it there."}
	if !mice {
		t.Rows = append(t.Rows, paper...)
		t.Notes = []string{"Medians of all rounds. In the paper, too, all flows are long. But its eDPI offloads elephants only, and the packets of other flows go on to nDPI, which discards them. `edpi` " +
			"offloads each flow that is classified, so that their share makes hardly a difference."}
	}
	return t
}

// counted is the table of what the classifiers have seen.
func counted(all []*runner) *report.Table {
	t := &report.Table{Title: "What was classified", Columns: []string{"", "packets sent", "lost", "inspected, mice alone", "50 % elephants", "100 %", "flows", "classified",
		"CPU of its process, mice alone", "50 % elephants", "100 %"}}
	shown := []load{{0, true}, {lab.MixOf / 2, true}, allElephants}
	for _, r := range all {
		if r.of == nil {
			continue
		}
		packets, lost := r.packets()
		cells := []string{r.name, strconv.FormatUint(packets, 10), strconv.FormatUint(lost, 10)}
		for _, l := range shown {
			cells = append(cells, fmt.Sprintf("%.1f %%", 100*float64(r.at[l].seen.inspected)/float64(r.at[l].packets)))
		}
		flows, classified := r.flows()
		cells = append(cells, fmt.Sprintf("%.0f", flows), fmt.Sprintf("%.1f %%", 100*classified/flows))
		for _, l := range shown {
			cells = append(cells, fmt.Sprintf("%.0f %%", 100*r.at[l].process.Median()/r.at[l].all.Median()))
		}
		t.Add(cells...)
	}
	t.Notes = []string{"*Lost* are packets that have not arrived, or that the classifier has not counted. *Inspected* are packets that nDPI has looked at. The CPU of the process is its part of all CPU time; behind NFQUEUE it contains the rest of a packet's way, after the verdict."}
	return t
}

// packets are those of all rounds, and how many were lost.
func (r *runner) packets() (sent, lost uint64) {
	for _, f := range r.at {
		sent, lost = sent+f.packets, lost+f.packets-f.good
	}
	return sent, lost
}

// lost is the share of packets that were lost.
func (r *runner) lost() float64 {
	sent, lost := r.packets()
	return float64(lost) / float64(sent)
}

// flows are those of all rounds, and how many were classified.
func (r *runner) flows() (flows, classified float64) {
	for _, f := range r.at {
		flows, classified = flows+float64(f.seen.flows), classified+float64(f.seen.classified)
	}
	return flows, classified
}

// table is the table of elephants alone.
func (l lasting) table() *report.Table {
	t := &report.Table{Title: chainXDP + ": elephants alone, for longer", Columns: []string{"", "of a CPU"}}
	share := func(s report.Sample) string { return fmt.Sprintf("%.2f %%", 100*s.Median()) }
	edpi := l.path.Less(l.without)
	t.Add("process polycube-ndpi", share(l.process))
	t.Add("edpi in the fast path", fmt.Sprintf("%.1f %%", 100*edpi.Median()/l.path.Median()))
	t.Add("daemon polycubed, of efw and edpi", share(l.daemon))
	t.Notes = []string{fmt.Sprintf("While one CPU does nothing but sending, at %.1f Gbit/s. The fast path of edpi takes %s ns of the %s ns of a packet, which is the "+
		"difference to *%s*. With all processes, a second of CPU time is enough for %.2f Gbit, and for %.2f with *%s*; the goal compares these, as programs that "+
		"work by the clock take more of a short burst.", gigabits(l.path.Median()), edpi.Spread(0), l.path.Spread(0), efwAlone, gigabits(l.all.Median()),
		gigabits(l.peer.Median()), copied)}
	return t
}
