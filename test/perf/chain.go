// SPDX-License-Identifier: Apache-2.0

package perf

// The cost of a crossing: chains of trivial cubes, linked by us in both modes, compared with hand-written code.

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// Lengths of the chains.
var (
	chainLengths      = []int{1, 2, 4, 8, 16, 32, 100}
	chainLengthsQuick = []int{1, 8, 100}
)

// chainTimes are the times of all programs above the empty one, round by round, in ns.
type chainTimes map[chainKey]report.Sample

// chain is the part "chain".
func chain(ctx context.Context, r *Run) error {
	lengths := chainLengths
	if r.Quick {
		lengths = chainLengthsQuick
	}
	section := Section{Title: "A chain of trivial cubes", Text: chainText}
	crossings := crossingTable()
	var checks []report.Check
	for _, hook := range []cube.Hook{cube.XDP, cube.TC} {
		err := lab.With(ctx, func(rig *lab.Rig) error {
			c, err := newChains(rig, hook, lengths)
			if err != nil {
				return err
			}
			times, err := c.measure(r, r.rounds(9, 3))
			if err != nil {
				return err
			}
			section.Tables = append(section.Tables, chainTable(hook, times, lengths))
			checks = append(checks, chainChecks(hook, times, lengths)...)
			return c.crossings(r, times, lengths, crossings)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", hook, err)
		}
	}
	section.Tables = append(section.Tables, crossings)
	r.add(section, checks...)
	return nil
}

const chainText = "A trivial cube checks the bounds of the frame, swaps its MAC addresses and sends it to its " +
	"other port. ns per packet above an empty program (`BPF_PROG_TEST_RUN`, CPU time of the thread, best of a few " +
	"runs in each round, median over the rounds with minimum and maximum). All variants do the same at the ends: look " +
	"up the port by interface index, count packet and bytes in, look up the exit, count out, redirect. Between the " +
	"cubes, ours counts packets and bytes and keeps metadata. The *tail calls that count* also count, so they are " +
	"directly comparable; the plain ones only do the cube's work. *first Polycube's scheme* is our implementation " +
	"from its paper: metadata in a per-CPU map, a forward chain for each cube, a tail call by the index found there; " +
	"it counts nothing. The kernel allows 33 tail calls per packet, which limits the tail calls and that scheme; ours " +
	"continues in another way before that. *up* is the direction through the cubes in the order in which they were " +
	"created, *down* the reverse; the checks use the slower one. Our root program, one more tail call per packet on " +
	"any chain, is excluded here and included in the figures of the bridge."

// check runs every program once: all must forward.
func (c *chains) check(frame []byte) error {
	want := map[cube.Hook]uint32{cube.XDP: 4, cube.TC: 7}[c.hook] // XDP_REDIRECT, TC_ACT_REDIRECT
	for key, p := range c.programs {
		verdict, _, err := lab.Run(p, frame, 1)
		if err != nil {
			return err
		}
		if verdict != want && key.variant != chainEmpty {
			return fmt.Errorf("%s chain of %d ends with verdict %d, want %d: %w", key.variant, key.n, verdict, want, cube.ErrInvalid)
		}
	}
	return nil
}

// measure times all programs, in a new order in each round.
func (c *chains) measure(r *Run, rounds int) (chainTimes, error) {
	frame := lab.Template(lab.FrameSize)
	if err := c.check(frame); err != nil {
		return nil, err
	}
	raw := chainTimes{}
	keys := slices.Collect(maps.Keys(c.programs))
	for round := range rounds {
		r.progress("chain, %s: round %d of %d", c.hook, round+1, rounds)
		shuffle(keys)
		for _, key := range keys {
			if err := c.rig.Context().Err(); err != nil {
				return nil, err
			}
			ns, err := lab.Best(c.programs[key], frame, lab.EffortFor(c.hook))
			if err != nil {
				return nil, err
			}
			raw[key] = append(raw[key], ns)
		}
	}
	net := chainTimes{}
	for key, s := range raw {
		net[key] = s.Less(raw[chainKey{chainEmpty, 0}])
	}
	return net, nil
}

// worse returns the slower of the two directions through a chain of ours.
func (t chainTimes) worse(variant string, n int) float64 {
	up, down := t[chainKey{variant, n}].Median(), t[chainKey{variant + string(downwards), n}].Median()
	return max(up, down)
}

func chainTable(hook cube.Hook, times chainTimes, lengths []int) *report.Table {
	t := &report.Table{
		Title: fmt.Sprintf("%s, ns per packet", hookName(hook)),
		Columns: []string{"N", "by hand, one program", "direct tail calls", "tail calls that count", "first Polycube's scheme",
			"ours inline, up", "ours inline, down", "ours call, up", "ours call, down", "inline / tail calls",
			"inline / tail calls that count", "first scheme / inline"},
	}
	for _, n := range lengths {
		median := func(variant string) float64 { return times[chainKey{variant, n}].Median() }
		row := []string{fmt.Sprint(n)}
		for _, v := range chainVariants {
			row = append(row, times[chainKey{v, n}].Spread(1))
		}
		ours := times.worse(chainInline, n)
		t.Add(append(row, ratio(ours, median(chainTail)), ratio(ours, median(chainCount)), ratio(median(chainScheme), ours))...)
	}
	t.Notes = []string{fmt.Sprintf("The ends alone, without a cube: %s ns.", times[chainKey{chainEnds, 0}].Spread(1))}
	return t
}

// chainVariants are the columns of a table.
var chainVariants = []string{chainSingle, chainTail, chainCount, chainScheme,
	chainInline, chainInline + string(downwards), chainCall, chainCall + string(downwards)}

// ratio writes a quotient, of which a part may not have been measured.
func ratio(a, b float64) string {
	if math.IsNaN(a / b) {
		return "n/a"
	}
	return fmt.Sprintf("%.2f", a/b)
}

// slope returns the cost of one more cube, the least-squares line through the medians, for lengths that tail calls
// allow, so that all variants have the same lengths.
func (t chainTimes) slope(variant string, lengths []int) float64 {
	var xs, ys []float64
	for _, n := range lengths {
		if s := t[chainKey{variant, n}]; n <= schemeLongest && len(s) > 0 {
			xs, ys = append(xs, float64(n)), append(ys, s.Median())
		}
	}
	return report.Slope(xs, ys)
}

func chainChecks(hook cube.Hook, times chainTimes, lengths []int) []report.Check {
	var out []report.Check
	for _, n := range lengths {
		tail, ours := times[chainKey{chainTail, n}].Median(), times.worse(chainInline, n)
		what := fmt.Sprintf("%s, inlined chain of %d against direct tail calls", hookName(hook), n)
		switch {
		case n > schemeLongest: // where tail calls end
			what = fmt.Sprintf("%s, inlined chain of %d, per cube", hookName(hook), n)
			out = append(out, report.AtMost(what, "%.1f ns", ours/float64(n), 6))
		case n < 4:
			out = append(out, report.AtMost(what, "%.1f ns more", ours-tail, 3))
		default:
			count := times[chainKey{chainCount, n}].Median()
			out = append(out, report.AtMost(what, "%.2f ×", ours/tail, 1),
				report.AtMost(what+" that count as ours does", "%.2f ×", ours/count, 1))
		}
	}
	slope := max(times.slope(chainInline, lengths), times.slope(chainInline+string(downwards), lengths))
	out = append(out, report.AtMost(hookName(hook)+", inlined chain, per crossing", "%.1f ns", slope, 5))
	if cut := times.slope(chainSegments, lengths); !math.IsNaN(cut) {
		out = append(out, report.AtMost(hookName(hook)+", into another segment, per crossing", "%.1f ns", cut, 9))
	}
	return out
}

func hookName(h cube.Hook) string {
	if h == cube.XDP {
		return "XDP"
	}
	return "TC"
}
