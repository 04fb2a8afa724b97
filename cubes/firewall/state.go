// SPDX-License-Identifier: Apache-2.0

package firewall

// State: what the rules have counted, and numbers of sessions.

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/conntrack/zone"
	"github.com/polycube/polycube/cube"
)

// state has the structure of the model.
type state struct {
	Chain        []chainStats      `json:"chain,omitempty"`
	Sessions     *zone.Counts      `json:"sessions,omitempty"`
	SessionTable []json.RawMessage `json:"session-table,omitempty"`
}

type chainStats struct {
	Name  string      `json:"name"`
	Stats []ruleStats `json:"stats,omitempty"`
	Rule  []ruleForm  `json:"rule,omitempty"`
}

// ruleStats is an entry of the list `stats`.
type ruleStats struct {
	ID          int    `json:"id"`
	Pkts        uint64 `json:"pkts"`
	Bytes       uint64 `json:"bytes"`
	Src         string `json:"src,omitempty"`
	Dst         string `json:"dst,omitempty"`
	L4Proto     string `json:"l4proto,omitempty"`
	SPort       string `json:"sport,omitempty"`
	DPort       string `json:"dport,omitempty"`
	TCPFlags    string `json:"tcpflags,omitempty"`
	Conntrack   string `json:"conntrack,omitempty"`
	Action      string `json:"action"`
	Description string `json:"description,omitempty"`
}

// ruleForm shows the addresses of a rule with their lengths.
type ruleForm struct {
	ID  int    `json:"id"`
	Src string `json:"src,omitempty"`
	Dst string `json:"dst,omitempty"`
}

// State returns what is requested.
func (f *firewall) State(_ context.Context, path []string) (any, error) {
	wanted := func(name string) bool { return len(path) == 0 || path[0] == name }
	var s state
	var err error
	if wanted("sessions") {
		counts := f.zone.Count()
		s.Sessions = &counts
	}
	if wanted("chain") {
		if s.Chain, err = f.chainStates(path); err != nil {
			return nil, err
		}
	}
	if wanted(zone.SessionTable) {
		s.SessionTable, err = f.zone.Sessions(path)
	}
	return s, err
}

// chainStates returns the state of chains.
func (f *firewall) chainStates(path []string) (out []chainStats, err error) {
	for d := range directions {
		if len(path) > 1 && path[1] != d.String() {
			continue
		}
		s := chainStats{Name: d.String()}
		first, last := 0, len(f.chains[d])
		if len(path) > 3 {
			at, err := strconv.ParseUint(path[3], 10, 31)
			if err != nil || int(at) > last {
				return nil, fmt.Errorf("chain %s: %s %s: %w", d, path[2], path[3], cube.ErrNotFound)
			}
			first, last = int(at), int(at)
		}
		if len(path) < 3 || path[2] == "stats" {
			if s.Stats, err = f.stats(d, first, last); err != nil {
				return nil, err
			}
		}
		if len(path) < 3 || path[2] == "rule" {
			s.Rule = f.forms(d, first, last)
		}
		out = append(out, s)
	}
	return out, nil
}

// forms returns the forms of addresses that were given without a length.
func (f *firewall) forms(d Direction, first, last int) (out []ruleForm) {
	for i := first; i <= last && i < len(f.chains[d]); i++ {
		r := &f.chains[d][i].is
		if r.Src != nil || r.Dst != nil {
			out = append(out, ruleForm{i, withLength(r.Src), withLength(r.Dst)})
		}
	}
	return out
}

// countersOf returns the counters of rules and, at last, that of the default.
func (f *firewall) countersOf(rules chain, d Direction) []uint32 {
	indexes := make([]uint32, 0, len(rules)+1)
	for _, r := range rules {
		indexes = append(indexes, r.counter)
	}
	return append(indexes, f.defaults[d])
}

// stats returns the entries from first to last; the one after the last rule is for the default.
func (f *firewall) stats(d Direction, first, last int) ([]ruleStats, error) {
	rules := f.chains[d]
	counts, err := f.counters[d].Counts(f.countersOf(rules, d)[first : last+1])
	if err != nil {
		return nil, err
	}
	out := make([]ruleStats, 0, len(counts))
	for i := first; i <= last; i++ {
		s := ruleStats{Action: f.config.defaultOf(d).String(), Description: "DEFAULT"}
		if i < len(rules) {
			s = rules[i].is.shown()
		}
		s.ID, s.Pkts, s.Bytes = i, counts[i-first].Packets, counts[i-first].Bytes
		out = append(out, s)
	}
	return out, nil
}

// shown returns the members of a rule as text.
func (r *RuleFields) shown() ruleStats {
	s := ruleStats{Src: withLength(r.Src), Dst: withLength(r.Dst), SPort: r.SPort.String(), DPort: r.DPort.String(), Action: r.Action.String()}
	if r.L4Proto != nil {
		s.L4Proto = r.L4Proto.String()
	}
	if r.TCPFlags != nil {
		s.TCPFlags = r.TCPFlags.String()
	}
	if r.Conntrack != nil {
		s.Conntrack = r.Conntrack.String()
	}
	if r.Description != nil {
		s.Description = *r.Description
	}
	return s
}

// String returns the form of the model.
func (s States) String() string {
	var names []string
	for class := conntrack.Invalid; class <= conntrack.Untracked; class++ {
		if s&(1<<class) != 0 {
			names = append(names, class.String())
		}
	}
	return strings.Join(names, ",")
}
