// SPDX-License-Identifier: Apache-2.0

package iptables

// A chain of rules in effect.

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/iptables/language"
)

// rule is a rule in effect. It is not changed once it has its counter: one that says something else is another rule.
type rule struct {
	id      uint32 // the framework's; in other tables than filter the place
	kept    uint32 // under which its counter is kept
	order   uint32 // in the search: that of the chain and the place there
	is      language.Rule
	text    string
	forms   compiled
	counter uint32
	sets    []uint32 // numbers of the sets that its tests are about
}

// newRule checks a rule of a chain.
func newRule(r *Rule, k key, plain func(set string) bool) (*rule, error) {
	is, err := r.read(k)
	if err != nil {
		return nil, err
	}
	forms, err := compile(&is, plain)
	if err != nil {
		return nil, err
	}
	return &rule{id: r.ID, kept: r.ID, is: is, text: is.String(), forms: forms}, nil
}

// result is what the program gets for the rule.
func (r *rule) result() uint32 {
	result := uint32(r.forms.verb) | r.counter<<counterShift
	if r.forms.row != nil {
		result |= hasRow
	}
	return result
}

// asksForNAT reports whether the rule has a condition about what the cube nat does.
func (r *rule) asksForNAT() bool {
	row := r.forms.row
	return row != nil && slices.ContainsFunc(row.Test[:row.Tests], func(t test) bool { return t.Kind == testState })
}

// The bits of a result: IPTABLES_HAS_ROW and IPTABLES_COUNTER_SHIFT in C.
const (
	hasRow       = 16
	counterShift = 5
)

// chainName is the name of a chain in its table.
type chainName struct{ table, name string }

// key is the name of a chain, and the position of its family.
type key struct {
	set int
	chainName
}

// filterKey is the key of a chain of the table filter.
func filterKey(set int, name string) key { return key{set, chainName{filter, name}} }

// sibling is the key of another chain of the same table.
func (k key) sibling(name string) key { return key{k.set, chainName{k.table, name}} }

func (k key) String() string {
	if k.table == filter {
		return listNames[k.set] + " " + k.name
	}
	return fmt.Sprintf("table %s %s: chain %s", familyNames[k.set], k.table, k.name)
}

// builtIn returns the position of the chain among those that always exist, or -1.
func (k key) builtIn() int { return slices.Index(builtIn[:], k.chainName) }

// chain is a chain of rules. A change makes another one.
type chain struct {
	key
	number   uint32
	drops    bool // the policy is DROP
	rules    []*rule
	counters *counter.Rules
	policy   uint32 // counter; of the chains that are built in
}

// policyID is the id of the policy's counter: no rule has such an order.
const policyID = 1 << 31

// at returns the rule with an id of the framework, or nil, and its position.
func (c *chain) at(id uint32) (*rule, int) {
	i, ok := slices.BinarySearchFunc(c.rules, id, func(r *rule, id uint32) int { return cmp.Compare(r.id, id) })
	if !ok {
		return nil, i
	}
	return c.rules[i], i
}

// counterIndexes returns the counters of the rules, then that of the policy.
func (c *chain) counterIndexes() []uint32 {
	out := make([]uint32, 0, len(c.rules)+1)
	for _, r := range c.rules {
		out = append(out, r.counter)
	}
	if c.builtIn() >= 0 {
		out = append(out, c.policy)
	}
	return out
}

// The order of a rule in the search consists of the number of its chain and its place: CHAIN_SHIFT in C.
const (
	chainShift = 20
	places     = 1 << chainShift
	maxChains  = 1 << (32 - chainShift)
	// spacing is the distance of places, in which other rules can be inserted.
	spacing = 16
)

// spread gives all rules orders at equal distances.
func (c *chain) spread() {
	step := uint32(min(spacing, (places-1)/(len(c.rules)+1)))
	first := (places - step*uint32(len(c.rules)-1)) / 2
	for i, r := range c.rules {
		r.order = c.number<<chainShift | (first + uint32(i)*step)
	}
}

// fit gives new rules orders between those of their neighbours; false if there is no room.
func (c *chain) fit(was map[*rule]bool) bool {
	base := c.number << chainShift
	for i := 0; i < len(c.rules); {
		if was[c.rules[i]] {
			i++
			continue
		}
		end := i
		for end < len(c.rules) && !was[c.rules[end]] {
			end++
		}
		low, high := int64(-1), int64(places)
		if i > 0 {
			low = int64(c.rules[i-1].order - base)
		}
		if end < len(c.rules) {
			high = int64(c.rules[end].order - base)
		}
		first, step := between(low, high, int64(end-i))
		if step == 0 {
			return false
		}
		for n := i; n < end; n++ {
			c.rules[n].order = base | uint32(first+int64(n-i)*step)
		}
		i = end
	}
	return true
}

// between returns n places between two others: the first, and their distance, which is 0 if there is no room.
func between(low, high, n int64) (first, step int64) {
	step = min(spacing, (high-low)/(n+1))
	switch {
	case step == 0:
		return 0, 0
	case low < 0 && high == places:
		return (places - step*(n-1)) / 2, step
	case low < 0:
		return high - step*n, step
	}
	return low + step, step
}
