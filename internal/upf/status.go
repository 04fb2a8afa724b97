// SPDX-License-Identifier: Apache-2.0

package upf

// What the program shows of itself: to polycube-upf status, and to Prometheus.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/polycube/polycube/internal/n4"
	"github.com/polycube/polycube/internal/sidecar"
)

// errAway: nothing is served now.
var errAway = errors.New("polycube-upf waits for its cube")

// status returns what the server says.
func (p *program) status() (n4.Status, error) {
	p.mu.Lock()
	server := p.server
	p.mu.Unlock()
	if server == nil {
		return n4.Status{}, errAway
	}
	return server.Status()
}

// observe serves the status and the metrics until end.
func (p *program) observe() (end func(), err error) {
	control, err := sidecar.Listen(p.options.Control)
	if err != nil {
		return nil, err
	}
	servers := []*http.Server{sidecar.Serve(control, http.HandlerFunc(p.answer))}
	end = func() {
		for _, s := range servers {
			_ = s.Close()
		}
	}
	if p.options.Metrics == "" {
		return end, nil
	}
	metrics, err := net.Listen("tcp", p.options.Metrics)
	if err != nil {
		end()
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{p})
	servers = append(servers, sidecar.Serve(metrics, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})))
	return end, nil
}

// answer answers polycube-upf status.
func (p *program) answer(w http.ResponseWriter, _ *http.Request) {
	is, err := p.status()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(is) // the reader may have gone
}

// show prints the status of a program that runs.
func show(ctx context.Context, o Options, stdout io.Writer) error {
	text, err := sidecar.Ask(ctx, "polycube-upf", o.Control)
	switch {
	case err != nil:
		return err
	case o.JSON:
		_, err := stdout.Write(text)
		return err
	}
	var is n4.Status
	if err := json.Unmarshal(text, &is); err != nil {
		return err
	}
	return table(is, stdout)
}

// table prints a status for people.
func table(is n4.Status, to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "address\t%s\n", is.Address)
	fmt.Fprintf(w, "recovery\t%s\n", is.Recovery.Format(time.RFC3339))
	fmt.Fprintf(w, "sessions\t%d\n", is.Sessions)
	fmt.Fprintf(w, "addresses of devices\t%d\n", is.Addresses)
	fmt.Fprintf(w, "guaranteed kbit/s\t%d up, %d down\n", is.GuaranteedUp, is.GuaranteedDown)
	fmt.Fprintf(w, "requests that wait\t%d\n", is.Pending)
	fmt.Fprintln(w)
	fmt.Fprintln(w, "association\taddress\tstate\tsessions\tsince")
	for _, p := range is.Peers {
		state := "DOWN"
		if p.Up {
			state = "UP"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", p.Node, p.Address, state, p.Sessions, p.Since.Format(time.RFC3339))
	}
	return w.Flush()
}

// collector reads the metrics when they are asked for.
type collector struct{ program *program }

var (
	metricSessions  = prometheus.NewDesc("polycube_upf_sessions", "Number of PFCP sessions.", nil, nil)
	metricAddresses = prometheus.NewDesc("polycube_upf_addresses", "Number of addresses of devices, allocated here or by the control plane function.", nil, nil)
	metricGBR       = prometheus.NewDesc("polycube_upf_guaranteed_bytes_per_second", "Sum of the guaranteed rates of all sessions.", []string{"direction"}, nil)
	metricUp        = prometheus.NewDesc("polycube_upf_association_up", "1 if the control plane function answers heartbeats.", []string{"node"}, nil)
	metricOf        = prometheus.NewDesc("polycube_upf_association_sessions", "Number of sessions of the control plane function.", []string{"node"}, nil)
	metricRequests  = prometheus.NewDesc("polycube_upf_requests_total", "Requests that were received, by the cause in the response; 0 for none.", []string{"message", "cause"}, nil)
	metricAsked     = prometheus.NewDesc("polycube_upf_own_requests_total", "Requests that were sent, by the cause in the response; 0 for no response, or one without a cause.", []string{"message", "cause"}, nil)
	metricOther     = prometheus.NewDesc("polycube_upf_messages_total", "Messages that were not answered as requests.", []string{"outcome"}, nil)
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, to) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	is, err := c.program.status()
	if err != nil {
		return // there is nothing to be measured
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counter := func(d *prometheus.Desc, value uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	gauge(metricSessions, float64(is.Sessions))
	gauge(metricAddresses, float64(is.Addresses))
	gauge(metricGBR, float64(is.GuaranteedUp)*125, "up")
	gauge(metricGBR, float64(is.GuaranteedDown)*125, "down")
	for _, p := range is.Peers {
		up := 0.0
		if p.Up {
			up = 1
		}
		gauge(metricUp, up, p.Node)
		gauge(metricOf, float64(p.Sessions), p.Node)
	}
	for _, m := range is.Requests {
		counter(metricRequests, m.Count, m.Message, strconv.Itoa(int(m.Cause)))
	}
	for _, m := range is.Asked {
		counter(metricAsked, m.Count, m.Message, strconv.Itoa(int(m.Cause)))
	}
	for outcome, n := range map[string]uint64{
		"repeated": is.Repeated, "malformed": is.Malformed, "unexpected": is.Unexpected, "lost": is.Lost, "unsent": is.Unsent, "panic": is.Panics,
	} {
		counter(metricOther, n, outcome)
	}
}
