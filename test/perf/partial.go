// SPDX-License-Identifier: Apache-2.0

package perf

// CPU use below the limit: the cost of a forwarder at low rates.

import (
	"context"
	"fmt"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// partialRates are in packets per second. They come from a socket, which cannot send many more.
var partialRates = []int{200_000, 400_000}

// bridgePartial measures the CPU time of each forwarder at rates that all can forward. bridgeNS is the cost of a packet
// in the Linux bridge at full rate.
func bridgePartial(ctx context.Context, r *Run, bridgeNS float64) (*report.Table, error) {
	t := &report.Table{
		Title:   "CPU use at partial load",
		Columns: []string{"kpps", "of the Linux bridge's maximum", "", "ns per packet", "net ns", "net use of one CPU", "× Linux bridge"},
		Notes: []string{"Packets come from a socket, some every 0.1 ms: few at a time, as on a lightly loaded " +
			"machine, so the cost per batch weighs more than at full rate. *nothing*, which drops at once, contains the " +
			"sender's cost, and is subtracted in *net*. Nothing polls: without packets the use is 0."},
	}
	length := 500 * time.Millisecond
	if r.Quick {
		length = 200 * time.Millisecond
	}
	rounds := r.rounds(3, 1)
	for _, rate := range partialRates {
		r.progress("bridge: CPU use at %d kpps", rate/1000)
		ns := map[string]report.Sample{}
		all := forwarders(r.Root)
		for range rounds {
			shuffle(all)
			for _, f := range all {
				one, err := f.use(ctx, rate, length)
				if err != nil {
					return nil, fmt.Errorf("%s at %d kpps: %w", f.name, rate/1000, err)
				}
				ns[f.name] = append(ns[f.name], one)
			}
		}
		linux := ns[linuxBridge].Median() - ns[nothing].Median()
		for _, f := range forwarders(r.Root) {
			net := ns[f.name].Median() - ns[nothing].Median()
			t.Add(fmt.Sprint(rate/1000), fmt.Sprintf("%.0f %%", float64(rate)*bridgeNS/1e7), f.name, ns[f.name].Spread(0),
				fmt.Sprintf("%.0f", net), fmt.Sprintf("%.1f %%", net*float64(rate)/1e7), fmt.Sprintf("%.2f", net/linux))
		}
	}
	return t, nil
}

// use sets up the forwarder and returns the cost of a packet at a rate in packets per second, in ns.
func (f forwarder) use(ctx context.Context, rate int, length time.Duration) (ns float64, err error) {
	err = lab.With(ctx, func(rig *lab.Rig) error {
		w, err := rig.NewWire(stations)
		if err == nil {
			err = rig.Sink(w, cube.XDP)
		}
		if err == nil {
			err = f.setup(rig, w)
		}
		if err == nil {
			err = w.Teach(stations)
		}
		if err == nil {
			ns, err = w.Use(rig.Context(), rate, stations, length)
		}
		return err
	})
	return ns, err
}
