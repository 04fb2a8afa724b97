// SPDX-License-Identifier: Apache-2.0

package classifier

// Edits make trees worse little by little, and to make those of ten thousand rules anew takes longer than an edit may. So
// it is done beside the work, with the rules of one moment; a later change takes the result and repeats what came between.

import (
	"slices"
	"sync/atomic"
)

// making is a forest that is being made.
type making struct {
	// copies are the rules of the forest by the rules of the set that they are for.
	copies map[*rule]*rule
	trees  []tree
	stop   atomic.Bool
	done   chan struct{}
}

// worn says whether edits were so many that the trees are worth making anew.
func (s *Set) worn() bool { return s.edits > len(s.rules)+1024 }

// fewEdits are worth no new trees, even if memory is short.
const fewEdits = 200

// begin makes trees of the rules that the set has now, if it is time to: after many edits, or before memory is short.
func (s *Set) begin() {
	short := s.edits > fewEdits && int(s.blocks.next) > s.blocks.count()*7/8
	if s.making != nil || len(s.rules) < s.beside || !short && 2*s.edits <= len(s.rules) {
		return
	}
	m := &making{copies: make(map[*rule]*rule, len(s.rules)), done: make(chan struct{})}
	rules := make([]*rule, 0, len(s.rules))
	for _, r := range s.rules {
		m.copies[r] = r.unwritten()
		rules = append(rules, m.copies[r])
	}
	s.making = m
	done := m.done
	go func() {
		defer close(done)
		slices.SortFunc(rules, func(x, y *rule) int { return byOrder(x, y.order) })
		m.trees = forest(rules, maxBlocks-ruleBlocks(rules), &m.stop)
	}()
}

// end waits until nothing is made any more.
func (s *Set) end() {
	if s.making != nil {
		s.making.stop.Store(true)
		<-s.making.done
		s.making = nil
	}
}

// fewChanges are those that may still be done to a forest when it is taken.
const fewChanges = 8

// ready takes the forest if it is made, and what came between is little; else that is done to it beside the work, too.
func (s *Set) ready() *making {
	m := s.making
	if m == nil {
		return nil
	}
	select {
	case <-m.done:
	default:
		return nil
	}
	if m.trees == nil {
		s.making = nil
		return nil
	}
	var gone, fresh []*rule
	for r := range m.copies {
		if s.rules[r.order] != r {
			gone = append(gone, r)
		}
	}
	for _, r := range s.rules {
		if m.copies[r] == nil {
			fresh = append(fresh, r)
		}
	}
	if len(gone)+len(fresh) > fewChanges {
		m.follow(gone, fresh)
		return nil
	}
	s.making = nil
	return m
}

// follow does changes to the forest.
func (m *making) follow(gone, fresh []*rule) {
	e := edit{trees: m.trees}
	remove, add := make([]*rule, len(gone)), make([]*rule, len(fresh))
	for i, r := range gone {
		remove[i] = m.copies[r]
		delete(m.copies, r)
	}
	for i, r := range fresh {
		add[i] = r.unwritten()
		m.copies[r] = add[i]
	}
	done := make(chan struct{})
	m.done = done
	go func() {
		defer close(done)
		for _, r := range remove {
			if !m.stop.Load() {
				e.remove(r)
			}
		}
		for _, r := range add {
			if !m.stop.Load() {
				e.add(r)
			}
		}
		m.trees = e.trees
	}()
}

// adopt makes the forest what the change leads to: what changed since it was begun is done to it, too.
func (n *next) adopt(m *making) {
	changed := make(map[uint32]bool, len(n.changes))
	for _, c := range n.changes {
		changed[c.Order] = true
	}
	e := edit{trees: m.trees}
	add := n.fresh
	all := slices.Clone(n.fresh)
	for order, r := range n.s.rules {
		switch was := m.copies[r]; {
		case changed[order]: // its copy is left over
		case was != nil:
			delete(m.copies, r)
			all = append(all, was)
		default:
			fresh := r.unwritten()
			add, all = append(add, fresh), append(all, fresh)
		}
	}
	for _, r := range m.copies {
		e.remove(r)
	}
	for _, r := range add {
		e.add(r)
	}
	slices.SortFunc(e.trees, func(x, y tree) int { return int(int64(x.order) - int64(y.order)) })
	n.trees, n.fresh, n.rebuild, n.adopted = e.trees, all, true, true
}

// unwritten is a rule for another set of blocks.
func (r *rule) unwritten() *rule { return &rule{Rule: r.Rule, order: r.order, box: r.box} }
