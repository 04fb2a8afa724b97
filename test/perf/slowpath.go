// SPDX-License-Identifier: Apache-2.0

package perf

// The slow path: packets up to user space and down again, beside a noisy neighbour, and as large
// as TCP makes them.

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
		Notes: []string{"Up: the kernel's side is generator, veth, program and ring, the reader's side a handler that counts; the slower " +
			"of both is the rate. Down: one thread writes, and the kernel handles the packet to the sink behind the next veth within that write."},
	}
	up, down := map[cube.Type]report.Sample{}, map[cube.Type]report.Sample{}
	var steps [2]map[cube.Type][]slowCost
	steps[0], steps[1] = map[cube.Type][]slowCost{}, map[cube.Type][]slowCost{}
	rounds := r.rounds(7, 2)
	for round := range rounds {
		r.progress("slowpath: round %d of %d", round+1, rounds)
		for _, typ := range []cube.Type{cube.TypeXDPDRV, cube.TypeTC} {
			u, d, err := slowRates(ctx, typ, r.Quick)
			if err != nil {
				return fmt.Errorf("%s: %w", typ, err)
			}
			up[typ], down[typ] = append(up[typ], u.mpps()), append(down[typ], d.mpps())
			steps[0][typ], steps[1][typ] = append(steps[0][typ], u), append(steps[1][typ], d)
		}
	}
	var checks []report.Check
	for _, typ := range []cube.Type{cube.TypeXDPDRV, cube.TypeTC} {
		hook := hookName(typ.Hook())
		slowRows(rates, hook, up[typ], steps[0][typ], down[typ], steps[1][typ])
		checks = append(checks, report.AtLeast("slow path up, "+hook, "%.2f Mpps", up[typ].Median(), 1),
			report.AtLeast("slow path down, "+hook, "%.2f Mpps", down[typ].Median(), 0.8))
	}
	fair, fairChecks, err := fairness(ctx, r)
	if err != nil {
		return fmt.Errorf("fairness: %w", err)
	}
	super, superCheck, err := superframes(ctx, r)
	if err != nil {
		return fmt.Errorf("superframes: %w", err)
	}
	r.add(Section{Title: "Slow path", Text: slowText, Tables: []*report.Table{rates, fair, super}},
		append(append(checks, fairChecks...), superCheck)...)
	return nil
}

const slowText = "A cube sends every packet up to user space through the BPF ring buffer; user space sends packets down " +
	"through the TAP of the hook. CPU time, as everywhere."

// slowCost is what a number of packets cost each side, in ns each.
type slowCost struct {
	kernel, reader float64
	shed           float64 // share of the packets, in percent
}

// mpps is what one core for each side does.
func (c slowCost) mpps() float64 { return 1000 / max(c.kernel, c.reader) }

func slowRows(t *report.Table, hook string, up report.Sample, ups []slowCost, down report.Sample, downs []slowCost) {
	var kernel, reader, shed, write report.Sample
	for _, c := range ups {
		kernel, reader, shed = append(kernel, c.kernel), append(reader, c.reader), append(shed, c.shed)
	}
	for _, c := range downs {
		write = append(write, c.kernel)
	}
	t.Add("up, "+hook, up.Spread(2), kernel.Spread(0), reader.Spread(0), shed.Spread(1))
	t.Add("down, "+hook, down.Spread(2), write.Spread(0), "", "")
}

// puntPlane links a punting cube between the netdevs of a wire.
func puntPlane(rig *lab.Rig, w *lab.Wire, typ cube.Type) (*lab.Plane, *datapath.Node, error) {
	object, err := bpf.Object("punt", typ.Hook())
	if err != nil {
		return nil, nil, err
	}
	p, err := rig.NewPlane(w.Machine.Namespace, lab.PlaneOptions{
		Type: typ, Mode: datapath.ModeInline, SlowPath: true,
		Services: map[string]map[cube.Hook][]byte{"punt": {typ.Hook(): object}},
	})
	if err != nil {
		return nil, nil, err
	}
	n, err := p.Cube("punt", 2, nil)
	if err != nil {
		return nil, nil, err
	}
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
			err = rig.Sink(w)
		}
		if err != nil {
			return err
		}
		p, n, err := puntPlane(rig, w, typ)
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

// fairness floods one cube, whose handler is too slow, beside one that gets a little.
func fairness(ctx context.Context, r *Run) (*report.Table, []report.Check, error) {
	const rate, work = 10_000, 2 * time.Microsecond
	length := 3 * time.Second
	if r.Quick {
		length = 500 * time.Millisecond
	}
	t := &report.Table{Title: "A quiet cube beside a flooded one", Columns: []string{"", "packets up", "shed", "shed %"}}
	var quiet, noisy struct{ up, shed uint64 }
	var sent int
	err := lab.With(ctx, func(rig *lab.Rig) error {
		w, err := rig.NewWire(stations)
		if err != nil {
			return err
		}
		p, loud, err := puntPlane(rig, w, cube.TypeXDPDRV)
		if err != nil {
			return err
		}
		host := w.Machine.Host("quiet", "")
		still, err := p.Cube("punt", 1, nil)
		if err == nil {
			err = errors.Join(p.Netdev(still, 0, "quiet"), p.Commit())
		}
		if err != nil {
			return err
		}
		h := &counter{each: func(id uint16, _ *cube.PacketIn) {
			for start := time.Now(); datapath.CubeID(id) == loud.ID && time.Since(start) < work; {
			}
		}}
		rd, err := p.Read(rig.Context(), h)
		if err != nil {
			return err
		}
		loading, stop := context.WithTimeout(rig.Context(), length)
		defer stop()
		var floodErr, loadErr error
		var wg sync.WaitGroup
		wg.Go(func() { floodErr = w.Flood(loading) })
		wg.Go(func() { sent, loadErr = lab.Load(loading, host, rate, stations) })
		wg.Wait()
		quiet.up, quiet.shed, err = fates(p, still.ID)
		if err == nil {
			noisy.up, noisy.shed, err = fates(p, loud.ID)
		}
		_, rerr := rd.Stop()
		return errors.Join(err, rerr, floodErr, loadErr)
	})
	if err != nil {
		return nil, nil, err
	}
	if noisy.shed == 0 {
		return nil, nil, errors.New("the flooded cube lost nothing, so this shows nothing")
	}
	share := func(up, shed uint64) string { return fmt.Sprintf("%.1f", 100*float64(shed)/float64(up+shed)) }
	t.Add("quiet, 10 kpps", fmt.Sprint(quiet.up), fmt.Sprint(quiet.shed), share(quiet.up, quiet.shed))
	t.Add("flooded", fmt.Sprint(noisy.up), fmt.Sprint(noisy.shed), share(noisy.up, noisy.shed))
	t.Notes = []string{fmt.Sprintf("The handler takes %s for each packet of the flooded cube. The quiet cube was sent %d packets.", work, sent)}
	lost := float64(sent) - float64(quiet.up)
	return t, []report.Check{report.AtMost("slow path, quiet cube beside a flooded one: packets lost", "%.0f", lost, 0)}, nil
}
