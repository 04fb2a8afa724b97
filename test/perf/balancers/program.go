// SPDX-License-Identifier: Apache-2.0

package balancers

// The program of lbdsr alone.

import (
	"context"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
)

const programsText = contest.AloneText + " Each flow was sent before, and has a pin. The goals are what the first Polycube's " +
	"`lbdsr` takes for a single service with four servers (47 and 51 ns, and half of the 371 where its table of flows is too " +
	"small), and 0.65 of what Katran takes with IPIP (163, 174 and 319 ns), measured in this way on a machine with the scale's " +
	"speed (AMD EPYC, where the lookup takes 21 to 24 ns)."

// limits are the goals by how packets reach servers, and by flows.
var limits = map[string]map[int]float64{
	"L2":   {1: 47, 1000: 51, 50_000: 185},
	"IPIP": {1: 106, 1000: 113, 50_000: 207},
}

var forwards = []string{"L2", "IPIP"}

// flowCounts are the numbers of flows.
var flowCounts = []int{1, 1000, 50_000}

// programs is the part "balancer-program".
func programs(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Balancers: the program alone", Text: programsText}
	hooks := []cube.Hook{cube.XDP, cube.TC}
	var all []*contest.Alone
	err := lab.With(ctx, func(rig *lab.Rig) error {
		for _, hook := range hooks {
			b.Progress("balancer-program: %s", hook)
			of, err := programsAt(rig, b, hook)
			if err != nil {
				return fmt.Errorf("%s: %w", hook, err)
			}
			all = append(all, of...)
		}
		return contest.RaceAlone(rig, b.Rounds(25, 5), all)
	})
	if err != nil {
		return nil, err
	}
	for _, hook := range hooks {
		out.Scale(hook, all, "lbdsr", "lbdsr, 1,000 services with 100 servers each, "+contest.HookNames[hook])
	}
	return out, nil
}

// programsAt sets up all programs of a hook.
func programsAt(rig *lab.Rig, b *Bench, hook cube.Hook) ([]*contest.Alone, error) {
	typ := map[cube.Hook]cube.Type{cube.XDP: cube.TypeXDPDRV, cube.TC: cube.TypeTC}[hook]
	w, err := rig.NewFiltered()
	if err != nil {
		return nil, err
	}
	var all []*contest.Alone
	for _, name := range []string{contest.Nothing, contest.Lookup} {
		a, err := contest.NewAloneFlows(rig, w, name, hook, nil, load{services: 1000, servers: 100, flows: 1000}.datagrams())
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	for _, forward := range forwards {
		of, err := dsrAlone(rig, b, hook, typ, forward)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", forward, err)
		}
		all = append(all, of...)
	}
	return all, nil
}

// dsrAlone is one lbdsr, with each number of flows.
func dsrAlone(rig *lab.Rig, b *Bench, hook cube.Hook, typ cube.Type, forward string) ([]*contest.Alone, error) {
	most := load{services: 1000, servers: 100, flows: flowCounts[len(flowCounts)-1]}
	w, err := rig.NewFiltered()
	if err != nil {
		return nil, err
	}
	if err := w.Sinks(rig); err != nil {
		return nil, err
	}
	d, err := most.startDSR(rig, b, w, typ, forward)
	if err != nil {
		return nil, err
	}
	s, err := w.Datagrams(most.datagrams())
	if err != nil {
		return nil, err
	}
	if err := balanced(w, s, map[string]func([]byte) (string, error){"L2": most.toMAC, "IPIP": most.toTunnel}[forward]); err != nil {
		return nil, err
	}
	program, err := contest.Entry(rig, d, hook)
	if err != nil {
		return nil, err
	}
	var all []*contest.Alone
	for _, n := range flowCounts {
		a, err := flowsAlone(rig, w, program, hook, forward, n)
		if err != nil {
			return nil, fmt.Errorf("%d flows: %w", n, err)
		}
		all = append(all, a)
	}
	return all, nil
}

// flowsAlone is a harness around the program, after each flow was sent twice.
func flowsAlone(rig *lab.Rig, w *lab.Filtered, program *ebpf.Program, hook cube.Hook, forward string, flows int) (*contest.Alone, error) {
	l := load{services: 1000, servers: 100, flows: flows}
	name := fmt.Sprintf("%s, %s flows", forward, contest.Thousands(flows))
	if flows == 1 {
		name = forward + ", 1 flow"
	}
	a, err := contest.NewAloneFlows(rig, w, name, hook, program, l.datagrams())
	if err != nil {
		return nil, err
	}
	a.Limit = limits[forward][flows]
	// XDP_REDIRECT is 4, TC_ACT_REDIRECT 7.
	redirect := map[cube.Hook]uint32{cube.XDP: 4, cube.TC: 7}[hook]
	return a, a.Verdicts(2*flows, func(verdict uint32) bool { return verdict == redirect })
}
