// SPDX-License-Identifier: Apache-2.0

package nat

// State other than the sessions themselves.

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"

	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
)

// state has the structure of the model.
type state struct {
	Rule         *ruleState        `json:"rule,omitempty"`
	NattingTable []json.RawMessage `json:"natting-table,omitempty"`
	Sessions     *sessionState     `json:"sessions,omitempty"`
}

type ruleState struct {
	Snat           *entryStates     `json:"snat,omitempty"`
	Masquerade     *masqueradeState `json:"masquerade,omitempty"`
	Dnat           *entryStates     `json:"dnat,omitempty"`
	PortForwarding *entryStates     `json:"port-forwarding,omitempty"`
}

type entryStates struct {
	Entry []entryState `json:"entry,omitempty"`
}

// entryState shows an external address with its prefix length where it was given without.
type entryState struct {
	ID         uint32       `json:"id"`
	ExternalIP netip.Prefix `json:"external-ip"`
}

type masqueradeState struct {
	ExternalIP []netip.Addr `json:"external-ip,omitempty"`
}

type sessionState struct {
	Active     uint32 `json:"active"`
	TCP        uint32 `json:"tcp"`
	UDP        uint32 `json:"udp"`
	ICMP       uint32 `json:"icmp"`
	Other      uint32 `json:"other"`
	Mappings   uint32 `json:"mappings"`
	Created    uint64 `json:"created"`
	Exhausted  uint64 `json:"exhausted"`
	TableFull  uint64 `json:"table-full"`
	Collisions uint64 `json:"collisions"`
	Hairpinned uint64 `json:"hairpinned"`
	Fragments  uint64 `json:"fragments"`
	ICMPErrors uint64 `json:"icmp-errors"`
}

// State returns the counters and single sessions.
func (n *nat) State(_ context.Context, path []string) (any, error) {
	wanted := func(name string) bool { return len(path) == 0 || path[0] == name }
	var s state
	var err error
	if wanted("rule") {
		s.Rule = n.ruleState(path)
	}
	if wanted("sessions") {
		if s.Sessions, err = n.sessionState(); err != nil {
			return nil, err
		}
	}
	switch {
	case len(path) > 1 && path[0] == "natting-table":
		var one json.RawMessage
		if one, err = n.one(path[1:min(len(path), 6)]); one != nil {
			s.NattingTable = []json.RawMessage{one}
		}
	case len(path) == 0 && s.Sessions.Active <= shownWhole:
		s.NattingTable, err = n.few()
	}
	return s, err
}

// few returns the sessions if there are few.
func (n *nat) few() (all []json.RawMessage, err error) {
	q := cube.PageQuery{Limit: shownWhole + 1}
	for {
		page, err := n.Page(context.Background(), []string{"natting-table"}, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Entries...)
		if len(all) > shownWhole {
			return nil, nil // sessions were added since they were counted
		}
		if q.After = page.Next; q.After == "" {
			return all, nil
		}
	}
}

// ruleState adds state to the rules: the form of external addresses, and the addresses of masquerade.
func (n *nat) ruleState(path []string) *ruleState {
	var only *uint32
	if len(path) > 3 && path[2] == "entry" {
		if id, err := strconv.ParseUint(path[3], 10, 32); err == nil {
			number := uint32(id)
			only = &number
		}
	}
	wanted := func(name string) bool { return len(path) < 2 || path[1] == name }
	s := &ruleState{}
	if wanted(listSnat) {
		s.Snat = bare(n.rules.snat, only, func(e *SnatEntry) External { return e.ExternalIP })
	}
	if wanted("masquerade") {
		s.Masquerade = &masqueradeState{ExternalIP: n.masqueradeAddresses()}
	}
	if wanted(listDnat) {
		s.Dnat = bare(n.rules.dnat, only, func(e *DnatEntry) External { return e.ExternalIP })
	}
	if wanted(listForward) {
		s.PortForwarding = bare(n.rules.forward, only, func(e *ForwardEntry) External { return e.ExternalIP })
	}
	return s
}

// bare returns the entries whose external address was given without a prefix length.
func bare[E any](entries map[uint32]E, only *uint32, external func(E) External) *entryStates {
	s := &entryStates{}
	add := func(id uint32, e E) {
		if x := external(e); x.bare {
			s.Entry = append(s.Entry, entryState{id, x.Prefix})
		}
	}
	if only != nil {
		if e, ok := entries[*only]; ok {
			add(*only, e)
		}
		return s
	}
	for id, e := range entries {
		add(id, e)
	}
	slices.SortFunc(s.Entry, func(a, b entryState) int { return int(int64(a.ID) - int64(b.ID)) })
	return s
}

// masqueradeAddresses returns the addresses in use.
func (n *nat) masqueradeAddresses() []netip.Addr {
	var out []netip.Addr
	for _, net := range everything {
		if is, ok := n.installed[sourceKeyOf(net)]; ok && is.Origin == originMasquerade {
			out = append(out, is.First.Addr())
		}
	}
	return out
}

// counters are the counters of the program.
var counters = counter.Of(files, "nat_counter")

// created returns the counters of new sessions.
func (n *nat) created() (c [4]uint64, err error) {
	for i, name := range []string{"created-tcp", "created-udp", "created-icmp", "created-other"} {
		if c[i], err = n.tables.counters.Sum(name); err != nil {
			return c, err
		}
	}
	return c, nil
}

// sessionState returns the counts of the last sweep plus the sessions created since.
func (n *nat) sessionState() (*sessionState, error) {
	s := &sessionState{}
	for name, into := range map[string]*uint64{"exhausted": &s.Exhausted, "table-full": &s.TableFull, "collisions": &s.Collisions,
		"hairpinned": &s.Hairpinned, "fragments": &s.Fragments, "icmp-errors": &s.ICMPErrors} {
		var err error
		if *into, err = n.tables.counters.Sum(name); err != nil {
			return nil, err
		}
	}
	created, err := n.created()
	if err != nil {
		return nil, err
	}
	all, err := n.group.created()
	if err != nil {
		return nil, err
	}
	var last pass
	if n.sweep.last != nil {
		last = *n.sweep.last
	} else {
		last.created = all // no sweep has finished yet
	}
	for i, into := range []*uint32{&s.TCP, &s.UDP, &s.ICMP, &s.Other} {
		*into = last.sessions[i] + uint32(all[i]-last.created[i])
		s.Active += *into
		s.Created += created[i]
	}
	s.Mappings = last.mappings
	return s, nil
}
