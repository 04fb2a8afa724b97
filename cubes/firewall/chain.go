// SPDX-License-Identifier: Apache-2.0

package firewall

// A chain of rules in effect, and the sets of rules that its packets are compared with.

import (
	"cmp"
	"slices"

	"github.com/polycube/polycube/classifier"
)

// rule is a rule in effect.
type rule struct {
	order   uint32
	is      RuleFields
	match   classifier.Match
	limit   *limit
	counter uint32
}

// newRule checks a rule of a chain.
func newRule(r *Rule, d Direction, x *interfaces) (*rule, error) {
	match, err := r.match(d, x)
	if err != nil {
		return nil, err
	}
	limit, err := r.limit()
	if err != nil {
		return nil, err
	}
	return &rule{order: r.ID, is: r.RuleFields, match: match, limit: limit}, nil
}

// The bits of a result: ACTION, LIMITED, EGRESS and COUNTER_SHIFT in C.
const (
	limited      = 4
	egressShift  = 3
	counterShift = 4
)

// resultOf is what the program gets for an action in a chain.
func resultOf(a Action, d Direction, counter uint32) uint32 {
	return uint32(a) | uint32(d)<<egressShift | counter<<counterShift
}

// result is what the program gets for the rule in a chain. For a LOG rule, only the counter counts.
func (r *rule) result(d Direction) uint32 {
	action := *r.is.Action
	if action == Log {
		action = Drop
	}
	result := resultOf(action, d, r.counter)
	if r.limit != nil {
		result |= limited
	}
	return result
}

// The sets of a chain, in the order of the program.
const (
	setRules = iota
	setLog
	setNamed
	setNamedLog
	sets
)

// in returns the rule's form in a set, for a configuration; nil if it is not there.
func (r *rule) in(set int, c *Config) *classifier.Rule {
	if (*r.is.Action == Log) != (set == setLog || set == setNamedLog) {
		return nil
	}
	family, ip := r.is.family()
	out := &classifier.Rule{Match: r.match}
	switch set {
	case setNamed, setNamedLog:
		if ip && !r.is.isNeighbourDiscovery() && (family == NoFamily || c.covers(family)) {
			return nil
		}
		out.Match = r.is.withState(out.Match)
	default:
		if !ip {
			return nil
		}
		if r.is.Conntrack != nil {
			out.Match.State(0, uint8(^*r.is.Conntrack))
		}
	}
	return out
}

// chain contains the rules of a chain by order. It is not changed: a change makes another one.
type chain []*rule

// at returns the rule with an order, or nil, and its position.
func (c chain) at(order uint32) (*rule, int) {
	i, ok := slices.BinarySearchFunc(c, order, func(r *rule, order uint32) int { return cmp.Compare(r.order, order) })
	if !ok {
		return nil, i
	}
	return c[i], i
}

// with returns the chain without some orders, and with some rules, which are sorted.
func (c chain) with(gone map[uint32]bool, fresh []*rule) chain {
	out := make(chain, 0, len(c)+len(fresh))
	for _, r := range c {
		for len(fresh) > 0 && fresh[0].order < r.order {
			out, fresh = append(out, fresh[0]), fresh[1:]
		}
		if !gone[r.order] {
			out = append(out, r)
		}
	}
	return append(out, fresh...)
}

// namesInterfaces returns 1 if a rule of the chain names an interface.
func (c chain) namesInterfaces() uint32 {
	for _, r := range c {
		if len(r.is.interfaces()) > 0 {
			return 1
		}
	}
	return 0
}

// logs returns 1 if the chain has LOG rules.
func (c chain) logs() uint32 {
	for _, r := range c {
		if *r.is.Action == Log {
			return 1
		}
	}
	return 0
}
