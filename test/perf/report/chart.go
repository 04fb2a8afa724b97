// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Bar is one ratio of a chart.
type Bar struct {
	// Label names what is compared, Against what with.
	Label, Against string
	// Ratio is above 1 where we are faster.
	Ratio float64
}

// Sizes of a chart, in pixels.
const (
	chartWidth  = 880
	chartLeft   = 330 // where bars begin
	chartRight  = 60  // for the last figure
	barHeight   = 18
	barDistance = 30
	chartTop    = 56
)

// Chart draws ratios as horizontal bars on a logarithmic scale, with a line at 1: an SVG without scripts or external fonts.
func Chart(title string, bars []Bar) string {
	most := 2.0
	least := 1.0
	for _, b := range bars {
		if b.Ratio > 0 && !math.IsInf(b.Ratio, 0) {
			most, least = max(most, b.Ratio), min(least, b.Ratio)
		}
	}
	from, to := math.Floor(math.Log2(least)), math.Ceil(math.Log2(most))
	x := func(ratio float64) float64 {
		return chartLeft + (math.Log2(ratio)-from)/(to-from)*(chartWidth-chartLeft-chartRight)
	}
	height := chartTop + len(bars)*barDistance + 28
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n",
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(&out, "<title>%s</title>\n", html.EscapeString(title))
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, height)
	fmt.Fprintf(&out, `<text x="16" y="28" font-size="16" font-weight="bold" fill="#1f2937">%s</text>`+"\n", html.EscapeString(title))
	bottom := chartTop + len(bars)*barDistance
	for p := from; p <= to; p++ {
		at, color := x(math.Exp2(p)), "#e5e7eb"
		if p == 0 {
			color = "#6b7280"
		}
		fmt.Fprintf(&out, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s"/>`+"\n", at, chartTop-8, at, bottom, color)
		fmt.Fprintf(&out, `<text x="%.1f" y="%d" text-anchor="middle" fill="#6b7280">%s ×</text>`+"\n", at, bottom+18, trimmed(math.Exp2(p)))
	}
	for i, b := range bars {
		y := chartTop + i*barDistance
		begin, end := x(1), x(b.Ratio)
		color := "#2563eb"
		if b.Ratio < 1 {
			begin, end, color = end, begin, "#b45309"
		}
		fmt.Fprintf(&out, `<text x="%d" y="%d" text-anchor="end" fill="#1f2937">%s</text>`+"\n", chartLeft-12, y+8, html.EscapeString(b.Label))
		fmt.Fprintf(&out, `<text x="%d" y="%d" text-anchor="end" font-size="11" fill="#6b7280">%s</text>`+"\n", chartLeft-12, y+20, html.EscapeString("compared with "+b.Against))
		fmt.Fprintf(&out, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", begin, y, max(end-begin, 1), barHeight, color)
		fmt.Fprintf(&out, `<text x="%.1f" y="%d" fill="#1f2937">%.1f ×</text>`+"\n", max(begin, end)+6, y+14, b.Ratio)
	}
	out.WriteString("</svg>\n")
	return out.String()
}

// trimmed writes a number without needless zeros.
func trimmed(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", v), "0"), ".")
}
