// SPDX-License-Identifier: Apache-2.0

package efw

// State: the gate, the checks, the report, and the chains with their total counters.

import (
	"context"
	"time"
)

// state has the structure of the model.
type state struct {
	Status      *status           `json:"status,omitempty"`
	ToStack     map[string]uint64 `json:"to-stack,omitempty"`
	Environment []checkState      `json:"environment,omitempty"`
	Report      []lineState       `json:"report,omitempty"`
	Chain       []ruleState       `json:"chain,omitempty"`
	Listing     []listingState    `json:"listing,omitempty"`
	Port        []portState       `json:"port,omitempty"`
	Subnet      []netState        `json:"subnet,omitempty"`
}

type status struct {
	Gate           string `json:"gate"`
	Generation     uint64 `json:"generation"`
	Changes        uint64 `json:"changes"`
	LastChange     string `json:"last-change,omitempty"`
	LastCompile    uint64 `json:"last-compile"`
	LastWithdrawal uint64 `json:"last-withdrawal"`
	Error          string `json:"error,omitempty"`
}

type checkState struct {
	Family string `json:"family"`
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

type lineState struct {
	Family    string `json:"family"`
	Hook      string `json:"hook"`
	Chain     string `json:"chain"`
	Number    int    `json:"number"`
	Text      string `json:"text"`
	Offloaded string `json:"offloaded"`
	Reason    string `json:"reason,omitempty"`
	Packets   uint64 `json:"packets"`
	Bytes     uint64 `json:"bytes"`
}

type portState struct {
	Protocol  string    `json:"protocol"`
	Direction Direction `json:"direction"`
	Ports     any       `json:"ports"`
	Packets   uint64    `json:"packets"`
	Bytes     uint64    `json:"bytes"`
}

type netState struct {
	Direction Direction `json:"direction"`
	Prefix    string    `json:"prefix"`
	Packets   uint64    `json:"packets"`
	Bytes     uint64    `json:"bytes"`
}

func (e *efw) state(ctx context.Context, path []string) (any, error) {
	wanted := func(name string) bool { return len(path) == 0 || path[0] == name }
	var s state
	if wanted("status") {
		s.Status = e.status()
	}
	if wanted("to-stack") {
		var err error
		if s.ToStack, err = e.way.State(); err != nil {
			return nil, err
		}
	}
	if wanted("port") || wanted("subnet") {
		if err := e.matcherState(&s); err != nil {
			return nil, err
		}
	}
	if e.rules.is == nil {
		return s, nil
	}
	if wanted("environment") {
		for f, checks := range e.rules.is.checks {
			for _, c := range checks {
				s.Environment = append(s.Environment, checkState{familyNames[f], c.Name, c.OK, c.Detail})
			}
		}
	}
	if wanted("report") {
		var err error
		if s.Report, err = e.report(); err != nil {
			return nil, err
		}
	}
	if wanted("chain") && len(path) > 0 { // too slow for a request for the whole cube
		var err error
		if s.Chain, err = e.chains(ctx); err != nil {
			return nil, err
		}
	}
	if wanted("listing") && len(path) > 0 {
		var err error
		if s.Listing, err = e.listings(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (e *efw) status() *status {
	open, changes, err := e.gate.state()
	last, withdrew := e.watch.state()
	s := &status{
		Gate: map[bool]string{true: "OPEN", false: "CLOSED"}[open], Generation: e.rules.generation, Changes: changes,
		LastCompile: uint64(e.rules.took.Microseconds()), LastWithdrawal: uint64(withdrew.Microseconds()),
	}
	if !last.IsZero() {
		s.LastChange = last.UTC().Format(time.RFC3339)
	}
	if err != nil {
		s.Error = err.Error()
	}
	return s
}

func (e *efw) matcherState(s *state) error {
	var keys []string
	for _, p := range e.config.Port {
		keys = append(keys, p.key())
	}
	for _, n := range e.config.Subnet {
		keys = append(keys, n.key())
	}
	counts, err := e.matchers.counts(keys)
	if err != nil {
		return err
	}
	for _, p := range e.config.Port {
		n := counts[p.key()]
		is := portState{p.Protocol.String(), p.Direction, p.Ports.String(), n.Packets, n.Bytes}
		if p.Ports.First == p.Ports.Last {
			is.Ports = p.Ports.First
		}
		s.Port = append(s.Port, is)
	}
	for _, one := range e.config.Subnet {
		n := counts[one.key()]
		s.Subnet = append(s.Subnet, netState{one.Direction, one.Prefix.String(), n.Packets, n.Bytes})
	}
	return nil
}

// report lists the decisions on rules, with the fast path's counters.
func (e *efw) report() (out []lineState, err error) {
	for f := range families {
		for h, p := range e.rules.is.programs[f] {
			counts, err := e.rules.counted(f, h)
			if err != nil {
				return nil, err
			}
			for _, l := range p.Lines {
				n := counts[key(l.Rule)]
				out = append(out, lineState{familyNames[f], l.Hook, l.Chain, l.Number, l.Text, string(l.Offloaded), l.Reason, n.Packets, n.Bytes})
			}
		}
	}
	return out, nil
}
