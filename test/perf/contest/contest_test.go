// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"slices"
	"testing"

	"github.com/polycube/polycube/test/perf/report"
)

// TestNetIsMinusThePath: where there is a path without a device, and where only the generator remains.
func TestNetIsMinusThePath(t *testing.T) {
	for _, base := range []string{None, Generator} {
		f := Figures{base: report.Sample{10, 12}, "ours": report.Sample{30, 32}, "theirs": report.Sample{70, 72}}
		if net := f.Net("ours"); !slices.Equal(net, report.Sample{20, 20}) {
			t.Errorf("net of %s: %v, want 20 in each round", base, net)
		}
		if ratio := f.Ratio("theirs", "ours"); ratio != 3 {
			t.Errorf("ratio %v, want 3", ratio)
		}
		if best := f.Best("theirs", "ours"); best != "ours" {
			t.Errorf("%s is the best one", best)
		}
		table := &report.Table{}
		f.Rows(table, []*Runner{{Name: base}, {Name: "theirs"}}, "ours")
		if len(table.Rows) != 2 || len(table.Rows[0]) != 2 || table.Rows[1][3] != "3.00" {
			t.Errorf("rows %v, want the path without a ratio, and then one of 3.00", table.Rows)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{7: "7", 1000: "1,000", 500_000: "500,000", 1_048_576: "1,048,576"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
