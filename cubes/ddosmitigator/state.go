// SPDX-License-Identifier: Apache-2.0

package ddosmitigator

// State: counters, and times that are left.

import (
	"context"

	"github.com/polycube/polycube/cube"
)

// state has the structure of the model.
type state struct {
	Stats        *stats       `json:"stats,omitempty"`
	BlacklistSrc []entryState `json:"blacklist-src,omitempty"`
	BlacklistDst []entryState `json:"blacklist-dst,omitempty"`
	Allow        []entryState `json:"allow,omitempty"`
	Detected     []suspectOf  `json:"detected,omitempty"`
}

type stats struct {
	PPS       uint64 `json:"pps"`
	Pkts      uint64 `json:"pkts"`
	Bytes     uint64 `json:"bytes"`
	NotListed uint64 `json:"not-listed"`
}

// entryState is the state of an entry of a list.
type entryState struct {
	IP        string  `json:"ip"`
	TimeLeft  *uint32 `json:"time-left,omitempty"`
	DropPkts  *uint64 `json:"drop-pkts,omitempty"`
	DropBytes *uint64 `json:"drop-bytes,omitempty"`
}

// whole is how many entries have their counters in an answer about the whole cube, which monitoring may request often.
const whole = 10_000

func (m *mitigator) state(_ context.Context, path []string) (any, error) {
	wanted := func(name string) bool { return len(path) == 0 || path[0] == name }
	var s state
	if wanted("stats") {
		n, err := m.total()
		if err != nil {
			return nil, err
		}
		notListed, err := m.counters.Sum("not-listed")
		if err != nil {
			return nil, err
		}
		s.Stats = &stats{m.sample.pps, n.Packets, n.Bytes, notListed}
	}
	if wanted("detected") {
		var err error
		if s.Detected, err = m.detected.list(); err != nil {
			return nil, err
		}
	}
	for list, into := range map[int]*[]entryState{source: &s.BlacklistSrc, destination: &s.BlacklistDst, allow: &s.Allow} {
		if !wanted(listNames[list]) || len(path) == 0 && m.lists.total() > whole {
			continue
		}
		var err error
		if *into, err = m.lists.state(list, path); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// state returns the state of the entries of a list, or of the one that the path has the key of.
func (p *prefixes) state(list int, path []string) ([]entryState, error) {
	now, err := cube.TimeCoarse()
	if err != nil {
		return nil, err
	}
	if len(path) > 1 {
		return p.stateOf(list, path[1], now)
	}
	all := make([]entryState, 0, p.count[list])
	for key, e := range p.entries.All(&err) {
		if e.Lists&(1<<list) != 0 {
			all = append(all, e.state(key.address(), list, now))
		}
	}
	return all, err
}

// stateOf returns the state of the entry with a key, if there is one.
func (p *prefixes) stateOf(list int, ip string, now uint64) ([]entryState, error) {
	var a Address
	if err := a.UnmarshalText([]byte(ip)); err != nil {
		return nil, err
	}
	e, ok, err := p.entries.Get(prefixOf(a.Prefix))
	if err != nil || !ok || e.Lists&(1<<list) == 0 {
		return nil, err
	}
	return []entryState{e.state(a, list, now)}, nil
}

// state returns the state of an entry in a list.
func (e *entry) state(a Address, list int, now uint64) entryState {
	s := entryState{IP: a.String()}
	if list < ends {
		s.DropPkts, s.DropBytes = &e.Drops[list].Packets, &e.Drops[list].Bytes
	}
	if at := e.Expires[list]; at != 0 {
		left := uint32(0)
		if at > now {
			left = seconds(at, now)
		}
		s.TimeLeft = &left
	}
	return s
}
