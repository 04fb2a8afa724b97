// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"math"
	"testing"

	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/report"
)

// TestPacketsAreWhatTheyAreCalled: a device that accepts everything, or nothing, must not be measured as a filter.
func TestPacketsAreWhatTheyAreCalled(t *testing.T) {
	for name, rs := range map[string]*ruled{"exact": exact(100), "acl": made("acl", 100), "fw": made("fw", 100), "ipc": made("ipc", 100)} {
		if len(rs.accepted) != rotation || len(rs.others) < rotation/8 {
			t.Errorf("%s: %d packets match, and %d do not", name, len(rs.accepted), len(rs.others))
		}
		for i, p := range rs.accepted {
			if !rs.match(p) {
				t.Fatalf("%s: packet %d matches no rule: %x", name, i, p)
			}
		}
		for i, p := range rs.others {
			if rs.match(p) {
				t.Fatalf("%s: packet %d matches a rule: %x", name, i, p)
			}
		}
	}
}

func TestRatiosAreOfNetCosts(t *testing.T) {
	f := contest.Figures{none: report.Sample{100, 200}, "ours": report.Sample{110, 210}, "a": report.Sample{140, 240}, "b": report.Sample{130, 230}}
	if got := f.Ratio("a", "ours"); math.Abs(got-4) > 1e-9 {
		t.Errorf("a costs %v times as much, want 4", got)
	}
	if got := f.Best("a", "b"); got != "b" {
		t.Errorf("the best is %s", got)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{7: "7", 1000: "1,000", 500_000: "500,000", 1_000_000: "1,000,000"} {
		if got := contest.Thousands(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
}
