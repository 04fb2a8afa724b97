// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"strings"
	"testing"

	"github.com/polycube/polycube/test/perf/report"
)

// TestAGroupHasASectionOfItsOwn: a run of a group replaces its section alone, and another run keeps it.
func TestAGroupHasASectionOfItsOwn(t *testing.T) {
	r := &Run{Config: Config{Group: "filters"}, Checks: []report.Check{report.AtMost("first", "%.0f ns", 2, 1)}}
	one := r.GroupDocument("# Performance\n\nall else\n", nil)
	r.Checks[0].What = "second"
	two := r.GroupDocument(one, []string{"-rounds=3"})
	for what, want := range map[string]bool{"all else": true, "second": true, "first": false, "1 of 1 are missed": true, "BENCH=filters BENCH_FLAGS='-rounds=3'": true} {
		if got := strings.Count(two, what); got != map[bool]int{true: 1}[want] {
			t.Errorf("%q is %d times in\n%s", what, got, two)
		}
	}
	if three := WithGroups("# Performance\n\nanew\n", two); !strings.Contains(three, "anew") || !strings.Contains(three, "second") || strings.Contains(three, "all else") {
		t.Errorf("after a run of all else:\n%s", three)
	}
	if none := WithGroups("# Performance\n", "# Performance\n\nold\n"); none != "# Performance\n" {
		t.Errorf("without a group:\n%s", none)
	}
}
