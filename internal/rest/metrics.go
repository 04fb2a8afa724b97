// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/polycube/polycube/internal/yang"
)

// Metrics come from two places: nodes of a model that carry name-metric, evaluated on
// the cube's JSON at the scrape, and the counters that the data plane keeps for every
// cube. Values are written with six decimals, as the lines of the first Polycube were.

// scrapeTimeout bounds one collection.
const scrapeTimeout = 10 * time.Second

// metrics collects everything for /metrics.
type metrics struct {
	server   *Server
	registry *prometheus.Registry

	mu       sync.Mutex
	families map[string][]family

	packets, bytes, drops, fates *prometheus.Desc
	cubes, build                 *prometheus.Desc
}

// family is a metric that a model asks for.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	path jsonPath
	// count counts the matches instead of adding up their values.
	count bool
	// length makes what is absent 0: a list without entries is not in the cube's JSON.
	length bool
}

func newMetrics(s *Server) *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m := &metrics{
		server: s, registry: prometheus.NewPedanticRegistry(), families: map[string][]family{},
		packets: desc("polycube_port_packets_total", "Packets through a port.", "cubeName", "port", "direction"),
		bytes:   desc("polycube_port_bytes_total", "Bytes through a port.", "cubeName", "port", "direction"),
		drops:   desc("polycube_drops_total", "Packets dropped by a cube, by reason.", "cubeName", "reason"),
		fates:   desc("polycube_packets_total", "Packets by their fate in a cube, other than drops.", "cubeName", "fate"),
		cubes:   desc("polycube_cubes", "Cubes that run.", "service"),
		build:   desc("polycube_build_info", "The daemon's version; the value is 1.", "version"),
	}
	m.registry.MustRegister(m)
	return m
}

// Describe implements prometheus.Collector. It sends nothing: models decide at run time.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. A cube that goes meanwhile is left out.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	// The registry collects in a goroutine of its own, where a panic would end the daemon.
	defer func() {
		if cause := recover(); cause != nil {
			m.server.log.Error("collecting metrics panicked", "panic", cause, "stack", string(debug.Stack()))
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	out <- prometheus.MustNewConstMetric(m.build, prometheus.GaugeValue, 1, m.server.version)
	running := map[string]int{}
	for _, ref := range m.server.manager.Cubes() {
		running[ref.Service]++
		m.collectModel(ctx, out, ref.Service, ref.Name)
		m.collectCounters(ctx, out, ref.Service, ref.Name)
	}
	for _, info := range m.server.manager.Services() {
		out <- prometheus.MustNewConstMetric(m.cubes, prometheus.GaugeValue, float64(running[info.Name]), info.Name)
	}
}

// collectModel evaluates what the cube's model asks for.
func (m *metrics) collectModel(ctx context.Context, out chan<- prometheus.Metric, service, name string) {
	families := m.of(service)
	if len(families) == 0 {
		return
	}
	raw, err := m.server.manager.Read(ctx, service, name, nil)
	if err != nil {
		return
	}
	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		return
	}
	for _, f := range families {
		if value, ok := f.value(root); ok {
			out <- prometheus.MustNewConstMetric(f.desc, f.kind, value, name)
		}
	}
}

// value of a family for one cube.
func (f family) value(root any) (float64, bool) {
	found := f.path.eval(root)
	if f.count {
		return float64(len(found)), true
	}
	sum, any := 0.0, false
	for _, v := range found {
		if n, ok := number(v); ok {
			sum, any = sum+n, true
		}
	}
	return sum, any || f.length
}

// collectCounters reads what the data plane counted.
func (m *metrics) collectCounters(ctx context.Context, out chan<- prometheus.Metric, service, name string) {
	stats, err := m.server.cubeStats(ctx, service, name)
	if err != nil {
		return
	}
	counter := func(desc *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), append([]string{name}, labels...)...)
	}
	for _, p := range stats.Ports {
		counter(m.packets, p.RxPackets, p.Name, "rx")
		counter(m.packets, p.TxPackets, p.Name, "tx")
		counter(m.bytes, p.RxBytes, p.Name, "rx")
		counter(m.bytes, p.TxBytes, p.Name, "tx")
	}
	for _, f := range stats.Fates {
		if f.Drop {
			counter(m.drops, f.Packets, f.Name)
		} else {
			counter(m.fates, f.Packets, f.Name)
		}
	}
}

// of returns a service's families; its model is walked once.
func (m *metrics) of(service string) []family {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, ok := m.families[service]; ok {
		return f
	}
	schema, err := m.server.manager.Schema(service)
	if err != nil {
		return nil
	}
	var found []family
	m.walk(service, schema.Root(), &found)
	m.families[service] = found
	return found
}

// walk finds the nodes that carry name-metric. A wrong one is reported once and left
// out: it must not cost the others.
func (m *metrics) walk(service string, n *yang.Node, found *[]family) {
	if name, ok := n.Extension("name-metric"); ok {
		if path, ok := n.Extension("path-metric"); ok {
			f, err := newFamily(n, name, path)
			if err != nil {
				m.server.log.Warn("metric of a model left out", "service", service, "metric", name, "err", err)
			} else {
				*found = append(*found, f)
			}
		}
	}
	for _, c := range n.Children() {
		m.walk(service, c, found)
	}
}

func newFamily(n *yang.Node, name, path string) (family, error) {
	compiled, err := compilePath(path)
	if err != nil {
		return family{}, err
	}
	help, _ := n.Extension("help-metric")
	if help == "" {
		help = strings.Join(strings.Fields(n.Description()), " ")
	}
	f := family{desc: prometheus.NewDesc(name, help, []string{"cubeName"}, nil), kind: prometheus.GaugeValue,
		path: compiled, length: strings.HasSuffix(strings.TrimSpace(path), ".length()")}
	if kind, _ := n.Extension("type-metric"); strings.EqualFold(kind, "COUNTER") {
		f.kind = prometheus.CounterValue
	}
	if op, _ := n.Extension("type-operation"); strings.EqualFold(op, "FILTER") {
		f.count = true
	}
	if _, err := prometheus.NewConstMetric(f.desc, f.kind, 0, "cube"); err != nil {
		return family{}, fmt.Errorf("not a metric: %w", err)
	}
	return f, nil
}

// serveMetrics answers a scrape.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request, _ []string) error {
	if err := allow(r, http.MethodGet); err != nil {
		return err
	}
	families, err := s.metrics.registry.Gather()
	if err != nil {
		// What could be gathered is still worth having.
		s.log.Warn("gathering metrics", "err", err)
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	if err := writeFamilies(w, families); err != nil {
		s.log.Debug("client went away", "path", r.URL.Path, "err", err)
	}
	return nil
}

var (
	helpEscaper  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// writeFamilies writes counters and gauges in Prometheus' text format 0.0.4.
func writeFamilies(to io.Writer, families []*dto.MetricFamily) error {
	var b strings.Builder
	for _, f := range families {
		name := f.GetName()
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, helpEscaper.Replace(f.GetHelp()), name, strings.ToLower(f.GetType().String()))
		for _, m := range f.GetMetric() {
			b.WriteString(name + "{")
			for i, l := range m.GetLabel() {
				if i > 0 {
					b.WriteByte(',')
				}
				b.WriteString(l.GetName() + `="` + labelEscaper.Replace(l.GetValue()) + `"`)
			}
			value := m.GetGauge().GetValue()
			if m.Counter != nil {
				value = m.GetCounter().GetValue()
			}
			b.WriteString("} " + strconv.FormatFloat(value, 'f', 6, 64) + "\n")
		}
	}
	_, err := io.WriteString(to, b.String())
	return err
}
