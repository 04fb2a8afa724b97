// SPDX-License-Identifier: Apache-2.0

package perf

// Filters: a group of its own.

import (
	"context"

	"github.com/polycube/polycube/test/perf/contest"
	filtering "github.com/polycube/polycube/test/perf/filters"
)

// filterParts are the parts of the group "filters".
func filterParts() []Part { return contestParts(filtering.Parts()) }

// contestParts are the parts of a group in which cubes and their peers are compared.
func contestParts(parts []contest.Part) []Part {
	var out []Part
	for _, p := range parts {
		out = append(out, Part{Name: p.Name, do: func(ctx context.Context, r *Run) error {
			result, err := p.Do(ctx, &contest.Bench{Root: r.Root, Rounds: r.rounds, Quick: r.Quick, Progress: r.progress})
			if err != nil {
				return err
			}
			r.add(Section{Title: result.Title, Text: result.Text, Tables: result.Tables}, result.Checks...)
			return nil
		}})
	}
	return out
}
