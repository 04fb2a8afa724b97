// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bufio"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/polycube/polycube/internal/tally"
)

// Families are written one after the other while they are walked: a response for ten thousand ports is never in memory
// as a whole. The format is Prometheus' 0.0.4, or OpenMetrics 1.0 on request.

// Format of the text.
type Format int

// The formats.
const (
	Text Format = iota
	OpenMetrics
)

// ContentType is the format's content type.
func (f Format) ContentType() string {
	if f == OpenMetrics {
		return "application/openmetrics-text; version=1.0.0; charset=utf-8"
	}
	return "text/plain; version=0.0.4; charset=utf-8"
}

// encoder writes samples, with a head before the first one of a family.
type encoder struct {
	to     *bufio.Writer
	format Format
	now    *Family
}

func newEncoder(to io.Writer, format Format) *encoder {
	return &encoder{to: bufio.NewWriterSize(to, 64<<10), format: format}
}

var (
	helpEscaper  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// words writes strings; the buffer keeps the first error for flush.
func (e *encoder) words(list ...string) {
	for _, w := range list {
		_, _ = e.to.WriteString(w)
	}
}

// begin writes a family's head unless it is already written.
func (e *encoder) begin(f *Family) {
	if e.now == f {
		return
	}
	e.now = f
	name, kind := f.Name, f.Kind
	if e.format == OpenMetrics && kind == Counter {
		var total bool
		if name, total = strings.CutSuffix(name, "_total"); !total {
			kind = unknown
		}
	}
	e.words("# HELP ", name, " ", helpEscaper.Replace(f.Help), "\n# TYPE ", name, " ", string(kind), "\n")
}

// sample writes one value with the values of the family's labels.
func (e *encoder) sample(f *Family, value float64, labels ...string) {
	e.begin(f)
	e.line(f, "", "", labels, f.number(value))
}

// line writes one line; le is the bound of a bucket.
func (e *encoder) line(f *Family, suffix, le string, labels []string, value string) {
	e.words(f.Name, suffix)
	before := "{"
	for i, l := range labels {
		e.words(before, f.Labels[i], `="`)
		if strings.ContainsAny(l, "\\\n\"") {
			l = labelEscaper.Replace(l)
		}
		e.words(l, `"`)
		before = ","
	}
	if le != "" {
		e.words(before, `le="`, le, `"`)
		before = ","
	}
	if before == "," {
		e.words("}")
	}
	e.words(" ", value, "\n")
}

// histogram writes the buckets, the sum and the number of values.
func (e *encoder) histogram(f *Family, s tally.Snapshot, labels ...string) {
	if s.Bounds == nil {
		return
	}
	e.begin(f)
	for i, bound := range s.Bounds {
		e.line(f, "_bucket", e.bound(bound), labels, strconv.FormatUint(s.Cumulative[i], 10))
	}
	e.line(f, "_bucket", "+Inf", labels, strconv.FormatUint(s.Count, 10))
	e.line(f, "_sum", "", labels, strconv.FormatFloat(s.Sum, 'g', -1, 64))
	e.line(f, "_count", "", labels, strconv.FormatUint(s.Count, 10))
}

// bound is the text of a bucket's bound; OpenMetrics requires a decimal point.
func (e *encoder) bound(v float64) string {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if e.format == OpenMetrics && !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

// number is the text of a value: six decimals like the lines of the first Polycube, unless they would truncate it.
func (f *Family) number(v float64) string {
	if f.exact || v == math.Trunc(v) && math.Abs(v) < 1<<62 {
		return strconv.FormatFloat(v, 'f', 6, 64)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
