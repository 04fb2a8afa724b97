// SPDX-License-Identifier: Apache-2.0

package dynmon

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/series"
)

// Config is the decoded configuration.
type Config struct {
	Dataplane Dataplane `json:"dataplane-config"`
}

// Dataplane is the container `dataplane-config`.
type Dataplane struct {
	Ingress Path `json:"ingress-path"`
	Egress  Path `json:"egress-path"`
}

// of returns the path of a direction.
func (d *Dataplane) of(direction cube.Direction) *Path {
	if direction == cube.Egress {
		return &d.Egress
	}
	return &d.Ingress
}

// Path is the monitor of a path.
type Path struct {
	Name     string         `json:"name"`
	Code     string         `json:"code"`
	Object   string         `json:"object"`
	ObjectTC string         `json:"object-tc"`
	Metrics  []MetricConfig `json:"metric-configs"`
}

// MetricConfig is an entry of the list `metric-configs`.
type MetricConfig struct {
	Name    string   `json:"name"`
	Map     string   `json:"map-name"`
	Options Options  `json:"extraction-options"`
	Open    Metadata `json:"open-metrics-metadata"`
}

// Options is the container `extraction-options`.
type Options struct {
	Empty bool `json:"empty-on-read"`
	Swap  bool `json:"swap-on-read"`
}

// Metadata is the container `open-metrics-metadata`.
type Metadata struct {
	Help    string   `json:"help"`
	Type    Type     `json:"type"`
	Labels  []Label  `json:"labels"`
	Buckets []string `json:"buckets"`
	Scale   string   `json:"scale"`
}

// Label is an entry of the list `labels`.
type Label struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Type is the leaf `type`; 0 if it is not set.
type Type uint32

// kinds are the types of OpenMetrics, by those of the model.
var kinds = []series.Kind{series.Counter, series.Gauge, series.Histogram, series.Summary, series.Unknown}

// UnmarshalText parses the model's value.
func (t *Type) UnmarshalText(text []byte) error {
	at, err := cube.Enum[Type]("type", text, "Counter", "Gauge", "Histogram", "Summary", "Untyped")
	*t = at + 1
	return err
}

// metric returns what the metric is in OpenMetrics, nil if it is not shown there.
func (m *MetricConfig) metric() (*series.Metric, error) {
	if m.Open.Type == 0 {
		return nil, nil
	}
	scale, err := strconv.ParseFloat(m.Open.Scale, 64)
	if err != nil || scale <= 0 || math.IsInf(scale, 0) || math.IsNaN(scale) {
		return nil, fmt.Errorf("scale %.40q: use a number greater than 0, such as 1e-9: %w", m.Open.Scale, cube.ErrInvalid)
	}
	out := &series.Metric{Name: m.Name, Help: m.Open.Help, Kind: kinds[m.Open.Type-1], Buckets: m.Open.Buckets, Scale: scale}
	for _, l := range m.Open.Labels {
		out.Labels = append(out.Labels, series.Label{Name: l.Name, Value: l.Value})
	}
	return out, nil
}

// empty reports whether the path lets packets pass.
func (p *Path) empty() bool { return p.Code == "" && p.Object == "" }

// objects decodes the compiled objects.
func (p *Path) objects(typ cube.Type) (map[cube.Hook][]byte, error) {
	texts := map[cube.Hook]string{typ.Hook(): p.Object}
	if p.ObjectTC != "" {
		texts[cube.TC] = p.ObjectTC
	}
	out := map[cube.Hook][]byte{}
	for hook, text := range texts {
		object, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("the object is not base64: %w: %w", err, cube.ErrInvalid)
		}
		out[hook] = object
	}
	return out, nil
}

// check refuses what is no monitor, before anything is compiled.
func (p *Path) check(typ cube.Type) error {
	switch {
	case p.Code != "" && p.Object+p.ObjectTC != "":
		return fmt.Errorf("both code and object are set: remove one of them: %w", cube.ErrInvalid)
	case p.ObjectTC != "" && typ.Hook() == cube.TC:
		return fmt.Errorf("object-tc is only for cubes at XDP; this cube is at TC: set object instead: %w", cube.ErrInvalid)
	case p.ObjectTC != "" && p.Object == "":
		return fmt.Errorf("object-tc requires object: set both: %w", cube.ErrInvalid)
	case p.empty() && len(p.Metrics) > 0:
		return fmt.Errorf("metric %.80s: the path has no code or object, so it has no maps: delete the metric, or set code: %w", p.Metrics[0].Name, cube.ErrInvalid)
	}
	return nil
}
