// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/yang"
)

// modelFamily is a metric defined in a model.
type modelFamily struct {
	Family
	path jsonPath
	// head is the member of the cube at the start of the path, "" if it needs all of them.
	head string
	// count counts the matches instead of adding up their values.
	count bool
	// length makes a missing node 0: a list without entries is not in the cube's JSON.
	length bool
}

// modelOf are the families of a service, from its current model.
type modelOf struct {
	schema   *yang.Schema
	families []*modelFamily
	heads    []string
}

// models evaluates the metrics of models.
type models struct {
	log      *slog.Logger
	families map[string]*modelOf // by service
	values   rotation[[]modelValue]
}

type modelValue struct {
	family *modelFamily
	value  float64
}

// modelRow is one sample.
type modelRow struct {
	family *Family
	cube   string
	value  float64
}

// collect evaluates the models' families on cubes; rows of one family are consecutive.
func (m *models) collect(ctx context.Context, t Topology, cubes []topology.CubeNumbers) []modelRow {
	m.forget(t)
	service := map[string]string{}
	var names []string
	for _, c := range cubes {
		if of := m.of(t, c.Service); !c.Broken && of != nil && len(of.families) > 0 {
			service[c.Name] = c.Service
			names = append(names, c.Name)
		}
	}
	values, _ := m.values.current(names, func(name string) []modelValue {
		return m.evaluate(ctx, t, service[name], name)
	})
	byName := map[string][]modelRow{}
	var order []string
	heads := map[string]*Family{} // two services may share a family: the first definition counts
	for _, cube := range names {
		for _, v := range values[cube] {
			name := v.family.Name
			if heads[name] == nil {
				heads[name] = &v.family.Family
				order = append(order, name)
			}
			byName[name] = append(byName[name], modelRow{heads[name], cube, v.value})
		}
	}
	var out []modelRow
	for _, name := range order {
		out = append(out, byName[name]...)
	}
	return out
}

// evaluate reads only what a cube's families need.
func (m *models) evaluate(ctx context.Context, t Topology, service, name string) []modelValue {
	of := m.of(t, service)
	root := map[string]any{}
	for _, head := range of.heads {
		var path yang.Path
		if head != "" {
			path = yang.Path{{Name: head}}
		}
		raw, err := t.Read(ctx, service, name, path)
		if err != nil {
			continue // a missing node has no value, or the cube was deleted meanwhile
		}
		var value any
		if json.Unmarshal(raw, &value) != nil {
			continue
		}
		if head == "" {
			root, _ = value.(map[string]any)
		} else {
			root[head] = value
		}
	}
	var out []modelValue
	for _, f := range of.families {
		if value, ok := f.value(root); ok {
			out = append(out, modelValue{f, value})
		}
	}
	return out
}

// value of a family for one cube.
func (f *modelFamily) value(root any) (float64, bool) {
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

// forget removes services that no longer exist.
func (m *models) forget(t Topology) {
	there := map[string]bool{}
	for _, info := range t.Services() {
		there[info.Name] = true
	}
	for name := range m.families {
		if !there[name] {
			delete(m.families, name)
		}
	}
}

// of returns a service's families; its model is walked once, and again when it is replaced.
func (m *models) of(t Topology, service string) *modelOf {
	schema, err := t.Schema(service)
	if err != nil {
		return nil
	}
	if known := m.families[service]; known != nil && known.schema == schema {
		return known
	}
	of := &modelOf{schema: schema}
	m.walk(service, schema.Root(), of)
	for _, f := range of.families {
		if f.head == "" {
			of.heads = []string{""}
			break
		}
		if !slices.Contains(of.heads, f.head) {
			of.heads = append(of.heads, f.head)
		}
	}
	m.families[service] = of
	return of
}

// walk finds the nodes with name-metric. An invalid one is reported once and omitted, without affecting the others.
func (m *models) walk(service string, n *yang.Node, of *modelOf) {
	if name, ok := n.Extension("name-metric"); ok {
		if path, ok := n.Extension("path-metric"); ok {
			f, err := newModelFamily(n, name, path)
			if err == nil && slices.ContainsFunc(of.families, func(other *modelFamily) bool { return other.Name == name }) {
				err = errors.New("the model has another metric with this name")
			}
			if err != nil {
				m.log.Warn("metric of a model omitted", "service", service, "metric", name, "err", err)
			} else {
				of.families = append(of.families, f)
			}
		}
	}
	for _, c := range n.Children() {
		m.walk(service, c, of)
	}
}

var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]{0,127}$`)
	ownPrefix  = regexp.MustCompile(`^(polycube|go|process|promhttp)_`)
	pathHead   = regexp.MustCompile(`^\$(?:\.([A-Za-z0-9_-]+)|\['([^']+)'\])(?:[.[]|$)`)
)

func newModelFamily(n *yang.Node, name, path string) (*modelFamily, error) {
	if !metricName.MatchString(name) {
		return nil, errors.New("not a valid name of a metric")
	}
	if ownPrefix.MatchString(name) {
		return nil, errors.New("names with this prefix are reserved for the daemon")
	}
	compiled, err := compilePath(path)
	if err != nil {
		return nil, fmt.Errorf("its path: %w", err)
	}
	help, _ := n.Extension("help-metric")
	if help == "" {
		help = strings.Join(strings.Fields(n.Description()), " ")
	}
	path = strings.TrimSpace(path)
	f := &modelFamily{Family: Family{Name: name, Kind: Gauge, Labels: []string{"cubeName"}, Help: help, exact: true},
		path: compiled, length: strings.HasSuffix(path, ".length()")}
	if m := pathHead.FindStringSubmatch(path); m != nil && !strings.HasPrefix(path, "$.length()") {
		f.head = m[1] + m[2]
	}
	if kind, _ := n.Extension("type-metric"); strings.EqualFold(kind, "COUNTER") {
		f.Kind = Counter
	}
	if op, _ := n.Extension("type-operation"); strings.EqualFold(op, "FILTER") {
		f.count = true
	}
	return f, nil
}
