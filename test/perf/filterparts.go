// SPDX-License-Identifier: Apache-2.0

package perf

// Filters: a group of its own.

import (
	"context"

	filtering "github.com/polycube/polycube/test/perf/filters"
)

// filterParts are the parts of the group "filters".
func filterParts() []Part {
	var out []Part
	for _, p := range filtering.Parts() {
		out = append(out, Part{Name: p.Name, do: func(ctx context.Context, r *Run) error {
			result, err := p.Do(ctx, &filtering.Bench{Root: r.Root, Rounds: r.rounds, Quick: r.Quick, Progress: r.progress})
			if err != nil {
				return err
			}
			r.add(Section{Title: result.Title, Text: result.Text, Tables: result.Tables}, result.Checks...)
			return nil
		}})
	}
	return out
}
