// SPDX-License-Identifier: Apache-2.0

// Package metrics tells a monitoring system what the daemon counts. Values come from three places: nodes of a model that
// carry name-metric, evaluated on the cube's JSON; the counters that the data plane keeps for every cube; and what the
// daemon's own parts count of themselves. The types of Prometheus' library stay in this package.
//
// A scrape is bounded: one at a time collects, what grows with the contents of cubes (maps, lists) has a budget of time
// and goes on in the next scrape where it stopped, and the answer is written as it is made.
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
	// scrapeTimeout bounds what asks cubes for their state.
	scrapeTimeout = 10 * time.Second
	// mapBudget bounds the time for counting entries of maps in one scrape, mapAge is how old a count may be.
	mapBudget = 250 * time.Millisecond
	mapAge    = 5 * time.Second
	// modelBudget bounds the time for reading cubes' state for the metrics of models in one scrape.
	modelBudget = 2 * time.Second
)

// Topology is what is measured of cubes: *topology.Manager.
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
	// ServiceStates and ServiceSeries are of external services.
	ServiceStates() []topology.ServiceState
	ServiceSeries() []topology.Series
}

// Sources are what is measured. All but Topology may be nil: what is not there has no metrics.
type Sources struct {
	Topology Topology
	Version  string
	// Linker tells of relinks, and of the programs in use.
	Linker interface {
		Activity() datapath.Activity
		Segments() []datapath.Segment
	}
	// SlowPath tells how full the ring is; false while there is none.
	SlowPath func() (slowpath.Load, bool)
	Store    interface{ Stats() store.Stats }
	Events   *events.Log
	// Subscribers is how many clients follow events.
	Subscribers func() int
	Logger      *slog.Logger
}

// Exporter answers scrapes.
type Exporter struct {
	Sources
	// Requests counts those to the API.
	Requests Requests

	process *prometheus.Registry

	// flights are the walk in progress, and the one that those wait for who came meanwhile.
	mu            sync.Mutex
	current, next *flight

	// models and maps are used by the walk in progress alone.
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

// figures are what one scrape collected.
type figures struct {
	cubes    []topology.CubeNumbers
	services map[string]int
	netdevs  []topology.NetdevNumbers
	maps     map[string][]datapath.MapUsage
	oldest   time.Duration
	models   []modelRow
}

// Write collects all figures and writes them.
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

// flight is one walk over all that is measured, for everybody who asked before it began.
type flight struct {
	figures
	done chan struct{}
}

// collect returns figures that are not older than the question. However many ask at once, one walk is in progress and
// one more follows.
func (e *Exporter) collect(ctx context.Context) figures {
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
		f.figures = e.walk(context.WithoutCancel(ctx)) // others wait for it
		close(f.done)
	}
	select {
	case <-f.done:
		return f.figures
	case <-ctx.Done():
		return figures{}
	}
}

// walk asks for what is measured. Nobody else does meanwhile.
func (e *Exporter) walk(ctx context.Context) (f figures) {
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
	f.maps, f.oldest = e.maps.look(names, e.Topology.Maps)
	f.models = e.models.collect(ctx, e.Topology, f.cubes)
	return f
}

// writeProcess writes what the Go library knows of the process, and OpenMetrics' end.
func (e *Exporter) writeProcess(to io.Writer, format Format) error {
	families, err := e.process.Gather()
	if err != nil {
		// What could be gathered is still worth having.
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
