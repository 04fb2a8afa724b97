// SPDX-License-Identifier: Apache-2.0

package iptables

// State: what the rules have counted, and numbers of sessions.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/polycube/polycube/conntrack/zone"
	"github.com/polycube/polycube/cube"
)

// state has the structure of the model.
type state struct {
	Chain        []chainStats      `json:"chain,omitempty"`
	Chain6       []chainStats      `json:"chain6,omitempty"`
	Sessions     *zone.Counts      `json:"sessions,omitempty"`
	SessionTable []json.RawMessage `json:"session-table,omitempty"`
}

type chainStats struct {
	Name  string      `json:"name"`
	Stats []ruleStats `json:"stats,omitempty"`
}

// ruleStats is an entry of the list `stats`.
type ruleStats struct {
	ID          int    `json:"id"`
	Pkts        uint64 `json:"pkts"`
	Bytes       uint64 `json:"bytes"`
	Description string `json:"description"`
}

// State returns what is requested.
func (f *iptables) State(_ context.Context, path []string) (any, error) {
	wanted := func(name string) bool { return len(path) == 0 || path[0] == name }
	var s state
	var err error
	if wanted("sessions") {
		counts := f.zone.Count()
		s.Sessions = &counts
	}
	for set, to := range []*[]chainStats{&s.Chain, &s.Chain6} {
		if !wanted(listNames[set]) {
			continue
		}
		if *to, err = f.chainStates(set, path); err != nil {
			return nil, err
		}
	}
	if wanted(zone.SessionTable) {
		s.SessionTable, err = f.zone.Sessions(path)
	}
	return s, err
}

// ordered returns the chains of a table of a family: those that are built in, then the others by name.
func (f *iptables) ordered(set int, table string) (out []*chain) {
	for k, c := range f.chains {
		if k.set == set && k.table == table {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *chain) int {
		rank := func(c *chain) int {
			if i := c.builtIn(); i >= 0 {
				return i
			}
			return len(builtIn)
		}
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a.name, b.name)
	})
	return out
}

// chainStates returns the state of the chains of a family.
func (f *iptables) chainStates(set int, path []string) (out []chainStats, err error) {
	for _, c := range f.ordered(set, filter) {
		if len(path) > 1 && path[1] != c.name {
			continue
		}
		s := chainStats{Name: c.name}
		if len(path) < 3 || path[2] == "stats" {
			if s.Stats, err = c.stats(path); err != nil {
				return nil, err
			}
		}
		out = append(out, s)
	}
	return out, nil
}

// stats returns the entries of a chain, or the one that the path names.
func (c *chain) stats(path []string) ([]ruleStats, error) {
	indexes := c.counterIndexes()
	first, end := 0, len(indexes)
	if len(path) > 3 {
		at, err := strconv.ParseUint(path[3], 10, 31)
		if err != nil || int(at) >= end {
			return nil, fmt.Errorf("%s %s: %w", c.key, path[3], cube.ErrNotFound)
		}
		first, end = int(at), int(at)+1
	}
	counts, err := c.counters.Counts(indexes[first:end])
	if err != nil {
		return nil, err
	}
	out := make([]ruleStats, 0, len(counts))
	for i, n := range counts {
		s := ruleStats{ID: first + i, Pkts: n.Packets, Bytes: n.Bytes, Description: "DEFAULT"}
		if s.ID < len(c.rules) {
			s.Description = c.rules[s.ID].text
		}
		out = append(out, s)
	}
	return out, nil
}
