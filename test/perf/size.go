// SPDX-License-Identifier: Apache-2.0

package perf

// How the time of a change grows with the topology: cubes in a line, netdevs on one cube.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// sizeCase is a line of bridges, the first of which has a number of netdevs in addition to its neighbour.
type sizeCase struct{ cubes, ports int }

var (
	sizeCases      = []sizeCase{{1, 2}, {10, 2}, {100, 2}, {500, 2}, {1, 50}, {1, 500}}
	sizeCasesQuick = []sizeCase{{1, 2}, {10, 2}, {1, 50}}
)

// constantWithin is the promise for a constant, in ms, by the number of cubes.
var constantWithin = map[int]float64{10: 10, 500: 20}

// sizeTimes are in ms.
type sizeTimes struct {
	build, constant, attach, detach report.Sample
	segments                        int
}

const sizeText = "simplebridges in a line, in the daemon's automatic mode, without traffic. *all at once*: " +
	"from nothing to the whole topology, one commit. *a constant* of the cube in the middle changes, which spare programs take. *attach* " +
	"and *detach*: one more netdev becomes a port's peer and is removed again. Wall time, from the call to its " +
	"return, when the change has taken effect; inlining follows in the background, is not included, and finishes " +
	"before the next kind of change."

// size is the part "size".
func size(ctx context.Context, r *Run) error {
	cases, rounds := sizeCases, r.rounds(7, 3)
	if r.Quick {
		cases = sizeCasesQuick
	}
	t := &report.Table{Columns: []string{"cubes", "netdevs of one cube", "hook", "segments", "all at once, ms", "a constant, ms", "attach, ms", "detach, ms"}}
	var checks []report.Check
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		for _, c := range cases {
			r.progress("size: %d cubes, %d netdevs, %s", c.cubes, c.ports, typ)
			got, err := c.run(ctx, typ, rounds)
			if err != nil {
				return fmt.Errorf("%d cubes, %d netdevs, %s: %w", c.cubes, c.ports, typ, err)
			}
			t.Add(fmt.Sprint(c.cubes), fmt.Sprint(c.ports), hookName(typ.Hook()), fmt.Sprint(got.segments), got.build.Spread(0),
				got.constant.Spread(1), got.attach.Spread(1), got.detach.Spread(1))
			if limit := constantWithin[c.cubes]; limit > 0 {
				checks = append(checks, report.AtMost(fmt.Sprintf("a constant of one of %d cubes, %s", c.cubes, hookName(typ.Hook())), "%.1f ms", got.constant.Median(), limit))
			}
			if c.ports == 500 && typ == cube.TypeTC {
				checks = append(checks, report.AtMost("a netdev more on a cube with 500, TC", "%.1f ms", got.attach.Median(), 5))
			}
		}
	}
	r.add(Section{Title: "Changes by size of the topology", Text: sizeText, Tables: []*report.Table{t}}, checks...)
	return nil
}

// run builds the topology and changes it again and again.
func (c sizeCase) run(ctx context.Context, typ cube.Type, rounds int) (*sizeTimes, error) {
	got := &sizeTimes{}
	err := lab.With(ctx, func(rig *lab.Rig) error {
		w, err := rig.NewWire(1)
		if err != nil {
			return err
		}
		p, cubes, err := c.line(rig, w, typ)
		if err != nil {
			return err
		}
		prepared, committed, err := p.TimedCommit()
		if err != nil {
			return err
		}
		got.build = report.Sample{ms(prepared + committed)}
		got.segments = p.Status(cubes[0].ID).Segments
		return c.changes(p, cubes, rounds, got)
	})
	return got, err
}

// spare is the netdev that is added and removed.
const spare = "spare"

// line creates the cubes and netdevs, without a commit.
func (c sizeCase) line(rig *lab.Rig, w *lab.Wire, typ cube.Type) (*lab.Plane, []*datapath.Node, error) {
	objects, err := service("simplebridge")
	if err != nil {
		return nil, nil, err
	}
	p, err := rig.NewPlane(w.Machine.Namespace, lab.PlaneOptions{
		Type: typ, Mode: datapath.ModeAuto, Services: map[string]map[cube.Hook][]byte{"simplebridge": objects},
	})
	if err != nil {
		return nil, nil, err
	}
	cubes := make([]*datapath.Node, c.cubes)
	for i := range cubes {
		ports := 3 // back, on, and one for a netdev
		if i == 0 {
			ports = c.ports + 2
		}
		if cubes[i], err = p.Cube("simplebridge", ports, map[string]uint32{"fdb": 64}); err != nil {
			return nil, nil, err
		}
		if i > 0 {
			p.Link(cubes[i-1], 1, cubes[i], 0)
		}
	}
	err = errors.Join(w.Spare(spare), p.Netdev(cubes[0], 0, lab.In), p.Netdev(cubes[c.cubes-1], uint16(lastPort(c)), lab.Out))
	for i := 2; i < c.ports && err == nil; i++ {
		name := fmt.Sprintf("x%d", i)
		if err = w.Spare(name); err == nil {
			err = p.Netdev(cubes[0], uint16(i), name)
		}
	}
	return p, cubes, err
}

// lastPort is where the line ends.
func lastPort(c sizeCase) int {
	if c.cubes == 1 {
		return c.ports
	}
	return 1
}

// settle waits for background inlining, which takes CPU time from measurements; with a time limit, because a segment
// may stay in call mode.
func settle(p *lab.Plane, cubes []*datapath.Node) {
	_ = until(10*time.Second, func() bool { // the measurement is valid either way
		return !slices.ContainsFunc(cubes, func(n *datapath.Node) bool {
			s := p.Status(n.ID)
			return s.Mode != string(datapath.ModeInline) && s.Reason == ""
		})
	})
}

// changes makes each kind of change a number of times.
func (c sizeCase) changes(p *lab.Plane, cubes []*datapath.Node, rounds int, got *sizeTimes) error {
	middle, first := cubes[len(cubes)/2], cubes[0]
	free := uint16(c.ports + 1)
	timed := func(s *report.Sample) error {
		prepared, committed, err := p.TimedCommit()
		*s = append(*s, ms(prepared+committed))
		return err
	}
	settle(p, cubes)
	_ = until(10*time.Second, func() bool { return p.Status(middle.ID).Spare })
	for i := range rounds {
		middle.Constants = map[string]any{"refresh_ns": uint64(1_000_000_001 + i)} // not the default
		if err := timed(&got.constant); err != nil {
			return fmt.Errorf("changing a constant: %w", err)
		}
	}
	settle(p, cubes)
	for range rounds {
		if err := p.Netdev(first, free, spare); err != nil {
			return err
		}
		if err := timed(&got.attach); err != nil {
			return fmt.Errorf("attaching: %w", err)
		}
		first.Ports[free].Peer = datapath.Peer{}
		delete(p.Graph.Netdevs, spare)
		if err := timed(&got.detach); err != nil {
			return fmt.Errorf("detaching: %w", err)
		}
	}
	return nil
}
