// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"testing"
)

func TestQuantiles(t *testing.T) {
	tests := map[string]struct {
		sample           Sample
		median, min, max float64
		q                float64
		quantile         float64
	}{
		"one":            {Sample{7}, 7, 7, 7, 0.99, 7},
		"odd, unsorted":  {Sample{3, 1, 2}, 2, 1, 3, 0.25, 1.5},
		"even":           {Sample{4, 1, 3, 2}, 2.5, 1, 4, 0.75, 3.25},
		"an outlier":     {Sample{10, 10, 10, 1000}, 10, 10, 1000, 0.5, 10},
		"negative":       {Sample{-1, 1}, 0, -1, 1, 1, 1},
		"ninety-ninth":   {upTo(101), 50, 0, 100, 0.99, 99},
		"between points": {upTo(11), 5, 0, 10, 0.05, 0.5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				what      string
				got, want float64
			}{
				{"median", tt.sample.Median(), tt.median}, {"min", tt.sample.Min(), tt.min},
				{"max", tt.sample.Max(), tt.max}, {"quantile", tt.sample.Quantile(tt.q), tt.quantile},
			} {
				if math.Abs(c.got-c.want) > 1e-9 {
					t.Errorf("%s %g, want %g", c.what, c.got, c.want)
				}
			}
		})
	}
	if !math.IsNaN(Sample{}.Median()) {
		t.Error("the median of nothing is a number")
	}
}

// upTo is 0, 1 ... n-1.
func upTo(n int) Sample {
	s := make(Sample, n)
	for i := range s {
		s[i] = float64(i)
	}
	return s
}

func TestDifferencesAreTakenRoundByRound(t *testing.T) {
	// Both were disturbed in the second round: the difference was not.
	got := Sample{30, 90, 31}.Less(Sample{20, 80, 20})
	if want := (Sample{10, 10, 11}); got.Median() != want.Median() || got.Max() != 11 {
		t.Errorf("%v, want %v", got, want)
	}
	if got := (Sample{30, 90}).Over(Sample{10, 45, 1}); len(got) != 2 || got[0] != 3 || got[1] != 2 {
		t.Errorf("%v, want [3 2]", got)
	}
}

func TestSpread(t *testing.T) {
	if got, want := (Sample{1.26, 1, 2}).Spread(1), "1.3 (1.0–2.0)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (Sample{}).Spread(1); got != "n/a" {
		t.Errorf("%q for nothing, want n/a", got)
	}
}

func TestSlope(t *testing.T) {
	if got := Slope([]float64{1, 2, 4}, []float64{5, 7, 11}); math.Abs(got-2) > 1e-9 {
		t.Errorf("slope %g, want 2", got)
	}
	if got := Slope([]float64{1}, []float64{5}); !math.IsNaN(got) {
		t.Errorf("slope of one point %g, want none", got)
	}
}

func TestMarkdownAlignsColumnsByCharacters(t *testing.T) {
	table := Table{Title: "A", Columns: []string{"N", "ns"}, Notes: []string{"a note"}}
	table.Add("1", "2.0 (1–3)")
	table.Add("32")
	want := "### A\n\n" +
		"| N   |        ns |\n" +
		"|-----|----------:|\n" +
		"| 1   | 2.0 (1–3) |\n" +
		"| 32  |           |\n" +
		"\na note\n"
	if got := table.Markdown(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestChecks(t *testing.T) {
	tests := []struct {
		check Check
		want  string
		row   string
	}{
		{AtMost("x", "%.1f ns", 3, 3), "PASS", "≤ 3.0 ns"},
		{AtMost("x", "%.1f ns", 3.01, 3), "FAIL", "≤ 3.0 ns"},
		{AtMost("nothing measured", "%.1f", math.NaN(), 3), "FAIL", "≤ 3.0"},
		{AtLeast("x", "%.2f ×", 2.5, 2.5), "PASS", "≥ 2.50 ×"},
		{AtLeast("x", "%.2f ×", 2.4, 2.5), "FAIL", "≥ 2.50 ×"},
	}
	var all []Check
	for _, tt := range tests {
		if got := tt.check.Verdict(); got != tt.want || tt.check.Promised != tt.row {
			t.Errorf("%+v: %s, want %s and %q", tt.check, got, tt.want, tt.row)
		}
		all = append(all, tt.check)
	}
	if got := Misses(all); got != 3 {
		t.Errorf("%d misses, want 3", got)
	}
	if rows := Checks(all).Rows; len(rows) != len(all) || rows[1][3] != "FAIL" {
		t.Errorf("rows %v", rows)
	}
}
