// SPDX-License-Identifier: Apache-2.0

package pbforwarder

// State: the counters of each rule.

import (
	"context"
	"fmt"
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
	counts, err := f.counts()
	if err != nil {
		return nil, err
	}
	s := state{Rules: make([]counted, 0, len(f.rules))}
	for id, e := range f.rules {
		s.Rules = append(s.Rules, counted{id, counts[e.place]})
	}
	slices.SortFunc(s.Rules, func(x, y counted) int { return int(int64(x.ID) - int64(y.ID)) })
	return s, nil
}

// fewRules is up to how many rules are read one by one: the map is much larger.
const fewRules = 200

// counts are the counters of rules, by index.
func (f *forwarder) counts() (map[uint32]inet.Count, error) {
	out := make(map[uint32]inet.Count, len(f.rules))
	if len(f.rules) > fewRules {
		var err error
		for place, values := range f.places.counters.All(&err) {
			out[place] = inet.Sum(values)
		}
		return out, err
	}
	for _, e := range f.rules {
		values, _, err := f.places.counters.Get(e.place)
		if err != nil {
			return nil, err
		}
		out[e.place] = inet.Sum(values)
	}
	return out, nil
}

// one returns the state of the rule with an id.
func (f *forwarder) one(text string) (any, error) {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("rules %s: %w", text, cube.ErrNotFound)
	}
	e := f.rules[uint32(id)]
	if e == nil {
		return nil, nil // there is nothing to add
	}
	values, _, err := f.places.counters.Get(e.place)
	if err != nil {
		return nil, err
	}
	return state{Rules: []counted{{uint32(id), inet.Sum(values)}}}, nil
}
