// SPDX-License-Identifier: Apache-2.0

package perf

// One crossing from cube to cube, in each variant: its cost, and its variation.

import (
	"fmt"

	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// crossingVariants are the variants, in the order of the table.
var crossingVariants = []struct{ variant, name string }{
	{chainSingle, "by hand, one program"},
	{chainTail, "direct tail call"},
	{chainCount, "tail call that counts"},
	{chainScheme, "first Polycube's scheme"},
	{chainInline, "ours, inline"},
	{chainInline + string(downwards), "ours, inline, down"},
	{chainCall, "ours, call"},
	{chainSegments, "ours, into another segment"},
}

// jitterLength is the chain on which single packets are timed.
const jitterLength = 8

func crossingTable() *report.Table {
	return &report.Table{
		Title:   "A crossing",
		Columns: []string{"", "hook", "ns per crossing", "p50 of a packet, ns", "p99", "p99.9", "max"},
		Notes: []string{"ns per crossing, the cube's own work included: the slope over chains of up to 32. The quantiles are for " +
			fmt.Sprintf("packets through a chain of %d, wall time, in groups of %d, because the kernel reports whole nanoseconds: ", jitterLength, jitterGroup) +
			"they include interruptions, and the empty program is not subtracted. A component is only split " +
			"into segments if it is too large for one program; here each cube is a segment."},
	}
}

// jitterGroup is the number of packets averaged in one sample.
const jitterGroup = 8

// crossings adds a hook's rows.
func (c *chains) crossings(r *Run, times chainTimes, lengths []int, t *report.Table) error {
	samples := 1000
	if r.Quick {
		samples = 40
	}
	frame := lab.Template(lab.FrameSize)
	for _, v := range crossingVariants {
		p := c.programs[chainKey{v.variant, jitterLength}]
		if p == nil {
			return fmt.Errorf("no chain of %d by %s", jitterLength, v.name)
		}
		ns, err := lab.Durations(p, frame, samples, jitterGroup)
		if err != nil {
			return err
		}
		s := report.Sample(ns)
		t.Add(v.name, hookName(c.hook), fmt.Sprintf("%.1f", times.slope(v.variant, lengths)), fmt.Sprintf("%.0f", s.Median()),
			fmt.Sprintf("%.0f", s.Quantile(0.99)), fmt.Sprintf("%.0f", s.Quantile(0.999)), fmt.Sprintf("%.0f", s.Max()))
	}
	return nil
}
