// SPDX-License-Identifier: Apache-2.0

// Package metrics exports metrics for a monitoring system. Values come from three sources: nodes of a model with
// name-metric, evaluated on the cube's JSON; the counters of the data plane for every cube; and counters of the
// daemon's own parts. The types of the Prometheus library stay in this package.
//
// A scrape is limited: one at a time collects; what grows with the contents of cubes (maps, lists) has a time budget
// and continues in the next scrape where it stopped; and the response is written while it is built.
package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/slowpath"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/yang"
)

const (
	// scrapeTimeout limits reading the state of cubes.
	scrapeTimeout = 10 * time.Second
	// mapBudget limits the time for counting map entries in one scrape, mapAge is how old a count may be.
	mapBudget = 250 * time.Millisecond
	mapAge    = 5 * time.Second
	// modelBudget limits the time for reading cubes' state for the metrics of models in one scrape.
	modelBudget = 2 * time.Second
)

// Topology is the source of metrics about cubes: *topology.Manager.
type Topology interface {
	Services() []topology.ServiceInfo
	Schema(service string) (*yang.Schema, error)
	Read(ctx context.Context, service, name string, path yang.Path) (json.RawMessage, error)
	FrameworkFates() ([]datapath.Fate, error)
	Numbers() []topology.CubeNumbers
	NetdevNumbers() []topology.NetdevNumbers
	Maps(cube string) []datapath.MapUsage
	Activity() topology.Activity
	Revision() uint64
	Trial() *topology.Trial
	// ServiceStates and ServiceSeries are for external services.
	ServiceStates() []topology.ServiceState
	ServiceSeries() []topology.Series
}

// Sources are the sources of metrics. All but Topology may be nil: they then have no metrics.
type Sources struct {
	Topology Topology
	Version  string
	// Linker reports relinks, and the programs in use.
	Linker interface {
		Activity() datapath.Activity
		Segments() []datapath.Segment
	}
	// SlowPath reports how full the ring is; false while there is none.
	SlowPath func() (slowpath.Load, bool)
	Store    interface{ Stats() store.Stats }
	Events   *events.Log
	// Subscribers is the number of clients that follow events.
	Subscribers func() int
	Logger      *slog.Logger
}

// Exporter handles scrapes.
type Exporter struct {
	Sources
	// Requests counts API requests.
	Requests Requests

	process *prometheus.Registry

	// flights are the walk in progress, and the next one, for requests that arrived meanwhile.
	mu            sync.Mutex
	current, next *flight

	// models and maps are used only by the walk in progress.
	models models
	maps   rotation[[]datapath.MapUsage]
	took   atomic.Int64
}

// New creates an exporter.
func New(s Sources) *Exporter {
	if s.Logger == nil {
		s.Logger = slog.Default()
	}
	e := &Exporter{Sources: s, process: prometheus.NewRegistry()}
	e.process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	e.models = models{log: s.Logger, families: map[string]*modelOf{}, values: rotation[[]modelValue]{budget: modelBudget}}
	e.maps = rotation[[]datapath.MapUsage]{age: mapAge, budget: mapBudget}
	return e
}

// scrapeData are the metrics of one scrape.
type scrapeData struct {
	cubes    []topology.CubeNumbers
	services map[string]int
	netdevs  []topology.NetdevNumbers
	maps     map[string][]datapath.MapUsage
	oldest   time.Duration
	models   []modelRow
}

// Write collects all metrics and writes them.
func (e *Exporter) Write(ctx context.Context, to io.Writer, format Format) error {
	f := e.collect(ctx)
	enc := newEncoder(to, format)
	e.writeCubes(enc, f)
	e.writePrograms(enc, f)
	e.writeSlowPath(enc, f)
	e.writeDaemon(enc)
	e.writeServices(enc)
	for _, row := range f.models {
		enc.sample(row.family, row.value, row.cube)
	}
	if err := enc.to.Flush(); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return e.writeProcess(to, format)
}

// flight is one walk over all sources, for all requests that arrived before it began.
type flight struct {
	scrapeData
	done chan struct{}
}

// collect returns metrics that are not older than the request. For any number of concurrent requests, one walk is in
// progress and one more follows.
func (e *Exporter) collect(ctx context.Context) scrapeData {
	e.mu.Lock()
	f := e.next
	lead := f == nil
	if lead {
		f = &flight{done: make(chan struct{})}
		e.next = f
	}
	before := e.current
	e.mu.Unlock()
	if lead {
		if before != nil {
			<-before.done
		}
		e.mu.Lock()
		e.current, e.next = f, nil
		e.mu.Unlock()
		f.scrapeData = e.walk(context.WithoutCancel(ctx)) // others wait for it
		close(f.done)
	}
	select {
	case <-f.done:
		return f.scrapeData
	case <-ctx.Done():
		return scrapeData{}
	}
}

// walk reads all sources. Only one walk runs at a time.
func (e *Exporter) walk(ctx context.Context) (f scrapeData) {
	began := time.Now()
	defer func() {
		if cause := recover(); cause != nil {
			e.Logger.Error("panic while collecting metrics", "panic", cause, "stack", string(debug.Stack()))
		}
		e.took.Store(int64(time.Since(began)))
	}()
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	f.cubes = e.Topology.Numbers()
	f.netdevs = e.Topology.NetdevNumbers()
	f.services = map[string]int{}
	names := make([]string, 0, len(f.cubes))
	for i := range f.cubes {
		if !f.cubes[i].Broken {
			f.services[f.cubes[i].Service]++
			names = append(names, f.cubes[i].Name)
		}
	}
	f.maps, f.oldest = e.maps.current(names, e.Topology.Maps)
	f.models = e.models.collect(ctx, e.Topology, f.cubes)
	return f
}

// writeProcess writes the process metrics of the Go library, and OpenMetrics' end.
func (e *Exporter) writeProcess(to io.Writer, format Format) error {
	families, err := e.process.Gather()
	if err != nil {
		// Partial results are still useful.
		e.Logger.Warn("gathering metrics of the process", "err", err)
	}
	for _, f := range families {
		if err := writeFamily(to, f, format); err != nil {
			return fmt.Errorf("write metrics: %w", err)
		}
	}
	if format == OpenMetrics {
		if _, err := expfmt.FinalizeOpenMetrics(to); err != nil {
			return fmt.Errorf("write metrics: %w", err)
		}
	}
	return nil
}

func writeFamily(to io.Writer, f *dto.MetricFamily, format Format) error {
	var err error
	if format == OpenMetrics {
		_, err = expfmt.MetricFamilyToOpenMetrics(to, f)
	} else {
		_, err = expfmt.MetricFamilyToText(to, f)
	}
	return err
}
