// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"maps"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/topology"
)

// External services have their own metrics. Their names start with polycube_custom_ and the service, so that they
// cannot conflict with others.

// writeServices writes the state and the metrics of external services.
func (e *Exporter) writeServices(enc *encoder) {
	states := e.Topology.ServiceStates()
	for _, s := range states {
		enc.put("polycube_service_up", boolGauge(s.Running), s.Name)
	}
	for _, s := range states {
		enc.put("polycube_service_restarts_total", float64(s.Restarts), s.Name)
	}
	for _, s := range states {
		enc.put("polycube_service_packets_dropped_total", float64(s.Undelivered), "in", s.Name)
		enc.put("polycube_service_packets_dropped_total", float64(s.Refused), "out", s.Name)
	}
	series := e.Topology.ServiceSeries()
	slices.SortStableFunc(series, func(a, b topology.Series) int { return strings.Compare(customName(a), customName(b)) })
	for len(series) > 0 {
		name := customName(series[0])
		n := slices.IndexFunc(series, func(s topology.Series) bool { return customName(s) != name })
		if n < 0 {
			n = len(series)
		}
		enc.custom(name, series[:n])
		series = series[n:]
	}
}

// customName is the name of a service's family.
func customName(s topology.Series) string {
	service := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, s.Service)
	return "polycube_custom_" + service + "_" + s.Name
}

// custom writes a family of a service: all samples have the same labels, empty if the service gave none.
func (e *encoder) custom(name string, series []topology.Series) {
	f := &Family{Name: name, Kind: Gauge, Help: series[0].Help, Labels: []string{"cubeName"}}
	if series[0].Counter {
		f.Kind = Counter
	}
	if f.Help == "" {
		f.Help = "A metric of the service " + series[0].Service + "."
	}
	labels := map[string]bool{}
	for _, s := range series {
		for l := range s.Labels {
			labels[l] = true
		}
	}
	f.Labels = append(f.Labels, slices.Sorted(maps.Keys(labels))...)
	said := map[string]bool{}
	for _, s := range series {
		values := []string{s.Cube}
		for _, l := range f.Labels[1:] {
			values = append(values, s.Labels[l])
		}
		if key := strings.Join(values, "\x00"); !said[key] { // the same twice is none of Prometheus' formats
			said[key] = true
			e.sample(f, s.Value, values...)
		}
	}
}
