// SPDX-License-Identifier: Apache-2.0

package offload

// What one rule becomes.

import (
	"fmt"
	"slices"

	"github.com/polycube/polycube/iptables/language"
)

// alternative is one of the rules that a rule is.
type alternative struct {
	conditions
	verb Verb
	to   place
}

// alternatives returns those that packets may match, and why the stack has to judge these packets, if not empty.
func (c *compiler) alternatives(r *Rule) (out []alternative, why string) {
	why = r.Why
	all := r.Is
	if why != "" && all == nil {
		all = []language.Rule{{}}
	}
	for i := range all {
		a := alternative{conditions: c.s.conditionsOf(c.hook, &all[i])}
		if a.never {
			continue
		}
		a.verb, a.to = c.target(all[i].Target)
		switch {
		case why != "":
		case a.left != "":
			why = fmt.Sprintf("the fast path cannot evaluate %s", a.left)
		case a.verb == Miss:
			why = fmt.Sprintf("only the stack can apply target %s", all[i].Target.Name())
		}
		out = append(out, a)
	}
	return out, why
}

// rule compiles a rule.
func (c *compiler) rule(r *Rule, number int, line *Line, b *barrier) {
	all, why := c.alternatives(r)
	line.Offloaded = Yes
	switch {
	case len(all) == 0:
		line.Reason = "no packet of this netdev and hook can match it"
		return
	case why != "":
		line.Offloaded, line.Reason = No, why
	case b.first != 0:
		line.Offloaded, line.Reason = Partly, b.reason()
	case slices.ContainsFunc(all, func(a alternative) bool { return a.state }):
		line.Offloaded, line.Reason = Partly, c.s.stateKnown()
	case c.s.OnlyEstablished && slices.ContainsFunc(all, func(a alternative) bool { return a.verb == Accept }) && c.refusal(Accept) == "":
		line.Offloaded, line.Reason = Partly, onlyEstablished
	}
	refused := 0
	for _, a := range all {
		e := Entry{Match: a.match, Verb: a.verb, Rule: line.Rule}
		refusal := c.refusal(a.verb)
		switch {
		case why != "":
			c.emit(Entry{Match: a.match}, a.conditions, number, b)
			continue
		case refusal != "":
			line.Offloaded, line.Reason = Partly, refusal
			if refused++; refused == len(all) {
				line.Offloaded = No
			}
			// Matching packets traverse no further rule, so later rules lose nothing, unless the state of the packet is unknown.
			to := b
			if !a.state {
				to = &barrier{}
			}
			c.emit(Entry{Match: a.match, Verb: c.refused(a.verb)}, a.conditions, number, to)
			continue
		case a.verb == Count && r.Uncounted: // it does nothing
			continue
		case a.verb == Jump || a.verb == Goto:
			e.To = c.number(a.to)
			c.lead(a.to)
		}
		c.emit(e, a.conditions, number, b)
	}
}

// onlyEstablished is the reason why accepting rules are only partly offloaded.
const onlyEstablished = "new connections are accepted by the stack, which creates an entry for them"

// stateKnown says for which packets rules about the state of connections are carried out.
func (s *Setting) stateKnown() string {
	if s.OnlyEstablished {
		return "only for packets whose state is known: those that open a connection, and those of established UDP connections"
	}
	return "only for packets that open a connection"
}

// emit adds the entries of a rule. A rule that matches a connection state is a barrier for packets of unknown state, and ignores
// those of a known state that it does not match.
func (c *compiler) emit(e Entry, is conditions, number int, b *barrier) {
	if !is.state || is.states == known && e.Verb == Miss { // the same for packets of any state
		if e.Verb == Miss {
			b.add(number, e.Match)
		}
		c.add(e)
		return
	}
	unknown := Entry{Match: e.Match}
	unknown.State(0, known)
	b.add(number, unknown.Match)
	c.add(unknown)
	for _, state := range []uint8{StateNew, StateEstablished} {
		if is.states&state == 0 {
			continue
		}
		of := e
		of.State(state, state)
		if of.Verb == Miss {
			b.add(number, of.Match)
		}
		c.add(of)
	}
}

// target returns what the program does with packets that a rule matches.
func (c *compiler) target(t language.Target) (v Verb, to place) {
	base := &c.bases[c.at.base]
	switch t := t.(type) {
	case nil:
		return Count, place{}
	case language.Verdict:
		switch t {
		case "ACCEPT":
			return c.accept()
		case "DROP":
			return Drop, place{}
		case "RETURN":
			if c.several() && c.isBase() {
				return c.known(Goto, place{c.at.base, base.Chain, end})
			}
			return Return, place{}
		}
	case language.Jump:
		if base.Table.chain(t.Chain) == nil {
			return Miss, place{}
		}
		to := place{c.at.base, t.Chain, itself}
		switch {
		case !t.Goto:
			return c.known(Jump, to)
		case c.several() && c.isBase():
			to.way = inner
		}
		return c.known(Goto, to)
	}
	return Miss, place{}
}

// known returns Miss if there are too many chains.
func (c *compiler) known(v Verb, to place) (Verb, place) {
	needs := []place{to}
	if to.way == inner {
		needs = append(needs, place{to.base, to.chain, itself}, place{to.base, c.bases[to.base].Chain, end})
	}
	for _, p := range needs {
		if c.number(p) == 0 {
			return Miss, place{}
		}
	}
	return v, to
}

// unreached reports the rules of chains that no entry leads to.
func (c *compiler) unreached() {
	for i := range c.bases {
		base := &c.bases[i]
		for n := range base.Table.Chains {
			is := &base.Table.Chains[n]
			if is.Policy != "-" && is.Name != base.Chain || slices.ContainsFunc(c.led, func(p place) bool { return p.chain == is.Name && p.way == itself }) {
				continue
			}
			nth := map[string]int{}
			for n := range is.Rules {
				l := c.line(base.Table, is, n, nth)
				l.Offloaded, l.Reason = No, "no offloaded rule leads to the chain"
				c.report(l)
			}
			if is.Policy != "-" {
				c.report(Line{
					Hook: c.hook, Chain: is.Name, Text: "policy " + is.Policy, Rule: ID{is.Name, PolicyText, 0}, Offloaded: No,
					Reason: "no offloaded rule leads to the chain", Uncounted: is.Uncounted, Both: base.Table.Both, Packets: is.Packets, Bytes: is.Bytes,
				})
			}
		}
	}
}
