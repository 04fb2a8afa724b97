// SPDX-License-Identifier: Apache-2.0

package perf

// Captures: a group of its own.

import (
	"context"

	"github.com/polycube/polycube/test/perf/capture"
	"github.com/polycube/polycube/test/perf/report"
)

// captureParts are the parts of the group "capture".
func captureParts() []Part {
	return []Part{{Name: "capture", do: func(ctx context.Context, r *Run) error {
		t, checks, err := capture.Rates(ctx, &capture.Bench{Root: r.Root, Rounds: r.rounds, Quick: r.Quick, Progress: r.progress})
		if err != nil {
			return err
		}
		r.add(Section{Title: "Packet capture", Text: "Cube `packetcapture` and tcpdump.", Tables: []*report.Table{t}}, checks...)
		return nil
	}}}
}
