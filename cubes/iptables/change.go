// SPDX-License-Identifier: Apache-2.0

package iptables

// A change: checked, then carried out as a whole.

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// change is a prepared change.
type change struct {
	f       *iptables
	created bool
	config  *Config   // afterwards
	raw     rawChains // afterwards
	asks    bool      // for what the cube nat does, afterwards
	entries map[key][]cube.Changed[Rule]

	chains map[key]*chain   // afterwards
	fresh  map[*rule]*chain // that need counters
	gone   []*rule          // that are no more
	empty  []*chain         // the same
	edits  [len(families)]map[uint32]*classifier.Rule
	to     map[*rule]*classifier.Rule
	plans  []cube.Plan // of the classifier
	undone cube.Undo
}

// newChange checks a change of the configuration, if there is one, and of rules.
func (f *iptables) newChange(c cube.ChangeOf[Config]) (*change, error) {
	n := &change{f: f, created: c.Created(), config: cmp.Or(c.New, f.config), entries: map[key][]cube.Changed[Rule]{}}
	rules, err := cube.DecodeEntries[Rule](c.Entries)
	if err != nil {
		return nil, err
	}
	for i, r := range rules {
		k := filterKey(slices.Index(listNames[:], c.Entries[i].List[0]), r.Above[0])
		n.entries[k] = append(n.entries[k], r)
	}
	if n.raw = f.raw; c.New != nil {
		if err := n.readRaw(); err != nil {
			return nil, err
		}
	}
	if err := n.build(f.chainNumbers()); err != nil {
		return nil, err
	}
	n.asks = f.asks
	for r := range n.fresh {
		n.asks = n.asks || r.asksForNAT()
	}
	return n, nil
}

// build computes the chains after the change, given the numbers of those that there are.
func (n *change) build(numbers map[key]uint32) error {
	n.chains, n.fresh, n.to = map[key]*chain{}, map[*rule]*chain{}, map[*rule]*classifier.Rule{}
	n.gone, n.empty, n.plans = nil, nil, nil
	for set := range n.edits {
		n.edits[set] = map[uint32]*classifier.Rule{}
	}
	if err := n.name(numbers); err != nil {
		return err
	}
	for k, c := range n.f.chains {
		if n.chains[k] == nil {
			n.empty = append(n.empty, c)
			for _, r := range c.rules {
				n.remove(c, r)
			}
		}
	}
	for k, entries := range n.entries {
		if c := n.chains[k]; c != nil {
			if err := n.buildChain(c, entries); err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
		}
	}
	if err := n.checkJumps(); err != nil {
		return err
	}
	return n.prepareSets()
}

// name makes the chains that there are after the change, with numbers.
func (n *change) name(numbers map[key]uint32) error {
	used := map[uint32]bool{}
	for _, number := range numbers {
		used[number] = true
	}
	add := func(k key, drops bool) error {
		c := &chain{key: k, drops: drops}
		if was := n.f.chains[k]; was != nil {
			*c = *was
			c.drops = drops
		} else if c.number = numbers[k]; c.number == 0 {
			for c.number = 1; used[c.number]; {
				c.number++
			}
			if c.number >= maxChains {
				return fmt.Errorf("%s: there may be %d chains: %w", k, maxChains-1, cube.ErrFull)
			}
			used[c.number] = true
		}
		n.chains[k] = c
		return nil
	}
	for set := range families {
		for _, name := range builtIn {
			if err := add(key{set, name}, false); err != nil {
				return err
			}
		}
		for _, c := range n.config.chainsOf(set) {
			k := filterKey(set, c.Name)
			if c.Default == "DROP" && k.builtIn() < 0 {
				return fmt.Errorf("%s: only INPUT, FORWARD and OUTPUT have the default DROP: %w", k, cube.ErrInvalid)
			}
			if err := add(k, c.Default == "DROP"); err != nil {
				return err
			}
		}
		for _, c := range n.raw[set] {
			if err := add(key{set, chainName{raw, c.Name}}, c.Policy == "DROP"); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove takes a rule out of the search.
func (n *change) remove(c *chain, r *rule) {
	n.gone = append(n.gone, r)
	n.edits[c.set][r.order] = nil
}

// buildChain computes a chain after changes of its rules.
func (n *change) buildChain(c *chain, entries []cube.Changed[Rule]) error {
	was := &chain{rules: c.rules}
	gone, there := map[uint32]bool{}, map[*rule]bool{}
	var fresh []*rule
	for _, e := range entries {
		var old *rule
		if e.Old != nil {
			old, _ = was.at(e.Old.ID)
			gone[e.Old.ID] = true
		}
		if e.New == nil {
			n.remove(c, old)
			continue
		}
		r, err := newRule(e.New, c.key, n.f.plain)
		if err != nil {
			return fmt.Errorf("rule %d: %w", position(was, entries, e.New.ID), err)
		}
		if old != nil && old.text == r.text {
			is := *old
			is.id, is.kept = r.id, r.kept
			r = &is
			there[r] = true
		} else {
			n.fresh[r] = c
			if old != nil {
				n.remove(c, old)
			}
		}
		fresh = append(fresh, r)
	}
	for _, r := range was.rules {
		if !gone[r.id] {
			fresh = append(fresh, r)
			there[r] = true
		}
	}
	slices.SortFunc(fresh, func(a, b *rule) int { return cmp.Compare(a.id, b.id) })
	c.rules = fresh
	if c.table == raw {
		n.keep(c, there)
	}
	return n.place(c, there)
}

// place gives rules their orders, and notes the changes of the search. Those that were there keep theirs, if there is room.
func (n *change) place(c *chain, there map[*rule]bool) error {
	if len(c.rules) >= places {
		return fmt.Errorf("a chain has up to %d rules: %w", places-1, cube.ErrFull)
	}
	if !c.fit(there) {
		was := c.rules
		c.rules = make([]*rule, len(was))
		for i, r := range was {
			is := *r
			c.rules[i] = &is
			if there[r] {
				n.edits[c.set][r.order] = nil
			} else {
				delete(n.fresh, r)
				n.fresh[&is] = c
			}
		}
		c.spread()
		there = nil
	}
	for _, r := range c.rules {
		if !there[r] {
			n.edits[c.set][r.order] = n.searched(r)
		}
	}
	return nil
}

// searched returns the rule's form in the search.
func (n *change) searched(r *rule) *classifier.Rule {
	s := &classifier.Rule{Match: r.forms.match}
	n.to[r] = s
	return s
}

// position returns where a rule is after the change.
func position(was *chain, entries []cube.Changed[Rule], id uint32) int {
	_, at := was.at(id)
	for _, e := range entries {
		if e.Old != nil && e.Old.ID < id {
			at--
		}
		if e.New != nil && e.New.ID < id {
			at++
		}
	}
	return at
}

// prepareSets prepares the changes of the search.
func (n *change) prepareSets() error {
	for set, edits := range n.edits {
		if len(edits) == 0 && !n.created {
			continue
		}
		changes := make([]classifier.Change, 0, len(edits))
		for order, r := range edits {
			changes = append(changes, classifier.Change{Order: order, Rule: r})
		}
		plan, err := n.f.sets[set].Prepare(changes)
		if err != nil {
			return err
		}
		n.plans = append(n.plans, plan)
	}
	return nil
}

// commit gives rules their counters and rows, then has packets see the rules.
func (n *change) commit() (undo func() error, err error) {
	f := n.f
	if err := n.adopt(); err != nil {
		return nil, err
	}
	if err := n.carry(); err != nil {
		return nil, errors.Join(err, n.undone.Run())
	}
	config, chains, rawWas, asked := f.config, f.chains, f.raw, f.asks
	f.config, f.chains, f.raw, f.asks = n.config, n.chains, n.raw, n.asks
	for _, c := range n.empty {
		f.leaving[c] = true
	}
	n.undone.Push(func() error {
		f.config, f.chains, f.raw, f.asks = config, chains, rawWas, asked
		for _, c := range n.empty {
			delete(f.leaving, c)
		}
		return nil
	})
	return n.undone.Run, nil
}

// adopt takes over the numbers that an earlier daemon has given to chains, since packets use them.
func (n *change) adopt() error {
	if !n.created {
		return nil
	}
	numbers, err := n.f.kept()
	if err != nil || len(numbers) == 0 {
		return err
	}
	return n.build(numbers)
}

func (n *change) carry() error {
	if err := n.openChains(); err != nil {
		return err
	}
	if err := n.count(); err != nil {
		return err
	}
	for r, to := range n.to {
		to.SetResult(r.result())
	}
	for r, c := range n.fresh {
		if r.forms.row == nil {
			continue
		}
		is := *r.forms.row
		if r.forms.jump != "" {
			is.Chain = n.chains[c.sibling(r.forms.jump)].number
		}
		if err := errors.Join(n.refer(r, &is), n.f.numberGroups(r.counter, &is)); err != nil {
			return err
		}
		steps := []cube.Step{table.Put(n.f.rows, r.counter, is)}
		for i, t := range is.Test[:is.Tests] {
			if t.Kind.counts() {
				steps = append(steps, n.f.keep(counted{r.counter, uint32(i)}))
			}
		}
		if err := cube.Carry(steps, &n.undone); err != nil {
			return err
		}
	}
	for _, plan := range n.plans {
		if err := cube.Carry(plan.Before, &n.undone); err != nil {
			return err
		}
	}
	return cube.Carry(n.hooks(), &n.undone)
}

// openChains opens the counters of new chains, and records their numbers.
func (n *change) openChains() error {
	for k, c := range n.chains {
		if c.counters != nil {
			continue
		}
		c.counters = counter.NewRules(n.f.env, c.number)
		if err := c.counters.Open(); err != nil {
			return err
		}
		n.undone.Push(c.counters.Close)
		if err := cube.Carry([]cube.Step{table.Put(n.f.names, c.number, numberedOf(k))}, &n.undone); err != nil {
			return err
		}
		if k.builtIn() < 0 {
			continue
		}
		index, undo, err := c.counters.Take([]uint32{policyID})
		if err != nil {
			return err
		}
		n.undone.Push(undo)
		c.policy = index[0]
	}
	return nil
}

// count gives new rules their counters.
func (n *change) count() error {
	of := map[*chain][]*rule{}
	for r, c := range n.fresh {
		of[c] = append(of[c], r)
	}
	for c, rules := range of {
		ids := make([]uint32, len(rules))
		for i, r := range rules {
			ids[i] = r.kept
		}
		indexes, undo, err := c.counters.Take(ids)
		if err != nil {
			return err
		}
		n.undone.Push(undo)
		for i, r := range rules {
			r.counter = indexes[i]
		}
	}
	moved := map[*chain][]counter.Renamed{}
	for k, c := range n.chains {
		was := n.f.chains[k]
		if was == nil || len(n.entries[k]) == 0 {
			continue
		}
		before := map[uint32]uint32{}
		for _, r := range was.rules {
			before[r.counter] = r.kept
		}
		for _, r := range c.rules {
			if id, ok := before[r.counter]; ok && id != r.kept {
				moved[c] = append(moved[c], counter.Renamed{Index: r.counter, From: id, To: r.kept})
			}
		}
	}
	for c, rules := range moved {
		n.undone.Push(c.counters.Rename(rules))
	}
	return nil
}

// hooks are the steps that set the first chains and the policies.
func (n *change) hooks() (steps []cube.Step) {
	for set := range families {
		for i, name := range builtIn {
			c := n.chains[key{set, name}]
			policy := verbAccept
			if c.drops {
				policy = verbDrop
			}
			at := uint32(set*len(builtIn) + i)
			steps = append(steps, table.Put(n.f.hooks, at, hook{c.number, uint32(policy) | c.policy<<counterShift}))
		}
	}
	return steps
}
