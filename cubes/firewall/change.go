// SPDX-License-Identifier: Apache-2.0

package firewall

// A change: checked, then carried out as a whole.

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// defaultID is the id of the counter of a chain's default: no rule has such an order.
const defaultID = 1 << 31

// change is a prepared change.
type change struct {
	f       *firewall
	created bool
	was     *Config // nil before the first change
	config  *Config // afterwards
	chains  [directions]chainChange
	plans   []cube.Plan // of the classifier
	results []result
	undone  cube.Undo
}

// result is a rule of the classifier, which gets the result of a rule once that has a counter.
type result struct {
	of *rule
	in Direction
	to *classifier.Rule
}

// chainChange is the change of a chain.
type chainChange struct {
	next    chain
	fresh   []*rule         // added, changed and moved rules, by order
	was     map[*rule]*rule // what fresh ones were before
	gone    map[uint32]bool // orders of removed rules, and of those that fresh ones were before
	removed []*rule
}

// newChange checks a change of the configuration, if there is one, and of rules.
func (f *firewall) newChange(c cube.ChangeOf[Config]) (*change, error) {
	n := &change{f: f, created: c.Created(), was: f.config, config: f.config}
	if c.New != nil {
		n.config = c.New
	}
	rules, err := cube.DecodeEntries[Rule](c.Entries)
	if err != nil {
		return nil, err
	}
	var of [directions][]cube.Changed[Rule]
	for _, r := range rules {
		var d Direction
		if err := d.UnmarshalText([]byte(r.Above[0])); err != nil {
			return nil, err
		}
		of[d] = append(of[d], r)
	}
	for d := range directions {
		if err := n.chains[d].prepare(f.chains[d], of[d], d, f.interfaces); err != nil {
			return nil, fmt.Errorf("chain %s: %w", d, err)
		}
		if err := n.prepareSets(d); err != nil {
			return nil, fmt.Errorf("chain %s: %w", d, err)
		}
	}
	return n, nil
}

// prepare computes the chain after changes of its rules.
func (c *chainChange) prepare(is chain, changes []cube.Changed[Rule], d Direction, x *interfaces) error {
	c.was, c.gone, c.next = map[*rule]*rule{}, map[uint32]bool{}, is
	if len(changes) == 0 {
		return nil
	}
	for _, r := range changes {
		var was *rule
		if r.Old != nil {
			was, _ = is.at(r.Old.ID)
			c.gone[r.Old.ID] = true
		}
		if r.New == nil {
			c.removed = append(c.removed, was)
			continue
		}
		fresh, err := newRule(r.New, d, x)
		if err != nil {
			return c.failed(is, changes, r.New, err)
		}
		c.fresh = append(c.fresh, fresh)
		if was != nil {
			c.was[fresh] = was
		}
	}
	slices.SortFunc(c.fresh, func(a, b *rule) int { return cmp.Compare(a.order, b.order) })
	c.next = is.with(c.gone, c.fresh)
	return nil
}

// failed names the rule of an error by its position after the change.
func (c *chainChange) failed(is chain, changes []cube.Changed[Rule], at *Rule, err error) error {
	_, position := is.at(at.ID)
	for _, r := range changes {
		if r.Old != nil && r.Old.ID < at.ID {
			position--
		}
		if r.New != nil && r.New.ID < at.ID {
			position++
		}
	}
	return fmt.Errorf("rule %d: %w", position, err)
}

// prepareSets prepares the changes of the chain's sets.
func (n *change) prepareSets(d Direction) error {
	c, before := &n.chains[d], n.f.chains[d]
	named := n.was != nil && !slices.Equal(n.was.Families, n.config.Families)
	for set := range sets {
		orders := maps.Clone(c.gone)
		for _, r := range c.fresh {
			orders[r.order] = true
		}
		if named && set >= setNamed {
			for _, r := range c.next {
				orders[r.order] = true
			}
		}
		var edits []classifier.Change
		for order := range orders {
			was, _ := before.at(order)
			is, _ := c.next.at(order)
			edit := classifier.Change{Order: order}
			if is != nil {
				edit.Rule = is.in(set, n.config)
			}
			switch {
			case edit.Rule != nil:
				n.results = append(n.results, result{is, d, edit.Rule})
			case was == nil || was.in(set, n.was) == nil:
				continue
			}
			edits = append(edits, edit)
		}
		if len(edits) == 0 && !n.created {
			continue
		}
		plan, err := n.f.sets[d][set].Prepare(edits)
		if err != nil {
			return err
		}
		n.plans = append(n.plans, plan)
	}
	return nil
}

// commit gives rules their counters and limits, then has packets see the rules.
func (n *change) commit() (undo func() error, err error) {
	f := n.f
	if err := f.open(n.config); err != nil {
		return nil, err
	}
	if err := n.adopt(); err != nil {
		return nil, err
	}
	chains, defaults := f.chains, f.defaults
	n.undone.Push(func() error { f.config, f.chains, f.defaults = n.was, chains, defaults; return nil })
	for d := range directions {
		if err := n.commitChain(d); err != nil {
			return nil, errors.Join(err, n.undone.Run())
		}
	}
	undoInterfaces, err := f.interfaces.write()
	if err != nil {
		return nil, errors.Join(err, n.undone.Run())
	}
	n.undone.Push(undoInterfaces)
	for _, r := range n.results {
		r.to.SetResult(r.of.result(r.in))
	}
	for _, plan := range n.plans {
		if err := cube.Carry(plan.Before, &n.undone); err != nil {
			return nil, errors.Join(err, n.undone.Run())
		}
	}
	for d := range directions {
		f.chains[d] = n.chains[d].next
		state := chainState{resultOf(n.config.defaultOf(d), d, f.defaults[d]), f.chains[d].logs(), f.chains[d].namesInterfaces()}
		if err := cube.Carry([]cube.Step{table.Put(f.states, f.row(d), state)}, &n.undone); err != nil {
			return nil, errors.Join(err, n.undone.Run())
		}
	}
	f.config = n.config
	return n.undone.Run, nil
}

// adopt makes rules compare the numbers that an earlier daemon has given to interfaces: packets are compared with its rules
// until these are in use.
func (n *change) adopt() error {
	if !n.created {
		return nil
	}
	changed, err := n.f.interfaces.adopt()
	if err != nil || !changed {
		return err
	}
	n.plans, n.results = nil, nil
	for d := range directions {
		for _, r := range n.chains[d].next {
			if r.match, err = r.is.match(d, n.f.interfaces); err != nil {
				return err
			}
		}
		if err := n.prepareSets(d); err != nil {
			return err
		}
	}
	return nil
}

// commitChain gives the new rules of a chain their counters and limits.
func (n *change) commitChain(d Direction) error {
	f, c := n.f, &n.chains[d]
	if n.created {
		index, err := n.take(d, []uint32{defaultID})
		if err != nil {
			return err
		}
		f.defaults[d] = index[0]
	}
	var added []*rule
	var orders []uint32
	var moved []counter.Renamed
	for _, r := range c.fresh {
		was := c.was[r]
		if was == nil {
			added, orders = append(added, r), append(orders, r.order)
			continue
		}
		r.counter = was.counter
		if was.order != r.order {
			moved = append(moved, counter.Renamed{Index: was.counter, From: was.order, To: r.order})
		}
	}
	indexes, err := n.take(d, orders)
	if err != nil {
		return err
	}
	for i, r := range added {
		r.counter = indexes[i]
	}
	n.undone.Push(f.counters[d].Rename(moved))
	return n.limit(c.fresh)
}

// take takes counters of a chain.
func (n *change) take(d Direction, ids []uint32) ([]uint32, error) {
	indexes, undo, err := n.f.counters[d].Take(ids)
	if err != nil {
		return nil, err
	}
	n.undone.Push(undo)
	return indexes, nil
}

// limit sets the limits of rules. A rule that had one keeps its bucket, also after a restart.
func (n *change) limit(rules []*rule) error {
	f := n.f
	for _, r := range rules {
		if r.limit == nil {
			continue
		}
		steps := []cube.Step{table.Put(f.limits, r.counter, *r.limit)}
		_, has, err := f.buckets.Get(r.counter)
		if err != nil {
			return err
		}
		if !has {
			steps = append(steps, table.Put(f.buckets, r.counter, 0))
		}
		if err := cube.Carry(steps, &n.undone); err != nil {
			return err
		}
	}
	return nil
}

// free frees what removed rules had, once no packet sees them; and after a restart what rules had that are gone.
func (n *change) free() (undo func() error, err error) {
	f := n.f
	var errs []error
	for d := range directions {
		c := &n.chains[d]
		for _, r := range c.fresh {
			if was := c.was[r]; was != nil && was.limit != nil && r.limit == nil {
				errs = append(errs, f.unlimit(was.counter))
			}
		}
		freed := make([]uint32, 0, len(c.removed))
		for _, was := range c.removed {
			freed = append(freed, was.counter)
			if was.limit != nil {
				errs = append(errs, f.unlimit(was.counter))
			}
		}
		errs = append(errs, f.counters[d].Free(freed), f.counters[d].Abandon())
	}
	used := map[string]bool{}
	for d := range directions {
		f.chains[d].names(used)
	}
	errs = append(errs, f.interfaces.forget(used))
	return nil, errors.Join(errs...)
}

func (f *firewall) unlimit(counter uint32) error {
	_, err := f.limits.Delete(counter)
	_, bad := f.buckets.Delete(counter)
	return errors.Join(err, bad)
}
