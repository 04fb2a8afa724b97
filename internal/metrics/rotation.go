// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"time"
)

// rotation reads values that are expensive to read: oldest first, as many as fit into a time budget.
type rotation[V any] struct {
	// age is how old a value may be before it is read again, budget how long one look may take.
	age, budget time.Duration
	seen        map[string]sample[V]
}

type sample[V any] struct {
	value V
	at    time.Time
}

// current returns the known values by name, and the age of the oldest. Values that did not fit into the budget keep their
// old ones; those never read are not in the map.
func (r *rotation[V]) current(names []string, read func(name string) V) (map[string]V, time.Duration) {
	now := time.Now()
	kept := make(map[string]sample[V], len(names))
	for _, name := range names {
		if l, ok := r.seen[name]; ok {
			kept[name] = l
		}
	}
	r.seen = kept
	due := slices.Clone(names)
	slices.SortStableFunc(due, func(a, b string) int { return kept[a].at.Compare(kept[b].at) })
	for _, name := range due {
		if at := kept[name].at; !at.IsZero() && now.Sub(at) < r.age || time.Since(now) >= r.budget {
			break
		}
		kept[name] = sample[V]{read(name), time.Now()}
	}
	out := make(map[string]V, len(kept))
	oldest := time.Duration(0)
	for name, l := range kept {
		out[name] = l.value
		oldest = max(oldest, now.Sub(l.at))
	}
	return out, oldest
}
