// SPDX-License-Identifier: Apache-2.0

package efw

// A set of rules that packets are matched against, with their counters.

import (
	"errors"
	"hash/fnv"
	"slices"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/iptables/offload"
)

// matcherSet is EFW_MATCHERS. Those before it are of a hook and a family: EFW_SET.
const matcherSet = 4

// The parts of a result: EFW_COUNTER and EFW_CHAIN.
const (
	counterShift = 3
	chainShift   = 23
)

// verbOf are the verbs of matchers.
var verbOf = map[Action]offload.Verb{Allow: offload.Accept, Block: offload.Drop, Pass: offload.Return}

// entry is a rule of the search.
type entry struct {
	order uint32
	match classifier.Match
	verb  offload.Verb
	to    uint32
	// key names the counter; empty if there is none.
	key string
}

// ruleSet is a set of rules in effect.
type ruleSet struct {
	set      *classifier.Set
	counters *counter.Rules
	entries  map[uint32]entry
	indexes  map[string]uint32 // of counters, by their keys
	ids      map[uint32]string // under which counters are kept
}

func newRuleSet(env cube.Env, set *classifier.Set, number uint32) *ruleSet {
	return &ruleSet{
		set: set, counters: counter.NewRules(env, number), entries: map[uint32]entry{},
		indexes: map[string]uint32{}, ids: map[uint32]string{},
	}
}

// open opens the maps.
func (s *ruleSet) open() error { return s.counters.Open() }

// close releases the maps.
func (s *ruleSet) close() error { return errors.Join(s.set.Close(), s.counters.Close()) }

// setChange is a prepared change.
type setChange struct {
	s       *ruleSet
	entries map[uint32]entry
	rules   map[uint32]*classifier.Rule
	keys    map[string]bool // of all counters afterwards
	gone    []string
	freed   []uint32
	plan    cube.Plan
	undone  cube.Undo
}

// prepare checks a change to other entries. keys are those of counters that no entry has.
func (s *ruleSet) prepare(entries []entry, keys ...string) (*setChange, error) {
	c := &setChange{s: s, entries: map[uint32]entry{}, rules: map[uint32]*classifier.Rule{}, keys: map[string]bool{}}
	for _, key := range keys {
		c.keys[key] = true
	}
	var edits []classifier.Change
	for _, e := range entries {
		c.entries[e.order] = e
		if e.key != "" {
			c.keys[e.key] = true
		}
		if was, ok := s.entries[e.order]; ok && was == e {
			continue
		}
		c.rules[e.order] = &classifier.Rule{Match: e.match}
		edits = append(edits, classifier.Change{Order: e.order, Rule: c.rules[e.order]})
	}
	for order := range s.entries {
		if _, ok := c.entries[order]; !ok {
			edits = append(edits, classifier.Change{Order: order})
		}
	}
	for key := range s.indexes {
		if !c.keys[key] {
			c.gone = append(c.gone, key)
		}
	}
	var err error
	c.plan, err = s.set.Prepare(edits)
	return c, err
}

// commit assigns counters to rules, then puts the rules into effect.
func (c *setChange) commit() (undo func() error, err error) {
	if err := c.take(); err != nil {
		return nil, errors.Join(err, c.undone.Run())
	}
	for order, r := range c.rules {
		e := c.entries[order]
		r.SetResult(uint32(e.verb) | c.s.indexes[e.key]<<counterShift | e.to<<chainShift)
	}
	if err := cube.Carry(c.plan.Before, &c.undone); err != nil {
		return nil, errors.Join(err, c.undone.Run())
	}
	was := c.s.entries
	c.s.entries = c.entries
	c.undone.Push(func() error { c.s.entries = was; return nil })
	return c.undone.Run, nil
}

// take assigns counters to new rules.
func (c *setChange) take() error {
	s := c.s
	var fresh []string
	for key := range c.keys {
		if _, ok := s.indexes[key]; !ok {
			fresh = append(fresh, key)
		}
	}
	slices.Sort(fresh)
	ids := make([]uint32, len(fresh))
	for i, key := range fresh {
		ids[i] = s.id(key)
	}
	undo := func() error {
		for i, key := range fresh {
			delete(s.indexes, key)
			delete(s.ids, ids[i])
		}
		return nil
	}
	indexes, give, err := s.counters.Take(ids)
	if err != nil {
		return errors.Join(err, undo())
	}
	c.undone.Push(give)
	c.undone.Push(undo)
	for i, key := range fresh {
		s.indexes[key] = indexes[i]
	}
	return nil
}

// id returns the number under which the counter of a key is kept, so that the next daemon finds it.
func (s *ruleSet) id(key string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	id := h.Sum32()
	for s.ids[id] != "" {
		id++
	}
	s.ids[id] = key
	return id
}

// free frees the resources of the rules before the change.
func (c *setChange) free() error {
	var errs []error
	for _, step := range c.plan.After {
		_, err := step.Do()
		errs = append(errs, err)
	}
	for _, key := range c.gone {
		c.freed = append(c.freed, c.s.indexes[key])
		delete(c.s.indexes, key)
	}
	for id, key := range c.s.ids {
		if !c.keys[key] {
			delete(c.s.ids, id)
		}
	}
	return errors.Join(append(errs, c.s.counters.Free(c.freed))...)
}

// counts reads counters by their keys. A rule without a counter has counted nothing.
func (s *ruleSet) counts(keys []string) (map[string]inet.Count, error) {
	out := map[string]inet.Count{}
	var indexes []uint32
	var known []string
	for _, key := range keys {
		if index, ok := s.indexes[key]; ok {
			indexes = append(indexes, index)
			known = append(known, key)
		}
	}
	if len(known) == 0 {
		return out, nil
	}
	counts, err := s.counters.Counts(indexes)
	if err != nil {
		return nil, err
	}
	for i, key := range known {
		out[key] = counts[i]
	}
	return out, nil
}
