// SPDX-License-Identifier: Apache-2.0

package perf

// The cost per packet of workarounds for features that old kernels lack, measured on a kernel that has the features, in
// the same run.

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/kernel"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/bpf"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const oldKernelText = "The cost of a missing kernel feature: the same work with and without it, in turns, on " +
	"a kernel that has it (median over the rounds with minimum and maximum). Other features that 6.1 lacks, above all " +
	"inlined lookups in per-CPU arrays (6.10), cannot be disabled here."

// oldKernelChain is the number of cubes that a packet calls.
const oldKernelChain = 16

// oldKernel is the part "oldkernel".
func oldKernel(ctx context.Context, r *Run) error {
	t := &report.Table{Columns: []string{"", "since", "with it, ns", "without, ns", "for"}}
	for _, measure := range []func(context.Context, *Run, *report.Table) error{oldChains, checksumReads, filters} {
		if err := measure(ctx, r, t); err != nil {
			return err
		}
	}
	r.add(Section{Title: "Workarounds for old kernels", Text: oldKernelText, Tables: []*report.Table{t}})
	return nil
}

// oldChains times chains of cubes.
func oldChains(ctx context.Context, r *Run, t *report.Table) error {
	for _, c := range []struct {
		what, feature, since, unit string
		mode                       datapath.Mode
		lack                       func(*kernel.Features)
	}{
		{"NULL tests", "arguments that are never NULL", "6.8", "a cube in call mode", datapath.ModeCall,
			func(f *kernel.Features) { f.NonNullArgs = false }},
		{"hidden ports", "constants on the stack that are followed", "6.8", "an inlined cube", datapath.ModeInline,
			func(f *kernel.Features) { f.StackByAnyRegister = false }},
	} {
		lacking := kernel.All
		c.lack(&lacking)
		samples, err := chainsWithout(ctx, r, c.what, c.mode, lacking)
		if err != nil {
			return err
		}
		t.Add(c.feature, c.since, samples[0].Spread(1), samples[1].Spread(1), c.unit)
	}
	return nil
}

// chainsWithout times a chain of cubes on a kernel with all features, and on one that lacks some: nanoseconds per cube.
func chainsWithout(ctx context.Context, r *Run, what string, mode datapath.Mode, lacking kernel.Features) (samples [2]report.Sample, err error) {
	err = lab.With(ctx, func(rig *lab.Rig) error {
		var progs [2]*ebpf.Program
		for i, k := range []*kernel.Features{nil, &lacking} {
			object, err := bpf.Object("trivial", cube.TC)
			if err != nil {
				return err
			}
			ns := netns.NewLab(rig)
			ns.Host("out", "")
			p, err := rig.NewPlane(ns.Namespace, lab.PlaneOptions{
				Type: cube.TypeTC, Mode: mode, Kernel: k,
				Services: map[string]map[cube.Hook][]byte{"trivial": {cube.TC: object}},
			})
			if err != nil {
				return err
			}
			if _, err := trivialChain(p, oldKernelChain, upwards, "lo", "out"); err != nil {
				return err
			}
			if progs[i], err = p.Entry(); err != nil {
				return err
			}
			rig.Closing(progs[i])
		}
		samples, err = inTurns(r, what, func(i int) (float64, error) {
			ns, err := lab.Best(progs[i], lab.Template(lab.FrameSize), lab.EffortFor(cube.TC))
			return ns / oldKernelChain, err
		})
		return err
	})
	return samples, err
}

// checksumReads times pcn_csum_l4 at TC.
func checksumReads(ctx context.Context, r *Run, t *report.Table) error {
	cases, err := helperCases(cube.TC)
	if err != nil {
		return err
	}
	var of helperCase
	for _, c := range cases {
		if c.name == "pcn_csum_l4" {
			of = c
		}
	}
	if of.name == "" {
		return fmt.Errorf("helper pcn_csum_l4: %w", cube.ErrNotFound)
	}
	lacking := kernel.All
	lacking.SkbOfContext = false
	return lab.With(ctx, func(rig *lab.Rig) error {
		var planes [2]*lab.Plane
		var nodes [2]*datapath.Node
		for i, k := range []*kernel.Features{nil, &lacking} {
			var err error
			if planes[i], nodes[i], err = helperPlane(rig, cube.TC, k); err != nil {
				return err
			}
		}
		samples, err := inTurns(r, "checksums", func(i int) (float64, error) {
			base, err := timeHelper(rig, planes[i], nodes[i], helperCase{kind: "COST"}, nil, r.Quick)
			if err != nil {
				return 0, err
			}
			ns, err := timeHelper(rig, planes[i], nodes[i], of, nil, r.Quick)
			return (ns - base) / helperTimes, err
		})
		t.Add("the skb behind the context", "6.2", samples[0].Spread(1), samples[1].Spread(1), "a `pcn_csum_l4` at TC")
		return err
	})
}

// filters times a simplebridge from wire to wire.
func filters(ctx context.Context, r *Run, t *report.Table) error {
	objects, err := service("simplebridge")
	if err != nil {
		return err
	}
	by := func(clsact bool) forwarder {
		return forwarder{"clsact", func(rig *lab.Rig, w *lab.Wire) error {
			_, _, err := bridgeOn(rig, w, lab.PlaneOptions{Type: cube.TypeTC, Mode: datapath.ModeInline, Clsact: clsact,
				Services: map[string]map[cube.Hook][]byte{"simplebridge": objects}})
			return err
		}}
	}
	samples, err := inTurns(r, "filters", func(i int) (float64, error) {
		cost, err := by(i == 1).cost(ctx, r.Quick)
		return cost.NS, err
	})
	t.Add("tcx instead of filters", "6.6", samples[0].Spread(0), samples[1].Spread(0), "a packet from wire to wire, generator and sink included")
	return err
}

// inTurns measures with the feature (0) and without (1), in an order that changes.
func inTurns(r *Run, what string, measure func(int) (float64, error)) (out [2]report.Sample, err error) {
	rounds := r.rounds(9, 2)
	order := []int{0, 1}
	for round := range rounds {
		r.progress("oldkernel, %s: round %d of %d", what, round+1, rounds)
		shuffle(order)
		for _, i := range order {
			ns, merr := measure(i)
			if err = errors.Join(err, merr); err != nil {
				return out, err
			}
			out[i] = append(out[i], ns)
		}
	}
	return out, nil
}
