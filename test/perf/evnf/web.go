// SPDX-License-Identifier: Apache-2.0

package evnf

// A web service behind a firewall and a load balancer, with and without fast paths in front of them.

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const webText = "A client, wrk with one thread, sends requests to two servers with nginx, which answer without content. In between are a firewall, " +
	"iptables-legacy with 100 rules in front of the one that matches, and a load balancer, HAProxy with one thread in mode tcp. Each of them has a network " +
	"namespace; with one machine, firewall and load balancer share one. A bridge of the kernel connects the namespaces. *efw and elb* are in front of the same " +
	"iptables and the same HAProxy, whose frontend elb has taken over from its file; on one machine they are one program. Each run is checked: elb has opened " +
	"the sessions, and the stacks have neither forwarded packets nor received segments of the service. Requests follow each other over connections that stay " +
	"open, or each has a connection of its own, as many at a time; the time to open it is not in the latency. " + reset + " *No functions* is what client, servers and bridge " +
	"can do. All share the CPUs of one machine, so whatever the functions need, client and servers lack, and no function has a CPU that it could saturate alone. All ways are set up at the " +
	"same time, with their daemons, and measured in turns.\n\n" +
	"*Per second of CPU* divides the requests by the CPU time of client, servers, functions and daemons. *Balancer* is the CPU time of HAProxy's process, with " +
	"the kernel's work for its sockets; for elb, that of its program and its daemon is added. *Firewall* is that of the programs of efw and their daemon; on one " +
	"machine, it is part of the balancer's. Times of programs are from the kernel's statistics of BPF, which are on in all runs. The time of iptables alone cannot be " +
	"measured. At XDP, all netdevs send frames as on a cable (`gso_max_segs 1`, checksums computed), also for iptables and HAProxy in those tables."

// webWay is one from client to servers.
type webWay struct {
	name     string
	machines int
	fast     bool
}

// Names of the ways.
const (
	twoSlow = "iptables and HAProxy, two machines"
	twoFast = "efw and elb, two machines"
	oneSlow = "iptables and HAProxy, one machine"
	oneFast = "efw and elb, one machine"
	noneWay = "no functions, one server"
)

var webWays = []webWay{{noneWay, 1, false}, {twoSlow, 2, false}, {twoFast, 2, true}, {oneSlow, 1, false}, {oneFast, 1, true}}

// setup makes the site of a way.
func (y webWay) setup(rig *lab.Rig, b *Bench, hook cube.Hook) (*site, error) {
	s, err := newSite(rig, b, hook, y.machines)
	if err != nil {
		return nil, err
	}
	if y.name == noneWay {
		s.direct()
		return s, s.answers(rig.Context())
	}
	if err := errors.Join(s.rules(), s.proxy()); err != nil {
		return nil, err
	}
	if err := s.answers(rig.Context()); err != nil || !y.fast {
		return s, err
	}
	if err := s.accelerate(); err != nil {
		return nil, err
	}
	return s, s.answers(rig.Context())
}

// figures are the results of one way.
type figures struct {
	wall, cpu, mean, median report.Sample
	// CPU time in µs per request, of HAProxy or its fast path, of that of the firewall, and of all; and of all in % of a CPU.
	balancer, firewall, functions, share report.Sample
}

func (f *figures) add(m measured) {
	n := float64(m.Requests)
	each := func(ns int64) float64 { return float64(ns) / n / 1e3 }
	f.wall, f.cpu = append(f.wall, n/m.Took*1e6), append(f.cpu, n/float64(m.all)*1e9)
	f.mean, f.median = append(f.mean, m.Mean), append(f.median, m.Median)
	f.balancer, f.firewall = append(f.balancer, each(m.proxy+m.balancer)), append(f.firewall, each(m.firewall))
	f.functions, f.share = append(f.functions, each(m.functions())), append(f.share, float64(m.functions())/m.Took/10)
}

// web is the part "evnf-web".
func web(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Hybrid functions: a web service", Text: webText}
	for _, hook := range []cube.Hook{cube.TC, cube.XDP} {
		err := lab.With(ctx, func(rig *lab.Rig) error { return webAt(rig, b, hook, out) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", contest.HookNames[hook], err)
		}
	}
	return out, nil
}

// webAt measures all ways with fast paths at a hook.
func webAt(rig *lab.Rig, b *Bench, hook cube.Hook, out *Result) error {
	sites := map[string]*site{}
	for _, y := range webWays {
		s, err := y.setup(rig, b, hook)
		if err != nil {
			return fmt.Errorf("%s: %w", y.name, err)
		}
		sites[y.name] = s
	}
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		return fmt.Errorf("statistics of programs: %w", err)
	}
	rig.Closing(stats)
	for _, each := range []bool{false, true} {
		t := webTable(hook, each)
		out.Tables = append(out.Tables, t)
		for _, n := range connectionCounts(b.Quick) {
			l := load{n, each, 1}
			results, err := race(rig, b, contest.HookNames[hook], l, sites)
			if err != nil {
				return err
			}
			addRows(t, l, results)
			out.Checks = append(out.Checks, webChecks(hook, l, results)...)
		}
	}
	return nil
}

// connectionCounts are those of the paper.
func connectionCounts(quick bool) []int {
	if quick {
		return []int{4, 36}
	}
	return []int{4, 12, 20, 36}
}

// race measures all ways in turns with one load.
func race(rig *lab.Rig, b *Bench, what string, l load, sites map[string]*site) (map[string]*figures, error) {
	results := map[string]*figures{}
	rounds := b.Rounds(9, 3)
	for round := range rounds {
		b.Progress("evnf-web: %s, %s, round %d of %d", what, l, round+1, rounds)
		for _, y := range contest.Shuffled(webWays) {
			m, err := sites[y.name].measure(l)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", y.name, l, err)
			}
			if results[y.name] == nil {
				results[y.name] = &figures{}
			}
			results[y.name].add(m)
		}
	}
	return results, nil
}

func (l load) String() string {
	if l.each {
		return fmt.Sprintf("%d new connections at a time", l.connections)
	}
	return fmt.Sprintf("%d open connections", l.connections)
}
