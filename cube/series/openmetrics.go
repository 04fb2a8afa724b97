// SPDX-License-Identifier: Apache-2.0

package series

// Entries in the text format of OpenMetrics 1.0. Keys become labels, members of values become families.

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/polycube/polycube/cube"
)

// Kind is the type of a metric.
type Kind string

// The types of metrics, as OpenMetrics calls them.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
	Summary   Kind = "summary"
	Unknown   Kind = "unknown"
)

// Metric describes what entries are as a metric.
type Metric struct {
	Name, Help string
	Kind       Kind
	// Labels are those of each sample, in addition to the key's. They win over labels of the key.
	Labels []Label
	// Buckets are the upper bounds of the buckets of a histogram whose counts are an array, without the last one, which
	// is +Inf. Without them the bounds are 0, 1, 3, 7 ...: powers of two, less one.
	Buckets []string
	// Scale is a factor of samples and bounds; 0 stands for 1.
	Scale float64
}

// Label is a name with a value.
type Label struct{ Name, Value string }

var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// reserved are labels with a meaning in the format.
var reserved = []string{"le", "quantile"}

// Check returns why a map cannot be shown as a metric; the error wraps cube.ErrInvalid.
func (s *Shape) Check(m Metric) error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf(format+": %w", append(args, cube.ErrInvalid)...)
	}
	if !metricName.MatchString(m.Name) {
		return invalid("%.80q is not a valid metric name: use letters, digits, _ and :, and do not start with a digit", m.Name)
	}
	for i, l := range m.Labels {
		switch {
		case !labelName.MatchString(l.Name) || strings.HasPrefix(l.Name, "__") || slices.Contains(reserved, l.Name):
			return invalid("%.80q is not a valid label name: use letters, digits and _, but not le, quantile or a leading __", l.Name)
		case slices.ContainsFunc(m.Labels[:i], func(other Label) bool { return other.Name == l.Name }):
			return invalid("label %s is given twice", l.Name)
		}
	}
	if len(m.Buckets) > 0 && m.Kind != Histogram {
		return invalid("buckets are for metrics of type Histogram")
	}
	switch m.Kind {
	case Histogram:
		counts := s.histogramSize()
		switch {
		case counts == 0:
			return invalid("a Histogram needs a map of struct pcn_histogram, or of integers, one for each bucket; this map has a different type")
		case len(m.Buckets) > 0 && s.value.name == typeHistogram:
			return invalid("struct pcn_histogram has its own buckets, powers of two: leave buckets out")
		case len(m.Buckets) > 0 && len(m.Buckets) != counts-1:
			return invalid("the map has %d buckets, the last one without a bound, but %d bounds are given", counts, len(m.Buckets))
		}
		return checkBounds(m.Buckets)
	case Summary:
		if len(s.families()) == 0 || s.value.member("sum") == nil || s.value.member("count") == nil {
			return invalid("a Summary needs values that are a struct with the integers `sum` and `count`")
		}
	default:
		if s.value.name != typeSet && s.value.name != typeDistinct && len(s.families()) == 0 {
			return invalid("the map has no integers that can be exported as samples")
		}
	}
	return nil
}

// checkBounds refuses bounds that are no numbers, or not in order.
func checkBounds(bounds []string) error {
	last := 0.0
	for i, b := range bounds {
		v, err := strconv.ParseFloat(b, 64)
		if err != nil || i > 0 && v <= last || v != v {
			return fmt.Errorf("bucket %.80q: bounds are numbers, each greater than the one before: %w", b, cube.ErrInvalid)
		}
		last = v
	}
	return nil
}

// member finds an integer among the members of a struct.
func (n *node) member(name string) *member {
	for i := range n.members {
		if n.members[i].name == name && n.members[i].number != nil {
			return &n.members[i]
		}
	}
	return nil
}

// histogramSize returns how many buckets an entry, or the whole array, has as a histogram; 0 if it is none.
func (s *Shape) histogramSize() int {
	switch v := s.value; {
	case v.name == typeHistogram && len(v.members) == 2 && v.members[0].element != nil && v.members[1].number != nil:
		return v.members[0].count
	case v.element != nil && v.element.number != nil:
		return v.count
	case v.number != nil && isArray(s.kind) && s.max > 1:
		return s.max
	}
	return 0
}

// field is an integer within a value, or a part of a key that has a text.
type field struct {
	name   string // with those of the structs around it, joined by _; empty for the value itself
	offset int
	*node
}

// fields returns those of a type for which want is true.
func fields(n *node, prefix string, offset int, want func(*node) bool) []field {
	if want(n) {
		return []field{{prefix, offset, n}}
	}
	var out []field
	for _, m := range n.members {
		name := strings.TrimLeft(m.name, "_")
		if prefix != "" {
			name = prefix + "_" + name
		}
		out = append(out, fields(m.node, name, offset+m.offset, want)...)
	}
	return out
}

// families are the integers of a value, each of which is a family of its own.
func (s *Shape) families() []field {
	return fields(s.value, "", 0, func(n *node) bool { return n.number != nil })
}

// labels are the parts of a key.
func (s *Shape) labels() []field {
	if s.key == nil {
		return nil
	}
	parts := fields(s.key, "", 0, func(n *node) bool { return n.text != nil })
	for i := range parts {
		if parts[i].name == "" {
			parts[i].name = "key"
		}
	}
	return parts
}

// OpenMetrics appends entries as samples, without the `# EOF` at the end of a text.
func (s *Shape) OpenMetrics(dst []byte, e *Entries, m Metric) []byte {
	return s.write(dst, e, m).dst
}

func (s *Shape) write(dst []byte, e *Entries, m Metric) *writer {
	w := &writer{dst: dst, m: m, s: s, e: e}
	if w.name = m.Name; m.Kind == Counter {
		w.name = strings.TrimSuffix(m.Name, "_total")
	}
	if w.m.Scale == 0 {
		w.m.Scale = 1
	}
	for _, l := range m.Labels {
		w.fixed = append(w.fixed, l.Name...)
		w.fixed = append(escape(append(w.fixed, '=', '"'), l.Value), '"', ',')
	}
	w.parts = slices.DeleteFunc(s.labels(), func(f field) bool { return w.configured(f.name) })
	switch {
	case m.Kind == Histogram:
		w.histograms()
	case s.value.name == typeSet:
		w.heavy()
	case s.value.name == typeDistinct:
		w.family("")
		for i := range e.Len {
			w.sample(w.total(), i, "")
			w.number(s.distinct(e, i), false)
		}
	case m.Kind == Summary:
		w.family("")
		for i := range e.Len {
			for _, name := range []string{"sum", "count"} {
				of := s.value.member(name)
				w.sample("_"+name, i, "")
				w.sum(field{name, of.offset, of.node}, i, name == "sum")
			}
		}
	default:
		for _, f := range s.families() {
			suffix := ""
			if f.name != "" {
				suffix = "_" + f.name
			}
			w.family(suffix)
			w.dst = slices.Grow(w.dst, e.Len*(len(m.Name)+len(suffix)+len(w.fixed)+64))
			suffix += w.total()
			for i := range e.Len {
				w.sample(suffix, i, "")
				w.sum(f, i, true)
			}
		}
	}
	return w
}

// writer writes one metric.
type writer struct {
	dst   []byte
	m     Metric
	s     *Shape
	e     *Entries
	name  string  // that of the metric, without the suffix of counters
	fixed []byte  // the configured labels
	parts []field // the parts of the key that are labels
	// families are the beginnings of what was written.
	families []begin
}

// begin is where a family, and its first sample, begin in a text.
type begin struct {
	name          string
	head, samples int
}

func (w *writer) configured(name string) bool {
	return slices.ContainsFunc(w.m.Labels, func(l Label) bool { return l.Name == name })
}

// total is the suffix of samples of counters.
func (w *writer) total() string {
	if w.m.Kind == Counter {
		return "_total"
	}
	return ""
}

// family begins a family.
func (w *writer) family(suffix string) {
	w.families = append(w.families, begin{name: w.name + suffix, head: len(w.dst)})
	defer func() { w.families[len(w.families)-1].samples = len(w.dst) }()
	if w.m.Help != "" {
		w.dst = append(append(append(w.dst, "# HELP "...), w.name...), suffix...)
		w.dst = append(escape(append(w.dst, ' '), w.m.Help), '\n')
	}
	w.dst = append(append(append(w.dst, "# TYPE "...), w.name...), suffix...)
	w.dst = append(append(append(w.dst, ' '), w.m.Kind...), '\n')
}

// escape appends the text of a label or of help.
func escape(dst []byte, text string) []byte {
	for i := range len(text) {
		switch c := text[i]; c {
		case '\\', '"':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// sample begins a sample of an entry, up to the space before its number. more are further labels, each with a comma at its
// end.
func (w *writer) sample(suffix string, entry int, more string) {
	w.dst = append(append(w.dst, w.name...), suffix...)
	at := len(w.dst)
	w.dst = append(append(w.dst, '{'), w.fixed...)
	switch {
	case entry < 0:
	case w.s.key != nil:
		key := w.e.Key(entry)
		for _, p := range w.parts {
			w.dst = append(append(w.dst, p.name...), '=', '"')
			from := len(w.dst)
			w.dst = p.text(w.dst, key[p.offset:])
			w.dst = append(escaped(w.dst, from), '"', ',')
		}
	case w.s.max > 1 && !w.configured("index"):
		w.dst = strconv.AppendInt(append(w.dst, `index="`...), int64(entry), 10)
		w.dst = append(w.dst, '"', ',')
	}
	w.dst = append(w.dst, more...)
	if len(w.dst) == at+1 {
		w.dst = w.dst[:at]
	} else {
		w.dst[len(w.dst)-1] = '}'
	}
	w.dst = append(w.dst, ' ')
}

// escaped escapes what follows a position, which seldom needs it.
func escaped(dst []byte, from int) []byte {
	if bytes.IndexByte(dst[from:], '"') < 0 && bytes.IndexByte(dst[from:], '\\') < 0 && bytes.IndexByte(dst[from:], '\n') < 0 {
		return dst
	}
	return escape(dst[:from], string(dst[from:]))
}

// number ends a sample with a number, with the scale.
func (w *writer) number(v uint64, signed bool) {
	switch f := float64(v); {
	case w.m.Scale == 1:
		w.dst = (&node{signed: signed}).appendNumber(w.dst, v)
	case signed:
		w.dst = strconv.AppendFloat(w.dst, float64(int64(v))*w.m.Scale, 'g', -1, 64)
	default:
		w.dst = strconv.AppendFloat(w.dst, f*w.m.Scale, 'g', -1, 64)
	}
	w.dst = append(w.dst, '\n')
}

// sum ends a sample with an integer of an entry, the sum over all CPUs.
func (w *writer) sum(f field, entry int, scaled bool) {
	if scaled {
		w.number(w.total64(f, entry), f.signed)
		return
	}
	w.dst = append(f.appendNumber(w.dst, w.total64(f, entry)), '\n')
}

func (w *writer) total64(f field, entry int) (v uint64) {
	for cpu := range w.e.CPUs {
		v += f.number(w.e.Value(entry, cpu)[f.offset:])
	}
	return v
}

// heavy writes the keys of a PCN_SKETCH_TOP.
func (w *writer) heavy() {
	w.family("")
	for _, h := range w.s.top(w.e) {
		more := fmt.Sprintf("address=%q,number=\"%d\",", h.Address.Addr(), h.Number)
		w.sample(w.total(), -1, more)
		w.number(h.Sum, false)
	}
}

// histograms writes a histogram for each entry, or one of the whole array.
func (w *writer) histograms() {
	w.family("")
	count := w.s.histogramSize()
	v := w.s.value
	if v.number != nil { // an array of integers is one histogram
		w.histogram(-1, min(count, w.e.Len), func(bucket int) uint64 { return w.total64(field{"", 0, v}, bucket) }, nil)
		return
	}
	counts, offset := v, 0
	var sum *field
	if v.name == typeHistogram {
		counts, offset = v.members[0].node, v.members[0].offset
		sum = &field{"sum", v.members[1].offset, v.members[1].node}
	}
	for i := range w.e.Len {
		w.histogram(i, count, func(bucket int) uint64 {
			return w.total64(field{"", offset + bucket*counts.element.size, counts.element}, i)
		}, sum)
	}
}

// histogram writes the samples of one histogram.
func (w *writer) histogram(entry, buckets int, of func(bucket int) uint64, sum *field) {
	all := uint64(0)
	for i := range buckets {
		all += of(i)
		w.sample("_bucket", entry, `le="`+w.bound(i, buckets)+`",`)
		w.count(all)
	}
	if sum != nil { // OpenMetrics wants both or none
		w.sample("_sum", entry, "")
		w.sum(*sum, entry, true)
		w.sample("_count", entry, "")
		w.count(all)
	}
}

// count ends a sample with a number of values, without the scale.
func (w *writer) count(n uint64) { w.dst = append(strconv.AppendUint(w.dst, n, 10), '\n') }

// bound is the upper bound of a bucket.
func (w *writer) bound(bucket, buckets int) string {
	v := float64(uint64(1)<<min(bucket, 63) - 1)
	switch {
	case bucket == buckets-1:
		return "+Inf"
	case bucket < len(w.m.Buckets):
		v, _ = strconv.ParseFloat(w.m.Buckets[bucket], 64) // it was checked
		return floatText(v)
	}
	if w.m.Scale == 1 {
		return floatText(v)
	}
	// Fifteen digits hide that a scale such as 1e-9 is not exact.
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v*w.m.Scale, 'g', 15, 64), 64) // it is a number
	return floatText(v)
}

// floatText is a number with a decimal point, as OpenMetrics wants bounds.
func floatText(v float64) string {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(text, ".eIN") {
		text += ".0"
	}
	return text
}
