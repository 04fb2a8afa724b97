// SPDX-License-Identifier: Apache-2.0

package perf

// The cost of a copy: a flood to all ports compared with one to a set of the same ports, without and with tags.

import (
	"context"
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/test/perf/bpf"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// The sets of bpf/floods.bpf.c; 0 is none.
const (
	toAll = iota
	toSet
	toTagged
	toMixed
	waysToFlood
)

var floodNames = [waysToFlood]string{"to all ports", "to a set", "to a set, all tagged", "to a set, every other tagged"}

// floodPorts are how many ports get copies.
var floodPorts = []int{1, 4, 16}

var floodTypes = []cube.Type{cube.TypeXDPDRV, cube.TypeTC}

// floodCase is one measurement.
type floodCase struct {
	typ   cube.Type
	ports int
	way   uint32
}

const floodsText = "Frames of 60 bytes are flooded to as many sinks as *ports*, each behind a veth, all on " +
	"one CPU and in one task, whose CPU time is divided by the number of copies that arrive: generator, first veth, " +
	"cube, and for each copy a veth and a sink. Frames are untagged. If the set has one member, no copy is made at TC " +
	"either."

// floods is the part "floods".
func floods(ctx context.Context, r *Run) error {
	var cases []floodCase
	for _, typ := range floodTypes {
		for _, n := range floodPorts {
			for way := range uint32(waysToFlood) {
				cases = append(cases, floodCase{typ, n, way})
			}
		}
	}
	times := map[floodCase]report.Sample{}
	rounds := r.rounds(7, 1)
	for round := range rounds {
		r.progress("floods: round %d of %d", round+1, rounds)
		shuffle(cases)
		for _, c := range cases {
			ns, err := c.cost(ctx, r.Quick)
			if err != nil {
				return fmt.Errorf("%s, %d ports, %s: %w", c.typ, c.ports, floodNames[c.way], err)
			}
			times[c] = append(times[c], ns)
		}
	}
	section := Section{Title: "Floods", Text: floodsText}
	for _, typ := range floodTypes {
		t := &report.Table{Title: hookName(typ.Hook()), Columns: []string{"ns of CPU per copy"}}
		for _, n := range floodPorts {
			t.Columns = append(t.Columns, fmt.Sprintf("%d ports", n))
		}
		for way := range uint32(waysToFlood) {
			row := []string{floodNames[way]}
			for _, n := range floodPorts {
				row = append(row, times[floodCase{typ, n, way}].Spread(0))
			}
			t.Add(row...)
		}
		section.Tables = append(section.Tables, t)
	}
	var checks []report.Check
	for _, typ := range floodTypes {
		all, set := times[floodCase{typ, 16, toAll}].Median(), times[floodCase{typ, 16, toSet}].Median()
		checks = append(checks, report.AtLeast("flood to a set of 16 ports against one to all, "+hookName(typ.Hook()), "%.2f ×", all/set, 0.9))
	}
	r.add(section, checks...)
	return nil
}

// cost floods some frames and returns the best time per copy.
func (c floodCase) cost(ctx context.Context, quick bool) (best float64, err error) {
	packets, runs := (1<<17)/c.ports, 4
	if quick {
		packets, runs = (1<<14)/c.ports, 2
	}
	err = lab.With(ctx, func(rig *lab.Rig) error {
		w, err := rig.NewWire(1)
		if err != nil {
			return err
		}
		if err := errors.Join(rig.Sink(w, cube.XDP), c.setup(rig, w)); err != nil {
			return err
		}
		for i := range runs {
			m, err := w.Measure(packets, 0)
			if err != nil {
				return err
			}
			if i == 0 || m.NS < best {
				best = m.NS
			}
		}
		return nil
	})
	return best, err
}

// setup links the cube between the wire's left netdev and the sinks.
func (c floodCase) setup(rig *lab.Rig, w *lab.Wire) error {
	objects := map[cube.Hook][]byte{}
	var err error
	if objects[c.typ.Hook()], err = bpf.Object("floods", c.typ.Hook()); err != nil {
		return err
	}
	p, err := rig.NewPlane(w.Machine.Namespace, lab.PlaneOptions{
		Type: c.typ, Mode: datapath.ModeInline, Services: map[string]map[cube.Hook][]byte{"floods": objects},
	})
	if err != nil {
		return err
	}
	n, err := p.Cube("floods", c.ports+1, nil)
	if err != nil {
		return err
	}
	n.Constants = map[string]any{"set": c.way}
	errs := []error{p.Netdev(n, 0, lab.In), p.Netdev(n, 1, lab.Out)}
	for port := uint16(2); int(port) <= c.ports; port++ {
		name := fmt.Sprintf("sink%d", port)
		errs = append(errs, rig.AnotherSink(w, name), p.Netdev(n, port, name))
	}
	sets := map[uint32][]cube.FloodMember{}
	for port := range uint16(c.ports + 1) {
		sets[toSet] = append(sets[toSet], cube.FloodMember{Port: port})
		sets[toTagged] = append(sets[toTagged], cube.FloodMember{Port: port, Tagged: true})
		sets[toMixed] = append(sets[toMixed], cube.FloodMember{Port: port, Tagged: port%2 == 1})
	}
	fill := w.Machine.Do(func() error { return p.SetFloods(n.ID, sets, true) })
	return errors.Join(append(errs, fill, p.Commit())...)
}
