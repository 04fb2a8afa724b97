// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Table is a Markdown table with a title and remarks.
type Table struct {
	Title   string
	Columns []string
	Rows    [][]string
	// Notes are paragraphs below the table: how it was measured and its limitations.
	Notes []string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Markdown writes the table with its columns aligned, the first to the left, the rest to the right.
func (t *Table) Markdown() string {
	width := make([]int, len(t.Columns))
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		for i := range width {
			if i < len(row) {
				width[i] = max(width[i], utf8.RuneCountInString(row[i]), 3)
			}
		}
	}
	var b strings.Builder
	if t.Title != "" {
		fmt.Fprintf(&b, "### %s\n\n", t.Title)
	}
	line := func(cells []string) {
		for i, w := range width {
			cell := ""
			if i < len(cells) {
				cell = cells[i]
			}
			pad := strings.Repeat(" ", w-utf8.RuneCountInString(cell))
			if i == 0 {
				fmt.Fprintf(&b, "| %s%s ", cell, pad)
			} else {
				fmt.Fprintf(&b, "| %s%s ", pad, cell)
			}
		}
		b.WriteString("|\n")
	}
	line(t.Columns)
	for i, w := range width {
		if i == 0 {
			fmt.Fprintf(&b, "|%s", strings.Repeat("-", w+2))
		} else {
			fmt.Fprintf(&b, "|%s:", strings.Repeat("-", w+1))
		}
	}
	b.WriteString("|\n")
	for _, row := range t.Rows {
		line(row)
	}
	for _, note := range t.Notes {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	return b.String()
}

// Check is one promise compared with a measurement.
type Check struct {
	What     string
	Promised string
	Measured string
	Pass     bool
	// Value is what was measured; 0 where it is no number.
	Value float64
}

// Verdict is PASS or FAIL.
func (c Check) Verdict() string {
	if c.Pass {
		return "PASS"
	}
	return "FAIL"
}

// AtMost checks a measured value against an upper limit; format writes both.
func AtMost(what, format string, measured, limit float64) Check {
	return Check{What: what, Promised: "≤ " + fmt.Sprintf(format, limit), Measured: fmt.Sprintf(format, measured), Pass: measured <= limit, Value: measured}
}

// AtLeast checks a measured value against a lower limit; format writes both.
func AtLeast(what, format string, measured, limit float64) Check {
	return Check{What: what, Promised: "≥ " + fmt.Sprintf(format, limit), Measured: fmt.Sprintf(format, measured), Pass: measured >= limit, Value: measured}
}

// Checks is the table of checks.
func Checks(all []Check) *Table {
	t := &Table{Columns: []string{"what", "promised", "measured", "verdict"}}
	for _, c := range all {
		t.Add(c.What, c.Promised, c.Measured, c.Verdict())
	}
	return t
}

// Misses counts the checks that failed.
func Misses(all []Check) int {
	n := 0
	for _, c := range all {
		if !c.Pass {
			n++
		}
	}
	return n
}
