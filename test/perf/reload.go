// SPDX-License-Identifier: Apache-2.0

package perf

// A new version of a chain every 10 ms while packets go through it as fast as they can.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const (
	reloadEvery = 10 * time.Millisecond
	reloadCubes = 4
)

// reloadCase is a chain to reload.
type reloadCase struct {
	typ   cube.Type
	mode  datapath.Mode
	ports int // netdevs of the whole chain
	still bool
}

func (c reloadCase) String() string {
	mode := map[datapath.Mode]string{datapath.ModeAuto: "call", datapath.ModeInline: "inline"}[c.mode]
	name := fmt.Sprintf("%s, %s, %d ports", hookName(c.typ.Hook()), mode, c.ports)
	if c.still {
		name += ", no reload"
	}
	return name
}

var reloadCases = []reloadCase{
	{cube.TypeXDPDRV, datapath.ModeInline, 2, true},
	{cube.TypeXDPDRV, datapath.ModeAuto, 2, false},
	{cube.TypeXDPDRV, datapath.ModeInline, 2, false},
	{cube.TypeXDPDRV, datapath.ModeInline, 200, false},
	{cube.TypeTC, datapath.ModeAuto, 2, false},
	{cube.TypeTC, datapath.ModeInline, 2, false},
	{cube.TypeTC, datapath.ModeInline, 200, false},
}

// reloadResult is the result of one case; times in ms.
type reloadResult struct {
	link, load, swap, whole report.Sample
	packets, lost           uint64
	seconds                 float64
}

// reload is the part "reload".
func reload(ctx context.Context, r *Run) error {
	length := 7 * time.Second
	if r.Quick {
		length = time.Second
	}
	t := &report.Table{
		Columns: []string{"", "reloads", "link ms", "load ms", "swap ms", "whole ms", "whole p99", "Mpps", "packets", "lost"},
	}
	var swap, whole float64
	var lost uint64
	for _, c := range reloadCases {
		r.progress("reload: %s, %s", c, length)
		got, err := c.run(ctx, length)
		if err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		t.Add(c.String(), fmt.Sprint(len(got.whole)), got.link.Spread(2), got.load.Spread(2), got.swap.Spread(2), got.whole.Spread(1),
			p99(got.whole), fmt.Sprintf("%.2f", float64(got.packets)/got.seconds/1e6),
			fmt.Sprint(got.packets), fmt.Sprint(got.lost))
		lost += got.lost
		if !c.still {
			swap, whole = max(swap, got.swap.Median()), max(whole, got.whole.Median())
		}
	}
	r.add(Section{Title: "Reload under load", Text: reloadText, Tables: []*report.Table{t}},
		report.AtMost("reload of a chain of 4, slowest case: swap", "%.2f ms", swap, 1),
		report.AtMost("reload of a chain of 4, slowest case: whole", "%.1f ms", whole, 20),
		report.AtMost("reload of a chain of 4, all cases: packets lost", "%.0f", float64(lost), 0))
	return nil
}

const reloadText = "A chain of four simplebridges forwards as much as one core can send; every 10 ms a " +
	"constant of one of them changes, so the chain is linked, loaded and swapped in. *link*: writing the " +
	"instructions; *load*: verifier and JIT; *swap*: committing, from the first table to the last slot; *whole*: " +
	"everything, including the time in between. With 200 ports, 198 more netdevs are ports of the first bridge. " +
	"*call* is the immediate effect of a change in the daemon's automatic mode, *inline* follows when the changes " +
	"pause; here it is forced. These are wall times: one of the two CPUs generates the load, and on a machine with " +
	"other work they include waiting for the other one."

// run reloads for a while under load.
func (c reloadCase) run(ctx context.Context, length time.Duration) (*reloadResult, error) {
	got := &reloadResult{}
	err := lab.With(ctx, func(rig *lab.Rig) error {
		w, p, cubes, err := c.build(rig)
		if err != nil {
			return err
		}
		start := time.Now()
		got.packets, got.lost, err = underLoad(rig.Context(), w, func() error {
			return c.reloads(rig.Context(), p, cubes, length, got)
		})
		got.seconds = time.Since(start).Seconds()
		return err
	})
	return got, err
}

// build links the chain, attaches it and lets it learn.
func (c reloadCase) build(rig *lab.Rig) (*lab.Wire, *lab.Plane, []*datapath.Node, error) {
	w, err := rig.NewWire(stations)
	if err == nil {
		err = rig.Sink(w, cube.XDP)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	objects, err := service("simplebridge")
	if err != nil {
		return nil, nil, nil, err
	}
	p, err := rig.NewPlane(w.Machine.Namespace, lab.PlaneOptions{
		Type: c.typ, Mode: c.mode, Services: map[string]map[cube.Hook][]byte{"simplebridge": objects},
	})
	if err != nil {
		return nil, nil, nil, err
	}
	cubes := make([]*datapath.Node, reloadCubes)
	for i := range cubes {
		ports := 2
		if i == 0 {
			ports = c.ports
		}
		if cubes[i], err = p.Cube("simplebridge", ports, nil); err != nil {
			return nil, nil, nil, err
		}
		if i > 0 {
			p.Link(cubes[i-1], 1, cubes[i], 0)
		}
	}
	err = errors.Join(p.Netdev(cubes[0], 0, lab.In), p.Netdev(cubes[reloadCubes-1], 1, lab.Out))
	for i := 2; i < c.ports && err == nil; i++ {
		name := fmt.Sprintf("x%d", i)
		if err = w.Spare(name); err == nil {
			err = p.Netdev(cubes[0], uint16(i), name)
		}
	}
	if err == nil {
		err = p.Commit()
	}
	if err == nil {
		err = w.Teach(stations)
	}
	return w, p, cubes, err
}

// reloads changes a constant of the second cube again and again.
func (c reloadCase) reloads(ctx context.Context, p *lab.Plane, cubes []*datapath.Node, length time.Duration, got *reloadResult) error {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	end := time.After(length)
	for i := uint64(1); ; i++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return nil
		case <-tick.C:
		}
		if c.still {
			continue
		}
		cubes[1].Constants = map[string]any{"refresh_ns": 1_000_000_000 + i%math.MaxUint32}
		prepared, committed, err := p.TimedCommit()
		if err != nil {
			return err
		}
		steps := p.Timings(cubes[1].ID)
		got.link = append(got.link, ms(steps.Linked))
		got.load = append(got.load, ms(steps.Loaded))
		got.swap = append(got.swap, ms(committed))
		got.whole = append(got.whole, ms(prepared+committed))
	}
}

// p99 writes the quantile of a sample that may be empty.
func p99(s report.Sample) string {
	if len(s) == 0 {
		return "n/a"
	}
	return fmt.Sprintf("%.1f", s.Quantile(0.99))
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
