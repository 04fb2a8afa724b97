// SPDX-License-Identifier: Apache-2.0

package external

// Log lines and metrics of a service.

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"regexp"
	"slices"
	"strings"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/internal/topology/service"
)

// levels are those of the model's leaf loglevel, in the topology's numbers.
var levels = map[string]slog.Level{
	"TRACE": slog.LevelDebug - 4, "DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo, "WARN": slog.LevelWarn,
	"ERR": slog.LevelError, "CRITICAL": slog.LevelError + 4,
}

// logLine logs a line of the service, at the level of its cube.
func (l *life) logLine(m *pb.Log) {
	log := l.log
	if m.GetCube() != 0 {
		i, err := l.cube(m.GetCube())
		if err != nil {
			return // it was closed meanwhile
		}
		log = i.env.Logger()
	}
	level, ok := levels[m.GetLevel()]
	if !ok {
		level = slog.LevelInfo
	}
	if !log.Enabled(context.Background(), level) || !l.lines.take() {
		return
	}
	var args []any
	for _, key := range slices.Sorted(keysOf(m.GetAttributes())) {
		if len(args) < 2*maxAttrs {
			args = append(args, sentence(key[:min(len(key), maxName)]), sentence(m.GetAttributes()[key]))
		}
	}
	log.Log(context.Background(), level, sentence(m.GetMessage()), args...)
}

func keysOf(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

var metricName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// metrics stores the metrics of a cube.
func (l *life) metrics(m *pb.Metrics) {
	i, err := l.cube(m.GetCube())
	if err != nil {
		return // it was closed meanwhile
	}
	var list []*pb.Metric
	for _, x := range m.GetMetrics() {
		if err := checkMetric(x); err != nil || len(list) == maxSeries {
			if l.lines.take() {
				l.log.Warn("metrics of a service were dropped", "cube", i.env.Name(), "metric", sentence(x.GetName()), "err", err)
			}
			continue
		}
		list = append(list, x)
	}
	i.series.Store(&list)
}

// checkMetric checks a metric from a service.
func checkMetric(m *pb.Metric) error {
	switch {
	case !metricName.MatchString(m.GetName()):
		return invalid("%.80q is not a valid name of a metric", m.GetName())
	case len(m.GetLabels()) > maxLabels:
		return invalid("it has %d labels", len(m.GetLabels()))
	case math.IsNaN(m.GetValue()) || math.IsInf(m.GetValue(), 0):
		return invalid("not a finite number")
	}
	for name, value := range m.GetLabels() {
		if !metricName.MatchString(name) || name == "cubename" || len(value) > maxLabel {
			return invalid("label %.80q", name)
		}
	}
	m.Help = sentence(m.GetHelp())
	for name, value := range m.GetLabels() {
		m.Labels[name] = strings.ToValidUTF8(value, "?")
	}
	return nil
}

// Series lists the last metrics from the service.
func (l *life) Series() []service.Series {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []service.Series
	for _, i := range l.cubes {
		list := i.series.Load()
		if list == nil {
			continue
		}
		for _, m := range *list {
			out = append(out, service.Series{Service: l.reg.Name, Cube: i.env.Name(), Name: m.GetName(), Help: m.GetHelp(),
				Counter: m.GetKind() == pb.Metric_KIND_COUNTER, Labels: m.GetLabels(), Value: m.GetValue()})
		}
	}
	return out
}

// Drops returns how many packets did not reach the service, and how many of its packets were refused.
func (l *life) Drops() (undelivered, refused uint64) {
	return l.packets.count(), l.packets.refused.Load()
}

// String is the name in logs.
func (l *life) String() string { return fmt.Sprintf("%s %s", l.reg.Type, l.reg.URI) }
