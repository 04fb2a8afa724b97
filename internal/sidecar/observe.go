// SPDX-License-Identifier: Apache-2.0

package sidecar

// What a program shows of itself: to its own command `status`, and to Prometheus.

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics take values of metrics.
type Metrics struct{ to chan<- prometheus.Metric }

// Gauge adds a value that may fall.
func (m Metrics) Gauge(d *prometheus.Desc, value float64, labels ...string) {
	m.to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// Counter adds a value that only grows.
func (m Metrics) Counter(d *prometheus.Desc, value uint64, labels ...string) {
	m.to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

// Observed is a program with a status, from which its metrics are collected when they are asked for. An error of Status says why there
// is none now. Commands are others that it carries out, by their names.
type Observed[T any] struct {
	Status   func() (T, error)
	Collect  func(T, Metrics)
	Commands map[string]func() error
}

// Collector returns the metrics for a registry.
func (o *Observed[T]) Collector() prometheus.Collector { return collector[T]{o} }

// collector is a prometheus.Collector.
type collector[T any] struct{ of *Observed[T] }

// Describe implements prometheus.Collector.
func (c collector[T]) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, to) }

// Collect implements prometheus.Collector.
func (c collector[T]) Collect(to chan<- prometheus.Metric) {
	if is, err := c.of.Status(); err == nil {
		c.of.Collect(is, Metrics{to})
	}
}

// ServeHTTP answers the command `status`, and carries out others.
func (o *Observed[T]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		do := o.Commands[strings.TrimPrefix(r.URL.Path, "/")]
		if do == nil {
			http.NotFound(w, r)
		} else if err := do(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
		return
	}
	is, err := o.Status()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(is) // the reader may have gone
}

// Serve serves the status at a Unix socket and, at a TCP address unless that is empty, the metrics, until end.
func (o *Observed[T]) Serve(socket, address string) (end func(), err error) {
	control, err := listen(socket)
	if err != nil {
		return nil, err
	}
	servers := []*http.Server{serve(control, o)}
	end = func() {
		for _, s := range servers {
			_ = s.Close()
		}
	}
	if address == "" {
		return end, nil
	}
	metrics, err := net.Listen("tcp", address)
	if err != nil {
		end()
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(o.Collector())
	servers = append(servers, serve(metrics, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})))
	return end, nil
}

// Show prints the status of a program that runs, as JSON or by table.
func Show[T any](ctx context.Context, program, socket string, asJSON bool, to io.Writer, table func(T, io.Writer) error) error {
	text, err := ask(ctx, program, socket, http.MethodGet, "")
	switch {
	case err != nil:
		return err
	case asJSON:
		_, err := to.Write(text)
		return err
	}
	var is T
	if err := json.Unmarshal(text, &is); err != nil {
		return err
	}
	return table(is, to)
}

// Command has a program that runs carry out a command.
func Command(ctx context.Context, program, socket, name string) error {
	_, err := ask(ctx, program, socket, http.MethodPost, name)
	return err
}
