// SPDX-License-Identifier: Apache-2.0

// Package evnf measures hybrid network functions beside the programs whose work they do.
package evnf

import (
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/evnf/dpi"
)

// What all groups share.
type (
	// Bench is how a part is measured.
	Bench = contest.Bench
	// Result of a part.
	Result = contest.Result
)

// Parts lists the parts in the order in which they run.
func Parts() []contest.Part {
	return []contest.Part{
		{Name: "evnf-firewall", Do: firewall},
		{Name: "evnf-web", Do: web},
		{Name: "evnf-dpi", Do: dpi.Chain},
	}
}
