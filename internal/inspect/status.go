// SPDX-License-Identifier: Apache-2.0

package inspect

// What the program shows of itself: to polycube-ndpi status, and to Prometheus.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/ndpi"
	"github.com/polycube/polycube/internal/sidecar"
)

// Status is that of a running program.
type Status struct {
	Cube, NDPI string
	// Flows are in memory; Ended have ended.
	Flows     int
	Behind    time.Duration
	Packets   uint64
	Malformed uint64
	Started   uint64
	Decided   uint64
	Guessed   uint64
	Unknown   uint64
	Changed   uint64
	Evicted   uint64
	Failed    uint64
	Ended     uint64
	LostLines uint64
	// Median and P99 are from a packet to the decision that it brought, EffectP99 from nDPI's answer to the table.
	Median, P99, EffectP99 time.Duration
	// Ring is what happened in the ring: records that made no sense, and how often the place in it was lost.
	RingMalformed, RingRepaired uint64
}

// errAway: nothing is classified now.
var errAway = errors.New("polycube-ndpi is waiting for its cube")

func (p *program) status() (Status, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.worker == nil {
		return Status{}, errAway
	}
	c, r := &p.counts, p.reader.Stats()
	is := Status{
		Cube: p.options.Cube, NDPI: ndpi.Version(), Flows: int(p.worker.flows.size.Load()), Behind: p.worker.behind(), Packets: c.Packets.Load(),
		Malformed: c.Malformed.Load(), Started: c.Started.Load(), Decided: c.Decided.Load(), Guessed: c.Guessed.Load(), Unknown: c.Unknown.Load(),
		Changed: c.Changed.Load(), Evicted: c.Evicted.Load(), Failed: c.Failed.Load(), Ended: p.ended,
		Median: c.Latency.quantile(0.5), P99: c.Latency.quantile(0.99), EffectP99: c.Effect.quantile(0.99), RingMalformed: r.Malformed, RingRepaired: r.Damaged,
	}
	if p.events != nil {
		is.LostLines = p.events.lost.Load()
	}
	return is, nil
}

// behind is the age of the oldest packet that was not seen, 0 if that is what it is between two beats.
func (w *worker) behind() time.Duration {
	now, err := cube.Time()
	told := w.told.Load()
	age := time.Duration(int64(now) - told)
	if err != nil || told == 0 || age < 2*time.Duration(w.interval.Load()) {
		return 0
	}
	return age
}

// rotate opens the log again at each SIGHUP, until end.
func (p *program) rotate() (end func()) {
	hups := make(chan os.Signal, 1)
	signal.Notify(hups, unix.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range hups {
			if err := p.events.reopen(); err != nil {
				p.log.Error("reopen the log", "error", err)
			}
		}
	}()
	return func() {
		signal.Stop(hups)
		close(hups)
		<-done
	}
}

// observed shows the status, and metrics from it.
func (p *program) observed() *sidecar.Observed[Status] {
	return &sidecar.Observed[Status]{Status: p.status, Collect: collect}
}

// printed prints a status for people.
func printed(is Status, to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "cube\t%s\n", is.Cube)
	fmt.Fprintf(w, "nDPI\t%s\n", is.NDPI)
	fmt.Fprintf(w, "behind\t%s\n", is.Behind.Round(time.Millisecond))
	fmt.Fprintf(w, "packets\t%d\n", is.Packets)
	fmt.Fprintf(w, "flows\t%d in memory, %d classified, %d of them guessed, %d unknown\n", is.Flows, is.Decided, is.Guessed, is.Unknown)
	fmt.Fprintf(w, "ended flows\t%d\n", is.Ended)
	fmt.Fprintf(w, "time to a decision\tmedian %s, 99th percentile %s\n", is.Median, is.P99)
	fmt.Fprintf(w, "lost log lines\t%d\n", is.LostLines)
	return w.Flush()
}

var (
	metricFlows   = prometheus.NewDesc("polycube_ndpi_flows", "Number of flows in memory.", nil, nil)
	metricBehind  = prometheus.NewDesc("polycube_ndpi_behind_seconds", "Age of the oldest packet that was not read yet.", nil, nil)
	metricP99     = prometheus.NewDesc("polycube_ndpi_decision_seconds", "99th percentile of the time from a packet to the decision that it led to.", nil, nil)
	metricPackets = prometheus.NewDesc("polycube_ndpi_packets_total", "Number of packets that were inspected.", nil, nil)
	metricDecided = prometheus.NewDesc("polycube_ndpi_decisions_total", "Number of decided flows, by how they were classified.", []string{"how"}, nil)
	metricEnded   = prometheus.NewDesc("polycube_ndpi_ended_flows_total", "Number of flows that have ended.", nil, nil)
	metricErrors  = prometheus.NewDesc("polycube_ndpi_errors_total", "Number of errors, by kind.", []string{"what"}, nil)
)

// collect returns the metrics.
func collect(is Status, to sidecar.Metrics) {
	to.Gauge(metricFlows, float64(is.Flows))
	to.Gauge(metricBehind, is.Behind.Seconds())
	to.Gauge(metricP99, is.P99.Seconds())
	to.Counter(metricPackets, is.Packets)
	to.Counter(metricEnded, is.Ended)
	for how, n := range map[string]uint64{"guessed": is.Guessed, "unknown": is.Unknown, "recognised": is.Decided - is.Guessed - is.Unknown} {
		to.Counter(metricDecided, n, how)
	}
	for what, n := range map[string]uint64{
		"malformed": is.Malformed, "evicted": is.Evicted, "failed": is.Failed, "lost-lines": is.LostLines, "ring-malformed": is.RingMalformed,
		"ring-repaired": is.RingRepaired,
	} {
		to.Counter(metricErrors, n, what)
	}
}
