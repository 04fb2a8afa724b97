// SPDX-License-Identifier: Apache-2.0

package perf

// The latency of a packet, alone and with other traffic.

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// loadRate is the background traffic in packets per second: well below the limit of the slowest forwarder.
const loadRate = 100_000

// latencies are the quantiles of one forwarder, by load, one value for each round, in µs.
type latencies struct{ p50, p99 [2]report.Sample }

// bridgeLatency measures round trips of UDP datagrams through all forwarders.
func bridgeLatency(ctx context.Context, r *Run) (*report.Table, error) {
	var all []forwarder
	results := map[string]*latencies{}
	for _, f := range forwarders(r.Root) {
		if f.name != nothing {
			all = append(all, f)
			results[f.name] = &latencies{}
		}
	}
	rounds := r.rounds(7, 1)
	for round := range rounds {
		r.progress("bridge, latency: round %d of %d", round+1, rounds)
		shuffle(all)
		for _, f := range all {
			if err := f.latency(ctx, results[f.name], r.Quick); err != nil {
				return nil, fmt.Errorf("latency, %s: %w", f.name, err)
			}
		}
	}
	t := &report.Table{
		Title:   "Round-trip latency, µs",
		Columns: []string{"", "alone, p50", "alone, p99", "at 100 kpps, p50", "at 100 kpps, p99"},
		Notes: []string{"UDP datagrams of 18 bytes between two hosts, one at a time; most of the time is " +
			"spent in the hosts: system calls and waking the other end."},
	}
	for _, f := range forwarders(r.Root) {
		if l := results[f.name]; l != nil {
			t.Add(f.name, l.p50[0].Spread(1), l.p99[0].Spread(1), l.p50[1].Spread(1), l.p99[1].Spread(1))
		}
	}
	return t, nil
}

// latency adds one round of one forwarder.
func (f forwarder) latency(ctx context.Context, l *latencies, quick bool) error {
	pings := 4000
	if quick {
		pings = 1000
	}
	return lab.With(ctx, func(rig *lab.Rig) error {
		w, err := rig.NewWire(stations, netns.WithoutTxChecksum())
		if err != nil {
			return err
		}
		if err := f.setup(rig, w); err != nil {
			return err
		}
		if err := w.Teach(stations); err != nil {
			return err
		}
		for loaded := range 2 {
			times, err := roundTrips(ctx, w, pings, loaded == 1)
			if err != nil {
				return err
			}
			l.p50[loaded] = append(l.p50[loaded], report.Sample(times).Quantile(0.5))
			l.p99[loaded] = append(l.p99[loaded], report.Sample(times).Quantile(0.99))
		}
		return nil
	})
}

func roundTrips(ctx context.Context, w *lab.Wire, n int, loaded bool) ([]float64, error) {
	if !loaded {
		return w.PingPong(ctx, n)
	}
	loading, stop := context.WithCancel(ctx)
	var loadErr error
	var wg sync.WaitGroup
	wg.Go(func() { _, loadErr = lab.Load(loading, w.Left, loadRate, stations) })
	times, err := w.PingPong(ctx, n)
	stop()
	wg.Wait()
	return times, errors.Join(err, loadErr)
}
