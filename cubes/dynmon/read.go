// SPDX-License-Identifier: Apache-2.0

package dynmon

// What clients read.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/series"
	"github.com/polycube/polycube/cube/tree"
)

// state reads the metrics that a path names. The whole cube is shown without them: reading may empty maps.
func (c *control) state(_ context.Context, path []string) (any, error) {
	if len(path) == 0 {
		return nil, nil
	}
	switch path[0] {
	case "metrics":
		return c.metrics(path[1:])
	case "open-metrics":
		return c.openMetrics()
	}
	return nil, nil
}

// directionNames are in labels.
var directionNames = map[cube.Direction]string{cube.Ingress: "ingress", cube.Egress: "egress"}

// lists are those of metrics, by direction.
var lists = map[cube.Direction]string{cube.Ingress: "ingress-metrics", cube.Egress: "egress-metrics"}

// metrics returns the container `metrics`. path is the rest of the path: a list, and a name.
func (c *control) metrics(path []string) (tree.State, error) {
	read, err := c.read(func(m *metric) bool {
		return (len(path) < 1 || path[0] == lists[m.direction]) && (len(path) < 2 || path[1] == m.conf.Name)
	})
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	for _, name := range lists {
		all[name] = []any{}
	}
	for _, r := range read {
		name := lists[r.direction]
		all[name] = append(all[name].([]any), map[string]any{"name": r.conf.Name, "value": r.shape.JSON(r.entries),
			"timestamp": json.Number(strconv.FormatInt(r.at.UnixMicro(), 10))})
	}
	return tree.State{"metrics": all}, nil
}

// openMetrics returns the leaf `open-metrics`.
func (c *control) openMetrics() (tree.State, error) {
	read, err := c.read(func(m *metric) bool { return m.open != nil })
	if err != nil {
		return nil, err
	}
	var text series.Text
	for _, r := range read {
		m := *r.open
		for _, own := range []series.Label{{Name: "cube", Value: c.env.Name()}, {Name: "path", Value: directionNames[r.direction]}} {
			m.Labels = withLabel(m.Labels, own)
		}
		text.Add(r.shape, r.entries, m)
	}
	return tree.State{"open-metrics": quoted(text.Bytes())}, nil
}

// quoted is a text as JSON. It may be long, so it is written at once.
func quoted(text []byte) json.RawMessage {
	out := append(make([]byte, 0, len(text)+len(text)/4+2), '"')
	from := 0
	for i, c := range text {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		out = append(out, text[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\n':
			out = append(out, '\\', 'n')
		default:
			out = fmt.Appendf(out, "\\u%04x", c)
		}
	}
	return append(append(out, text[from:]...), '"')
}

// withLabel adds a label, unless there is one of that name.
func withLabel(labels []series.Label, l series.Label) []series.Label {
	for _, is := range labels {
		if is.Name == l.Name {
			return labels
		}
	}
	return append(labels[:len(labels):len(labels)], l)
}

// reading is a metric that was read.
type reading struct {
	*metric
	entries *series.Entries
	at      time.Time
}

// read reads the metrics that a function selects. A map is read once, also if several metrics show it.
func (c *control) read(wanted func(*metric) bool) ([]reading, error) {
	l, err := c.readable()
	if err != nil {
		return nil, err
	}
	byMap := map[string]reading{}
	var swapped []*metric
	for _, m := range l.metrics {
		if _, done := byMap[m.maps[0]]; done || !wanted(m) {
			continue
		}
		byMap[m.maps[0]] = reading{}
		if m.swapped() {
			swapped = append(swapped, m)
			continue
		}
		entries, err := series.Read(l.open[m.maps[0]], m.conf.Options.Empty)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", m.conf.Name, err)
		}
		byMap[m.maps[0]] = reading{entries: entries, at: time.Now()}
	}
	if len(swapped) > 0 {
		if err := c.sides.read(l, swapped, byMap); err != nil {
			return nil, err
		}
	}
	var out []reading
	for _, m := range l.metrics {
		if r := byMap[m.maps[0]]; wanted(m) {
			out = append(out, reading{m, r.entries, r.at})
		}
	}
	return out, nil
}

// readable returns the monitors that run, with their maps open. While a change is made, the maps of the new ones may not
// exist yet; then the ones before still run.
func (c *control) readable() (*layout, error) {
	err := c.running.openMaps(c.env)
	if err == nil {
		return c.running, nil
	}
	if c.before != nil && errors.Is(err, cube.ErrNotFound) && c.before.openMaps(c.env) == nil {
		return c.before, nil
	}
	return nil, err
}

// openMaps opens the maps of all metrics. They are clones: the framework closes its own when a monitor is replaced.
func (l *layout) openMaps(env cube.Env) error {
	for _, m := range l.metrics {
		for _, name := range m.maps {
			if l.open[name] != nil {
				continue
			}
			of, err := env.Map(name)
			if err == nil {
				of, err = of.Clone()
			}
			if err != nil {
				return fmt.Errorf("metric %s: %w", m.conf.Name, err)
			}
			if l.open == nil {
				l.open = map[string]*ebpf.Map{}
			}
			l.open[name] = of
		}
	}
	return nil
}
