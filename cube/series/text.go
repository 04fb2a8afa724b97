// SPDX-License-Identifier: Apache-2.0

package series

import "slices"

// Text collects metrics in the text format of OpenMetrics. All samples of a family are together, as the format requires, even if
// they come from several maps.
type Text struct {
	families []family
	size     int
}

type family struct {
	name    string
	head    []byte
	samples [][]byte
}

// Add adds the entries of a map. Metrics of the same name must have the same type and help; those of the first are written.
func (t *Text) Add(s *Shape, e *Entries, m Metric) {
	w := s.write(nil, e, m)
	for i, b := range w.families {
		to := len(w.dst)
		if i+1 < len(w.families) {
			to = w.families[i+1].head
		}
		at := slices.IndexFunc(t.families, func(f family) bool { return f.name == b.name })
		if at < 0 {
			at = len(t.families)
			t.families = append(t.families, family{name: b.name, head: w.dst[b.head:b.samples]})
		}
		t.families[at].samples = append(t.families[at].samples, w.dst[b.samples:to])
	}
	t.size += len(w.dst)
}

// Bytes returns the text with its end.
func (t *Text) Bytes() []byte {
	const end = "# EOF\n"
	out := make([]byte, 0, t.size+len(end))
	for _, f := range t.families {
		out = append(out, f.head...)
		for _, s := range f.samples {
			out = append(out, s...)
		}
	}
	return append(out, end...)
}
