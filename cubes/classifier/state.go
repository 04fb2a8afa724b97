// SPDX-License-Identifier: Apache-2.0

package classifier

// State: the counters of rules.

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/polycube/polycube/inet"
)

// state has the structure of the model.
type state struct {
	Classes []counted `json:"traffic-class,omitempty"`
}

type counted struct {
	ID uint32 `json:"id"`
	inet.Count
}

// state returns the counters of the rules on a path.
func (c *classifierCube) state(_ context.Context, path []string) (any, error) {
	if len(path) > 0 && path[0] != "traffic-class" {
		return nil, nil
	}
	ids := slices.Sorted(maps.Keys(c.rules.of))
	if len(path) > 1 { // if there is no such rule, the framework says so
		ids = slices.DeleteFunc(ids, func(id uint32) bool { return strconv.FormatUint(uint64(id), 10) != path[1] })
	}
	counters := make([]uint32, len(ids))
	for i, id := range ids {
		counters[i] = c.rules.of[id].is.Counter
	}
	counts, err := c.rules.counters.Counts(counters)
	if err != nil {
		return nil, err
	}
	s := state{Classes: make([]counted, len(ids))}
	for i, id := range ids {
		s.Classes[i] = counted{id, counts[i]}
	}
	return s, nil
}
