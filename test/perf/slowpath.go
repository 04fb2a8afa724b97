// SPDX-License-Identifier: Apache-2.0

package perf

// The slow path: packets up to user space and down again, with a noisy neighbour, and as large as TCP superframes.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/slowpath"
	"github.com/polycube/polycube/test/perf/bpf"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// slowPath is the part "slowpath".
func slowPath(ctx context.Context, r *Run) error {
	rates := &report.Table{
		Title:   "Packets of 60 bytes, one core each side",
		Columns: []string{"", "Mpps of one core", "kernel, ns per packet", "reader, ns per packet", "shed %"},
		Notes: []string{"Up: the kernel's side is generator, veth, program and ring, the reader's side a " +
			"handler that counts; the slower of the two determines the rate, as CPU time per packet that arrived. Packets are " +
			"shed because the reader was not scheduled in time, or is slower than the writer: the ring holds some ten " +
			"milliseconds of traffic. Down: one thread writes, and within that write the kernel processes the packet up to " +
			"the sink behind the next veth."},
	}
	types := []cube.Type{cube.TypeXDPDRV, cube.TypeTC}
	up, down := map[cube.Type][]slowCost{}, map[cube.Type][]slowCost{}
	rounds := r.rounds(7, 2)
	for round := range rounds {
		r.progress("slowpath: round %d of %d", round+1, rounds)
		shuffle(types)
		for _, typ := range types {
			u, d, err := slowRates(ctx, typ, r.Quick)
			if err != nil {
				return fmt.Errorf("%s: %w", typ, err)
			}
			up[typ], down[typ] = append(up[typ], u), append(down[typ], d)
		}
	}
	var checks []report.Check
	for _, typ := range []cube.Type{cube.TypeXDPDRV, cube.TypeTC} {
		hook := hookName(typ.Hook())
		checks = append(checks, report.AtLeast("slow path up, "+hook, "%.2f Mpps", slowRow(rates, "up, "+hook, up[typ]), 1),
			report.AtLeast("slow path down, "+hook, "%.2f Mpps", slowRow(rates, "down, "+hook, down[typ]), 0.8))
	}
	share, err := slowShares(ctx, r)
	if err != nil {
		return fmt.Errorf("shares: %w", err)
	}
	fair, fairChecks, err := fairness(ctx, r)
	if err != nil {
		return fmt.Errorf("fairness: %w", err)
	}
	super, superCheck, err := superframes(ctx, r)
	if err != nil {
		return fmt.Errorf("superframes: %w", err)
	}
	own, ownChecks, err := ringTable(ctx, r)
	if err != nil {
		return err
	}
	r.add(Section{Title: "Slow path", Text: slowText, Tables: []*report.Table{rates, share, fair, super, own}},
		slices.Concat(checks, fairChecks, []report.Check{superCheck}, ownChecks)...)
	return nil
}

const slowText = "A cube sends every packet up to user space through the BPF ring buffer; user space sends packets down " +
	"through the TAP of the hook. CPU time, as everywhere."

// slowCost is the cost of a number of packets on each side, in ns each.
type slowCost struct {
	kernel, reader float64
	shed           float64 // share of the packets, in percent
}

// mpps is the rate of one core per side.
func (c slowCost) mpps() float64 { return 1000 / max(c.kernel, c.reader) }

// slowRow adds a row and returns the median rate in Mpps.
func slowRow(t *report.Table, name string, costs []slowCost) float64 {
	var rate, kernel, reader, shed report.Sample
	for _, c := range costs {
		rate, kernel = append(rate, c.mpps()), append(kernel, c.kernel)
		reader, shed = append(reader, c.reader), append(shed, c.shed)
	}
	row := []string{name, rate.Spread(2), kernel.Spread(0)}
	if reader.Max() > 0 {
		row = append(row, reader.Spread(0), shed.Spread(1))
	}
	t.Add(row...)
	return rate.Median()
}

// slowPlane links a cube with a slow path between the netdevs of a wire.
func slowPlane(rig *lab.Rig, w *lab.Wire, typ cube.Type, service string, constants map[string]any) (*lab.Plane, *datapath.Node, error) {
	object, err := bpf.Object(service, typ.Hook())
	if err != nil {
		return nil, nil, err
	}
	p, err := rig.NewPlane(w.Machine.Namespace, lab.PlaneOptions{
		Type: typ, Mode: datapath.ModeInline, SlowPath: true,
		Services: map[string]map[cube.Hook][]byte{service: {typ.Hook(): object}},
	})
	if err != nil {
		return nil, nil, err
	}
	n, err := p.Cube(service, 2, nil)
	if err != nil {
		return nil, nil, err
	}
	n.Constants = constants
	return p, n, errors.Join(p.Netdev(n, 0, lab.In), p.Netdev(n, 1, lab.Out), p.Commit())
}

// counter is a handler that counts packets by cube.
type counter struct {
	packets [8]atomic.Uint64
	each    func(id uint16, p *cube.PacketIn)
}

// Packet implements slowpath.Handler.
func (c *counter) Packet(id uint16, p *cube.PacketIn, _ slowpath.Meta) {
	if c.each != nil {
		c.each(id, p)
	}
	c.packets[id%8].Add(1)
}

// Log implements slowpath.Handler.
func (c *counter) Log(uint16, uint32, string) {}

// Flood implements slowpath.Handler.
func (c *counter) Flood(uint16, *cube.PacketIn, slowpath.Meta) {}

// Notify implements slowpath.Handler.
func (c *counter) Notify(uint16, uint32, []byte) {}

// fates reads two counters of a cube: packets given to the slow path, and shed.
func fates(p *lab.Plane, id datapath.CubeID) (up, shed uint64, err error) {
	all, err := p.Fates(id)
	for _, f := range all {
		switch f.Name {
		case "slowpath":
			up = f.Packets
		case "slowpath-shed":
			shed = f.Packets
		}
	}
	return up, shed, err
}

// slowRates measures one round, up and down.
func slowRates(ctx context.Context, typ cube.Type, quick bool) (up, down slowCost, err error) {
	packets := 1 << 19
	if quick {
		packets = 1 << 17
	}
	err = lab.With(ctx, func(rig *lab.Rig) error {
		w, err := rig.NewWire(stations)
		if err == nil {
			err = rig.Sink(w, typ.Hook())
		}
		if err != nil {
			return err
		}
		p, n, err := slowPlane(rig, w, typ, "punt", nil)
		if err != nil {
			return err
		}
		if up, err = upRate(rig.Context(), w, p, n.ID, packets); err != nil {
			return fmt.Errorf("up: %w", err)
		}
		if down, err = downRate(w, p, n.ID, packets/2); err != nil {
			return fmt.Errorf("down: %w", err)
		}
		return nil
	})
	return up, down, err
}

func upRate(ctx context.Context, w *lab.Wire, p *lab.Plane, id datapath.CubeID, packets int) (slowCost, error) {
	h := &counter{}
	rd, err := p.Read(ctx, h)
	if err != nil {
		return slowCost{}, err
	}
	kernel, err := lab.CPUTime(0, func() error { return w.Send(packets) })
	arrived, shed, ferr := fates(p, id)
	if err == nil && ferr == nil {
		err = until(5*time.Second, func() bool { return h.packets[id].Load() >= arrived })
	}
	reader, rerr := rd.Stop()
	if err := errors.Join(err, ferr, rerr); err != nil {
		return slowCost{}, err
	}
	if arrived == 0 {
		return slowCost{}, errors.New("no packet came up")
	}
	got := float64(arrived)
	return slowCost{kernel: float64(kernel) / got, reader: float64(reader) / got, shed: 100 * float64(shed) / (got + float64(shed))}, nil
}

func downRate(w *lab.Wire, p *lab.Plane, id datapath.CubeID, packets int) (slowCost, error) {
	before, err := w.Counts()
	if err != nil {
		return slowCost{}, err
	}
	out := &cube.PacketOut{Port: 1, Direction: cube.Egress, Data: lab.Template(lab.FrameSize)}
	spent, err := lab.CPUTime(0, func() error {
		for i := range packets {
			lab.Station(out.Data, i%stations)
			if err := p.Send(id, out); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return slowCost{}, err
	}
	want := before.Received + uint64(packets)
	var after lab.Counts
	err = until(5*time.Second, func() bool {
		after, err = w.Counts()
		return err != nil || after.Received >= want
	})
	if err != nil {
		return slowCost{}, fmt.Errorf("%d of %d arrived: %w", after.Received-before.Received, packets, err)
	}
	return slowCost{kernel: float64(spent) / float64(packets)}, nil
}

// until polls for a condition.
func until(within time.Duration, met func() bool) error {
	for start := time.Now(); !met(); time.Sleep(time.Millisecond) {
		if time.Since(start) > within {
			return fmt.Errorf("not within %s: %w", within, context.DeadlineExceeded)
		}
	}
	return nil
}
