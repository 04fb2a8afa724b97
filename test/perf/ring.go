// SPDX-License-Identifier: Apache-2.0

package perf

// A ring of a cube's own: what a copy of a packet costs the program and the reader.

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/ring"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// ringTable measures copies to a ring, with a reader in Go.
func ringTable(ctx context.Context, r *Run) (*report.Table, []report.Check, error) {
	t := &report.Table{
		Title:   "A ring of a cube's own: the first 128 bytes of each packet",
		Columns: []string{"", "Mpps of one core", "kernel, ns per packet", "reader, ns per packet", "lost %", "of these the copy, ns"},
		Notes: []string{"The kernel's side is generator, veth, program and ring; the copy is its difference to the same program that " +
			"copies nothing. The reader is package ring, with a function that counts."},
	}
	types := []cube.Type{cube.TypeXDPDRV, cube.TypeTC}
	with, without := map[cube.Type][]slowCost{}, map[cube.Type][]slowCost{}
	rounds := r.rounds(7, 2)
	for round := range rounds {
		r.progress("ring: round %d of %d", round+1, rounds)
		shuffle(types)
		for _, typ := range types {
			for _, copying := range []bool{true, false} {
				c, err := ringRate(ctx, typ, copying, r.Quick)
				if err != nil {
					return nil, nil, fmt.Errorf("ring, %s: %w", typ, err)
				}
				by := without
				if copying {
					by = with
				}
				by[typ] = append(by[typ], c)
			}
		}
	}
	var checks []report.Check
	for _, typ := range []cube.Type{cube.TypeXDPDRV, cube.TypeTC} {
		hook := hookName(typ.Hook())
		slowRow(t, hook, with[typ])
		var copies, readers report.Sample
		for i := range with[typ] {
			copies = append(copies, with[typ][i].kernel-without[typ][i].kernel)
			readers = append(readers, 1000/with[typ][i].reader)
		}
		checks = append(checks, report.AtLeast("ring of a cube, reader in Go, 128 bytes, "+hook, "%.2f Mpps", readers.Median(), 2))
		last := len(t.Rows) - 1
		t.Rows[last] = append(t.Rows[last], copies.Spread(0))
	}
	return t, checks, nil
}

// cubeMaps finds the maps of a cube.
type cubeMaps struct {
	*lab.Plane
	id datapath.CubeID
}

// Map implements ring.Maps.
func (m cubeMaps) Map(name string) (*ebpf.Map, error) { return m.Plane.Map(m.id, name) }

// ringRate measures one round.
func ringRate(ctx context.Context, typ cube.Type, copying, quick bool) (cost slowCost, err error) {
	packets := 1 << 20
	if quick {
		packets = 1 << 17
	}
	err = lab.With(ctx, func(rig *lab.Rig) error {
		w, err := rig.NewWire(stations)
		if err != nil {
			return err
		}
		p, n, err := slowPlane(rig, w, typ, "mirror", map[string]any{"copying": copying})
		if err != nil {
			return err
		}
		reader, err := ring.Open(cubeMaps{p, n.ID}, "copies")
		if err != nil {
			return err
		}
		var read atomic.Uint64
		working := lab.Start(rig.Context(), func(ctx context.Context) error {
			return errors.Join(reader.Run(ctx, func(*ring.Packet) { read.Add(1) }), reader.Close())
		})
		kernel, err := lab.CPUTime(0, func() error { return w.Send(packets) })
		counts, cerr := p.Map(n.ID, "copies"+ring.CountsSuffix)
		if err := errors.Join(err, cerr); err != nil {
			return err
		}
		sum, err := ring.Sum(counts)
		if err == nil {
			err = until(5*time.Second, func() bool { return read.Load() >= sum.Written })
		}
		spent, rerr := working.Stop()
		if err := errors.Join(err, rerr); err != nil {
			return err
		}
		got := float64(packets)
		if copying {
			got = float64(sum.Written)
		}
		cost = slowCost{kernel: float64(kernel) / float64(packets), reader: float64(spent) / got,
			shed: 100 * float64(sum.Lost) / float64(max(1, sum.Written+sum.Lost))}
		return nil
	})
	return cost, err
}
