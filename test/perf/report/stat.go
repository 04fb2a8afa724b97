// SPDX-License-Identifier: Apache-2.0

// Package report turns measurements into a document: medians with their spread, tables, and checks of promises.
package report

import (
	"fmt"
	"math"
	"slices"
)

// Sample contains the measurements of one thing, one per round.
type Sample []float64

// Median of the sample; NaN when it is empty.
func (s Sample) Median() float64 { return s.Quantile(0.5) }

// Min of the sample; NaN when it is empty.
func (s Sample) Min() float64 { return s.Quantile(0) }

// Max of the sample; NaN when it is empty.
func (s Sample) Max() float64 { return s.Quantile(1) }

// Quantile returns the value that a share q of the sample does not exceed, between neighbours
// in proportion; NaN when the sample is empty.
func (s Sample) Quantile(q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// Less returns the sample minus another, round by round, so that disturbances of both in a round cancel out.
func (s Sample) Less(base Sample) Sample {
	out := make(Sample, min(len(s), len(base)))
	for i := range out {
		out[i] = s[i] - base[i]
	}
	return out
}

// Over returns the sample divided by another, round by round.
func (s Sample) Over(base Sample) Sample {
	out := make(Sample, min(len(s), len(base)))
	for i := range out {
		out[i] = s[i] / base[i]
	}
	return out
}

// Spread writes "median (min–max)" with a number of decimals.
func (s Sample) Spread(decimals int) string {
	if len(s) == 0 {
		return "n/a"
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", decimals, s.Median(), decimals, s.Min(), decimals, s.Max())
}

// Slope of the least-squares line through points; NaN for fewer than two.
func Slope(xs, ys []float64) float64 {
	var sx, sy, sxx, sxy float64
	for i, x := range xs {
		sx, sy, sxx, sxy = sx+x, sy+ys[i], sxx+x*x, sxy+x*ys[i]
	}
	n := float64(len(xs))
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}
