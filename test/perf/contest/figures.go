// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"fmt"
	"math"

	"github.com/polycube/polycube/test/perf/report"
)

// Figures are the times of runners by name. That of None is the cost of the path itself; where there is no path without a
// device, that of Generator is.
type Figures map[string]report.Sample

// FiguresOf are the times of some runners.
func FiguresOf(all []*Runner) Figures {
	out := Figures{}
	for _, r := range all {
		out[r.Name] = r.Times
	}
	return out
}

// Net is the cost of a device: minus the same path without one.
func (f Figures) Net(name string) report.Sample {
	base, ok := f[None]
	if !ok {
		base = f[Generator]
	}
	return f[name].Less(base)
}

// Ratio is how many times the net cost of ours another one costs.
func (f Figures) Ratio(other, ours string) float64 {
	return f.Net(other).Median() / f.Net(ours).Median()
}

// Best is the cheapest of some.
func (f Figures) Best(names ...string) string {
	best, least := "", math.Inf(1)
	for _, name := range names {
		if n := f.Net(name).Median(); n < least {
			best, least = name, n
		}
	}
	return best
}

// Rows adds a line for each runner; ratios are to the net cost of each of ours.
func (f Figures) Rows(t *report.Table, all []*Runner, ours ...string) {
	for _, r := range all {
		cells := []string{r.Name, f[r.Name].Spread(0)}
		if r.Name == None || r.Name == Generator {
			t.Add(cells...)
			continue
		}
		cells = append(cells, f.Net(r.Name).Spread(0))
		for _, o := range ours {
			cells = append(cells, fmt.Sprintf("%.2f", f.Ratio(r.Name, o)))
		}
		t.Add(cells...)
	}
}

// Columns are those of Rows.
func Columns(ours ...string) []string {
	out := []string{"", "ns of CPU per packet", "net ns"}
	for _, o := range ours {
		out = append(out, "× "+o)
	}
	return out
}
