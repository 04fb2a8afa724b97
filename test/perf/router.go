// SPDX-License-Identifier: Apache-2.0

package perf

// The router from wire to wire, compared with the kernel's forwarding.

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/polycube/polycube/cube"

	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// The forwarders.
const (
	linuxForwarding = "Linux forwarding"
	routerXDP       = "router, XDP"
	routerTC        = "router, tcx"
)

const routerText = "UDP datagrams of 60 bytes go from a generator through one veth, the device under test and " +
	"another veth to a counting sink, all on one CPU and in one task, as for the bridge. Their targets are 10,000 " +
	"random addresses in the networks of the routes, in rotation. Linux forwards without netfilter, and its " +
	"neighbours are permanent; ours is set up through the daemon's API. In *net*, generator and first veth are " +
	"subtracted."

// router is the part "router".
func router(ctx context.Context, r *Run) error {
	section := Section{Title: "router", Text: routerText}
	var checks []report.Check
	for _, n := range []int{10, 100_000} {
		times, lost, err := routerRounds(ctx, r, n)
		if err != nil {
			return fmt.Errorf("%d routes: %w", n, err)
		}
		section.Tables = append(section.Tables, throughputTable(fmt.Sprintf("%d routes", n), linuxForwarding, routerOrder, times, lost))
		promised := 2.8
		if n > 10 {
			promised = 2
		}
		checks = append(checks,
			netRatio(fmt.Sprintf("router on XDP against Linux forwarding, %d routes, net", n), times, linuxForwarding, routerXDP, promised),
			netRatio(fmt.Sprintf("router on tcx against Linux forwarding, %d routes, net", n), times, linuxForwarding, routerTC, 1.1))
	}
	r.add(section, checks...)
	return nil
}

var routerOrder = []string{nothing, routerXDP, routerTC, linuxForwarding}

func routerRounds(ctx context.Context, r *Run, n int) (map[string]report.Sample, map[string]uint64, error) {
	networks := routes(n)
	flows := lab.Flows{Sources: 1, Ports: 1, Targets: someOf(networks, 10_000)}
	ours := func(typ cube.Type) func(*lab.Rig, *Run, *lab.Wire) error {
		return func(rig *lab.Rig, r *Run, w *lab.Wire) error {
			_, err := newRouter(rig, r, w, typ, 1<<17, networks, rightHost)
			return err
		}
	}
	return rounds(ctx, r, fmt.Sprintf("router, %d routes", n), flows, 63, false, []between{
		{nothing, discard}, {routerXDP, ours(cube.TypeXDPDRV)}, {routerTC, ours(cube.TypeTC)}, {linuxForwarding, kernelRoutes(networks)},
	})
}

// someOf chooses addresses in networks.
func someOf(networks []netip.Prefix, n int) []netip.Addr {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	out := make([]netip.Addr, n)
	for i := range out {
		a := networks[rng.IntN(len(networks))].Addr().As4()
		a[3] = byte(rng.IntN(256))
		out[i] = netip.AddrFrom4(a)
	}
	return out
}

func discard(rig *lab.Rig, _ *Run, w *lab.Wire) error { return rig.Discard(w) }

// rounds measures all in turn; ttl is the TTL of forwarded datagrams.
func rounds(ctx context.Context, r *Run, what string, flows lab.Flows, ttl uint8, fresh bool, all []between) (
	map[string]report.Sample, map[string]uint64, error,
) {
	times, lost := map[string]report.Sample{}, map[string]uint64{}
	n := r.rounds(7, 2)
	for round := range n {
		r.progress("%s: round %d of %d", what, round+1, n)
		shuffle(all)
		for _, b := range all {
			err := lab.With(ctx, func(rig *lab.Rig) error {
				f := flows
				if f.TTL = ttl; b.name == nothing {
					f.TTL, f.Source = 0, netip.Addr{}
				}
				cost, err := b.cost(rig, r, f, fresh)
				times[b.name] = append(times[b.name], cost.NS)
				lost[b.name] += cost.Lost
				return err
			})
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", b.name, err)
			}
		}
	}
	return times, lost, nil
}

// throughputTable shows the results of rounds, compared with a baseline.
func throughputTable(title, peer string, order []string, times map[string]report.Sample, lost map[string]uint64) *report.Table {
	t := &report.Table{Title: title, Columns: []string{"", "ns of CPU per packet", "Mpps of one core", "net ns", "× " + peer + ", net", "lost"}}
	null, other := times[nothing].Median(), times[peer].Median()
	for _, name := range order {
		m := times[name].Median()
		ratio := ""
		if name != nothing {
			ratio = fmt.Sprintf("%.2f", (other-null)/(m-null))
		}
		t.Add(name, times[name].Spread(0), fmt.Sprintf("%.2f", 1000/m), fmt.Sprintf("%.0f", m-null), ratio, fmt.Sprint(lost[name]))
	}
	return t
}

// netRatio compares the ratio of the costs, without the harness, with the promise.
func netRatio(what string, times map[string]report.Sample, peer, ours string, promised float64) report.Check {
	null := times[nothing].Median()
	return report.AtLeast(what, "%.2f ×", (times[peer].Median()-null)/(times[ours].Median()-null), promised)
}
