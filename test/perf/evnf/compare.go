// SPDX-License-Identifier: Apache-2.0

package evnf

// The tables and the goals of the web service.

import (
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/report"
)

// paperNote is what the paper on hybrid functions reports of its testbed.
const paperNote = "The paper on hybrid functions measured open connections to virtual machines behind Open vSwitch with DPDK (Figs. 4 to 6): with " +
	"two machines 1.4 times the requests with 4 connections and 2.5 times with 36, a latency that was 32 % and 51 % lower, more than 90 % of a CPU for HAProxy and less than 2 % for eLB; and " +
	"with one machine instead of two up to 1.2 times the requests, and a latency up to 12 % lower."

// slower is the way without fast paths to compare one with.
var slower = map[string]string{twoFast: twoSlow, oneFast: oneSlow}

// webTable is one for open connections, or for new ones.
func webTable(hook cube.Hook, each bool) *report.Table {
	t := &report.Table{
		Title: "Web service, " + contest.HookNames[hook] + ", open connections",
		Columns: []string{
			"connections, way", "requests per second", "×", "per second of CPU", "×", "mean latency, µs", "median", "lower by", "balancer, µs per request",
			"firewall, µs", "both, % of a CPU",
		},
	}
	if each {
		t.Title = "Web service, " + contest.HookNames[hook] + ", a connection for each request"
	} else {
		t.Notes = []string{paperNote}
	}
	return t
}

// lower is by how many percent ours is below theirs.
func lower(ours, theirs report.Sample) float64 { return (1 - ours.Over(theirs).Median()) * 100 }

// addRows compares the ways with one load.
func addRows(t *report.Table, l load, results map[string]*figures) {
	for _, y := range webWays {
		r := results[y.name]
		wall, cpu, less := "", "", ""
		if base := results[slower[y.name]]; base != nil {
			wall, cpu = fmt.Sprintf("%.2f", r.wall.Over(base.wall).Median()), fmt.Sprintf("%.2f", r.cpu.Over(base.cpu).Median())
			less = fmt.Sprintf("%.0f %%", lower(r.median, base.median))
		}
		firewall := ""
		if y.fast && y.machines == 2 {
			firewall = fmt.Sprintf("%.2f", r.firewall.Median())
		}
		t.Add(fmt.Sprintf("%d, %s", l.connections, y.name), r.wall.Spread(0), wall, r.cpu.Spread(0), cpu, r.mean.Spread(0), r.median.Spread(0), less,
			fmt.Sprintf("%.2f", r.balancer.Median()), firewall, fmt.Sprintf("%.1f", r.share.Median()))
	}
	t.Notes = append(t.Notes, together(l, results))
}

// together says what efw and elb gain on one machine.
func together(l load, results map[string]*figures) string {
	one, two := results[oneFast], results[twoFast]
	return fmt.Sprintf("Here, with efw and elb on one machine instead of two and %s: %.2f times the requests, %.2f times those per second of CPU, median latency %.0f %% lower.", l,
		one.wall.Over(two.wall).Median(), one.cpu.Over(two.cpu).Median(), lower(one.median, two.median))
}

// goals are promised for open connections.
var goals = map[int]struct{ times, lower float64 }{4: {1.2, 25}, 36: {1.6, 40}}

// webChecks compares figures with the goals. On two machines, the balancer is compared with HAProxy by itself, too.
func webChecks(hook cube.Hook, l load, results map[string]*figures) (out []report.Check) {
	goal, ok := goals[l.connections]
	if !ok || l.each {
		return nil
	}
	const share = 0.05
	for _, name := range []string{twoFast, oneFast} {
		ours, theirs := results[name], results[slower[name]]
		what := fmt.Sprintf("%s, %s, %s", name, contest.HookNames[hook], l)
		out = append(out, report.AtLeast(what+": requests against iptables and HAProxy", "%.2f ×", ours.wall.Over(theirs.wall).Median(), goal.times),
			report.AtLeast(what+": median latency lower by", "%.0f %%", lower(ours.median, theirs.median), goal.lower))
		if name == twoFast {
			out = append(out, report.AtMost(what+": CPU time of elb against HAProxy", "%.3f ×", ours.balancer.Over(theirs.balancer).Median(), share))
		}
		out = append(out, report.AtMost(what+": CPU time of efw and elb against HAProxy", "%.3f ×", ours.functions.Over(theirs.functions).Median(), share))
	}
	return out
}
