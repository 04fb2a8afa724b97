// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/tally"
)

// TestRotation: what was never seen comes first, then the oldest; what there is no time for keeps its old figure, and
// what went is forgotten.
func TestRotation(t *testing.T) {
	var asked []string
	reads := 0
	read := func(name string) int {
		asked = append(asked, name)
		reads++
		return reads
	}
	r := rotation[int]{age: time.Hour, budget: time.Hour}
	got, oldest := r.current([]string{"a", "b"}, read)
	if !slices.Equal(asked, []string{"a", "b"}) || got["b"] != 2 || oldest > time.Minute {
		t.Fatalf("asked %v, got %v, oldest %v", asked, got, oldest)
	}
	if got, _ = r.current([]string{"b", "c"}, read); !slices.Equal(asked, []string{"a", "b", "c"}) || len(got) != 2 || got["b"] != 2 {
		t.Fatalf("asked %v, got %v: what is young enough is asked again, or what went is still there", asked, got)
	}
	r.age, r.budget, asked = 0, 0, nil
	if got, _ = r.current([]string{"b", "c", "d"}, read); asked != nil || len(got) != 2 {
		t.Fatalf("asked %v without time, got %v", asked, got)
	}
	r.budget = time.Hour
	r.seen["c"] = sample[int]{3, time.Now().Add(-time.Minute)}
	if r.current([]string{"b", "c", "d"}, read); !slices.Equal(asked, []string{"d", "c", "b"}) {
		t.Fatalf("asked %v, want the oldest first", asked)
	}
	r.budget = 0
	r.seen["c"] = sample[int]{3, time.Now().Add(-time.Minute)}
	if _, oldest = r.current([]string{"b", "c", "d"}, read); oldest < time.Minute {
		t.Errorf("the oldest is %v old", oldest)
	}
}

// TestLines: what is written of each kind, with what must be escaped.
func TestLines(t *testing.T) {
	labels := []string{"cubeName", "map"}
	h := tally.NewHistogram(0.5, 2)
	h.Observe(1)
	tests := []struct {
		name         string
		write        func(*encoder)
		text, openMe string
	}{
		{"a counter", func(e *encoder) { e.sample(&Family{Name: "a_total", Kind: Counter, Help: "A."}, 7) },
			"# HELP a_total A.\n# TYPE a_total counter\na_total 7.000000\n", "# HELP a A.\n# TYPE a counter\na_total 7.000000\n"},
		{"a model's counter of another name", func(e *encoder) { e.sample(&Family{Name: "pkts", Kind: Counter, Help: "A.", exact: true}, 0.0000001) },
			"# HELP pkts A.\n# TYPE pkts counter\npkts 0.000000\n", "# HELP pkts A.\n# TYPE pkts unknown\npkts 0.000000\n"},
		{"a small fraction", func(e *encoder) { e.sample(&Family{Name: "a", Kind: Gauge, Help: "A."}, 0.0000001) },
			"# HELP a A.\n# TYPE a gauge\na 1e-07\n", "# HELP a A.\n# TYPE a gauge\na 1e-07\n"},
		{"labels and help that must be escaped", func(e *encoder) {
			e.sample(&Family{Name: "a", Kind: Gauge, Help: "A\\\nb", Labels: labels}, 1, "x\"\\\n", "y")
		}, "# HELP a A\\\\\\nb\n# TYPE a gauge\na{cubeName=\"x\\\"\\\\\\n\",map=\"y\"} 1.000000\n",
			"# HELP a A\\\\\\nb\n# TYPE a gauge\na{cubeName=\"x\\\"\\\\\\n\",map=\"y\"} 1.000000\n"},
		{"a histogram", func(e *encoder) {
			f := &Family{Name: "a_seconds", Kind: Histogram, Help: "A.", Labels: []string{"mode"}}
			e.histogram(f, h.Snapshot(), "x")
			e.histogram(f, tally.Snapshot{}, "y") // nothing was ever counted there
		}, "# HELP a_seconds A.\n# TYPE a_seconds histogram\na_seconds_bucket{mode=\"x\",le=\"0.5\"} 0\na_seconds_bucket{mode=\"x\",le=\"2\"} 1\n" +
			"a_seconds_bucket{mode=\"x\",le=\"+Inf\"} 1\na_seconds_sum{mode=\"x\"} 1\na_seconds_count{mode=\"x\"} 1\n",
			"# HELP a_seconds A.\n# TYPE a_seconds histogram\na_seconds_bucket{mode=\"x\",le=\"0.5\"} 0\na_seconds_bucket{mode=\"x\",le=\"2.0\"} 1\n" +
				"a_seconds_bucket{mode=\"x\",le=\"+Inf\"} 1\na_seconds_sum{mode=\"x\"} 1\na_seconds_count{mode=\"x\"} 1\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for format, want := range map[Format]string{Text: tt.text, OpenMetrics: tt.openMe} {
				var out bytes.Buffer
				e := newEncoder(&out, format)
				tt.write(e)
				if err := e.to.Flush(); err != nil || out.String() != want {
					t.Errorf("format %d: %v\n%s\nwant\n%s", format, err, out.String(), want)
				}
			}
		})
	}
}

// TestTable: families are described, and their labels are in order.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Table() {
		if seen[f.Name] || !strings.HasPrefix(f.Name, "polycube_") || !slices.IsSorted(f.Labels) || f.Series == "" ||
			!regexp.MustCompile(`^[A-Z0-9].*[.]$`).MatchString(f.Help) {
			t.Errorf("%+v", f)
		}
		seen[f.Name] = true
	}
}

// TestRequestsAreBounded: whatever clients send, there are only so many series.
func TestRequestsAreBounded(t *testing.T) {
	var r Requests
	for i := range 3 * maxRequests {
		r.Done("GET", fmt.Sprint("/", i), 200, time.Millisecond)
		r.Done(fmt.Sprint("M", i), "", 400+i, time.Millisecond)
	}
	if len(r.took) > maxRequests+1 {
		t.Errorf("%d combinations", len(r.took))
	}
	var total uint64
	for _, h := range r.took {
		total += h.Snapshot().Count
	}
	if total != 6*maxRequests {
		t.Errorf("%d requests were counted, want %d", total, 6*maxRequests)
	}
}

// TestPathHead: a path that needs one member of the cube only says which.
func TestPathHead(t *testing.T) {
	for path, want := range map[string]string{
		"$.ports.length()": "ports", "$.fdb.entry[*].age": "fdb", "$['aging-time']": "aging-time", "$.ports[?(@.ip)]": "ports",
		"$..pkts": "", "$": "", "$.*": "", "$.length()": "", "$[*]": "",
	} {
		got := ""
		if m := pathHead.FindStringSubmatch(path); m != nil && !strings.HasPrefix(path, "$.length()") {
			got = m[1] + m[2]
		}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
