// SPDX-License-Identifier: Apache-2.0

package filters

// A host that forwards, with the chain FORWARD of iptables and ours.

import (
	"context"
	"errors"
	"fmt"

	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const (
	hostStack = "pcn-iptables, forward=stack"
	hostFIB   = "pcn-iptables, forward=fib"
)

const hostText = "The machine forwards TCP segments without data, of connections that were opened through it before. FORWARD drops all but " +
	"established connections and new ones to the server, by the same two rules in each firewall; checksums are not verified. *of iptables* is the " +
	"whole cost, that of the way through the stack included, which forward=fib takes for the first segments of a connection only."

// forwardRules are the chain FORWARD.
var forwardRules = []string{
	"-m conntrack --ctstate ESTABLISHED -j ACCEPT",
	fmt.Sprintf("-d %s -p tcp --dport %d -m conntrack --ctstate NEW -j ACCEPT", serverAt.Addr(), serverAt.Port()),
}

// hostFirewall is a cube iptables at the host's stack.
func hostFirewall(forward string) func(*lab.Rig, *Bench, *lab.Filtered) error {
	return func(rig *lab.Rig, b *Bench, w *lab.Filtered) error {
		d, err := contest.DaemonAt(rig, b, w)
		if err != nil {
			return err
		}
		var rules []map[string]any
		for i, spec := range forwardRules {
			rules = append(rules, map[string]any{"id": i, "spec": spec})
		}
		return errors.Join(contest.Post(d, "/iptables/c1", map[string]any{
			"forward": forward, "max-sessions": 1 << 20, "pick-up": false, "chain": []map[string]any{{"name": "FORWARD", "default": "DROP", "rule": rules}},
		}), contest.Post(d, "/attach", map[string]any{"cube": "c1", "port": "host"}), d.Inlined("c1"))
	}
}

// legacyFirewall is the same in the kernel.
func legacyFirewall(rig *lab.Rig, _ *Bench, w *lab.Filtered) error {
	text := "*filter\n:FORWARD DROP\n"
	for _, spec := range forwardRules {
		text += "-A FORWARD " + spec + "\n"
	}
	return errors.Join(contest.Fed(w.Machine.Command("iptables-legacy-restore"), text+"COMMIT\n"), contest.TrackWell(rig, w))
}

// host is the part "filter-host".
func host(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Filters: a host that forwards", Text: hostText}
	devices := []device{
		{Name: none, Setup: noFilter}, {Name: iptables, Setup: legacyFirewall}, {Name: hostStack, Setup: hostFirewall("stack")}, {Name: hostFIB, Setup: hostFirewall("fib")},
	}
	for _, sessions := range []int{1000, 100_000} {
		b.Progress("filter-host: %d connections", sessions)
		var all []*runner
		err := lab.With(ctx, func(rig *lab.Rig) (err error) {
			if all, err = throughConnections(rig, b, clients(sessions, sessions > 1000), devices); err != nil {
				return err
			}
			return contest.Race(rig.Context(), b.Rounds(21, 5), all)
		})
		if err != nil {
			return nil, fmt.Errorf("%d connections: %w", sessions, err)
		}
		f := contest.FiguresOf(all)
		t := &report.Table{Title: contest.Thousands(sessions) + " connections", Columns: []string{"", "ns of CPU per packet", "of iptables"}}
		for _, d := range devices {
			t.Add(d.Name, f[d.Name].Spread(0), fmt.Sprintf("%.2f", f[d.Name].Median()/f[iptables].Median()))
		}
		out.Tables = append(out.Tables, t)
	}
	return out, nil
}
