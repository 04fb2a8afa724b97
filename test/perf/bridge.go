// SPDX-License-Identifier: Apache-2.0

package perf

// The bridge from wire to wire, compared with the kernel's bridge and plain eBPF forwarders.

import (
	"context"
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// stations is the number of addresses learned on each side of a bridge.
const stations = 1000

// bridge is the part "bridge".
func bridge(ctx context.Context, r *Run) error {
	section := Section{Title: "Bridges", Text: bridgeText}
	through, times, checks, err := bridgeThroughput(ctx, r)
	if err != nil {
		return err
	}
	partial, err := bridgePartial(ctx, r, times[linuxBridge].Median())
	if err != nil {
		return fmt.Errorf("partial load: %w", err)
	}
	alone, aloneChecks, err := bridgeAlone(ctx, r)
	if err != nil {
		return fmt.Errorf("the program alone: %w", err)
	}
	above, aboveChecks, err := bridgeAboveRedirect(ctx, r)
	if err != nil {
		return fmt.Errorf("above a redirect: %w", err)
	}
	latency, err := bridgeLatency(ctx, r)
	if err != nil {
		return err
	}
	section.Tables = append(section.Tables, through, partial, alone, above, latency)
	checks = append(append(checks, aloneChecks...), aboveChecks...)
	r.add(section, checks...)
	return nil
}

const bridgeText = "Frames of 60 bytes go from a generator through one veth, the device under test and " +
	"another veth to a counting sink, all on one CPU and in one task, whose CPU time is the cost of a packet. 1,000 " +
	"stations on each side were learned before; frames of the 1,000 pairs are sent in rotation. *nothing* drops where " +
	"the device under test would begin: generator and first veth. In *net* that is subtracted; the second veth and " +
	"the sink are still included. Frames are *lost* when the kernel defers work to ksoftirqd, as it does when other " +
	"tasks want the CPU, and the 256 slots of a veth fill up meanwhile: the machine causes that, not the forwarder."

func bridgeThroughput(ctx context.Context, r *Run) (*report.Table, map[string]report.Sample, []report.Check, error) {
	all := forwarders(r.Root)
	times := map[string]report.Sample{}
	lost := map[string]uint64{}
	rounds := r.rounds(9, 2)
	for round := range rounds {
		r.progress("bridge: round %d of %d", round+1, rounds)
		shuffle(all)
		for _, f := range all {
			cost, err := f.cost(ctx, r.Quick)
			if err != nil {
				return nil, nil, nil, fmt.Errorf("%s: %w", f.name, err)
			}
			times[f.name] = append(times[f.name], cost.NS)
			lost[f.name] += cost.Lost
		}
	}
	return bridgeTable(r, times, lost), times, bridgeChecks(times), nil
}

// cost sets the forwarder up, lets it learn and measures it: the best of a few runs.
func (f forwarder) cost(ctx context.Context, quick bool) (lab.Cost, error) {
	best := lab.Cost{}
	packets, runs := 1<<17, 4
	if quick {
		packets, runs = 1<<16, 2
	}
	err := lab.With(ctx, func(rig *lab.Rig) error {
		w, err := rig.NewWire(stations)
		if err == nil {
			err = errors.Join(rig.Sink(w, cube.XDP), f.setup(rig, w))
		}
		if err != nil {
			return err
		}
		if err := w.Teach(stations); err != nil {
			return err
		}
		for i := range runs {
			c, err := w.Measure(packets, 0)
			if err != nil {
				return err
			}
			if i == 0 || c.NS < best.NS {
				best.NS = c.NS
			}
			best.Lost += c.Lost
		}
		return nil
	})
	return best, err
}

func bridgeTable(r *Run, times map[string]report.Sample, lost map[string]uint64) *report.Table {
	t := &report.Table{
		Title:   "Throughput, end to end",
		Columns: []string{"", "ns of CPU per packet", "Mpps of one core", "net ns", "× Linux bridge", "lost"},
	}
	null, linux := times[nothing].Median(), times[linuxBridge].Median()
	for _, f := range forwarders(r.Root) {
		m := times[f.name].Median()
		t.Add(f.name, times[f.name].Spread(0), fmt.Sprintf("%.2f", 1000/m), fmt.Sprintf("%.0f", m-null),
			fmt.Sprintf("%.2f", linux/m), fmt.Sprint(lost[f.name]))
	}
	return t
}

func bridgeChecks(times map[string]report.Sample) []report.Check {
	linux := times[linuxBridge].Median()
	return []report.Check{
		report.AtLeast("simplebridge on XDP against the Linux bridge", "%.2f ×", linux/times[ourXDP].Median(), 2.5),
		report.AtLeast("simplebridge on tcx against the Linux bridge", "%.2f ×", linux/times[ourTC].Median(), 1.1),
		netRatio("bridge on XDP against the Linux bridge, net", times, linuxBridge, vlanXDP, 3),
		netRatio("bridge on tcx against the Linux bridge, net", times, linuxBridge, vlanTC, 1.1),
	}
}
