// SPDX-License-Identifier: Apache-2.0

package pbforwarder

// State: the counters of each rule.

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// state has the structure of the model.
type state struct {
	Rules []counted `json:"rules,omitempty"`
}

type counted struct {
	ID uint32 `json:"id"`
	inet.Count
}

// State returns the counters of the requested rules.
func (f *forwarder) State(_ context.Context, path []string) (any, error) {
	if len(path) > 0 && path[0] != "rules" {
		return nil, nil
	}
	if len(path) > 1 {
		return f.one(path[1])
	}
	ids := slices.Sorted(maps.Keys(f.rules))
	counts, err := f.counts(ids...)
	if err != nil {
		return nil, err
	}
	s := state{Rules: make([]counted, len(ids))}
	for i, id := range ids {
		s.Rules[i] = counted{id, counts[i]}
	}
	return s, nil
}

// counts reads the counters of rules, in the order of their ids.
func (f *forwarder) counts(ids ...uint32) ([]inet.Count, error) {
	indexes := make([]uint32, len(ids))
	for i, id := range ids {
		indexes[i] = f.rules[id].counter
	}
	return f.counters.Counts(indexes)
}

// one returns the state of the rule with an id.
func (f *forwarder) one(text string) (any, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("rules %s: %w", text, cube.ErrNotFound)
	}
	if f.rules[uint32(id)] == nil {
		return nil, nil // there is nothing to add
	}
	counts, err := f.counts(uint32(id))
	if err != nil {
		return nil, err
	}
	return state{Rules: []counted{{uint32(id), counts[0]}}}, nil
}
