// SPDX-License-Identifier: Apache-2.0

package iptables

// Sets: the cubes ipset that rules name. The search knows those that have plain prefixes. All others are tested after it, by
// their numbers: pcn/elements.h.

import (
	"fmt"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/iptables/language"
)

// How a set is tested, and how elements are added: PCN_ELEMENTS_... in C.
const (
	setDimensions = 8
	setReversed   = 1 << 16
	setUncounted  = 1 << 17
	setRenew      = 1 << 18
	setTimeout    = 1 << 19
)

// dimensions are the options of a test that say which addresses and ports of a packet are looked up.
func dimensions(dirs []string) uint32 {
	options := uint32(len(dirs)) << setDimensions
	for i, d := range dirs {
		if d == "dst" {
			options |= 1 << i
		}
	}
	return options
}

// set adds the condition that a set has the packet.
func (c *compiler) set(m language.Set) error {
	if len(m.Dirs) == 1 && !m.ReturnNoMatch && c.plain(m.Set) {
		set := (*classifier.Match).SourceSet
		if m.Dirs[0] == "dst" {
			set = (*classifier.Match).DestinationSet
		}
		return c.search.Add(m.Not, func(to *classifier.Match) error { return set(to, m.Set) })
	}
	options := dimensions(m.Dirs)
	if m.ReturnNoMatch {
		options |= setReversed
	}
	if m.SkipCounterUpdate {
		options |= setUncounted
	}
	c.setTest(m.Set, numbers(testSet, m.Not, options))
	return nil
}

// setTest adds a test about a set.
func (c *compiler) setTest(name string, t test) {
	c.sets[len(c.tests)] = name
	c.tests = append(c.tests, t)
}

// modifySet adds the tests that always hold, and change sets.
func (c *compiler) modifySet(t language.ModifySet) error {
	for _, s := range []*language.Set{t.Add, t.Del} {
		if s != nil && c.plain(s.Set) {
			return fmt.Errorf("the set %s has plain prefixes, which rules cannot change: create it with a timeout (0 is never): %w", s.Set, cube.ErrUnsupported)
		}
	}
	if t.Add != nil {
		options := dimensions(t.Add.Dirs)
		if t.Exist {
			options |= setRenew
		}
		if t.HasTimeout {
			options |= setTimeout
		}
		c.setTest(t.Add.Set, numbers(testSetAdd, false, options, t.Timeout))
	}
	if t.Del != nil {
		c.setTest(t.Del.Set, numbers(testSetEnd, false, dimensions(t.Del.Dirs)))
	}
	return nil
}

// plain reports whether there is a set of that name with plain prefixes.
func (f *iptables) plain(name string) bool {
	number, exists, err := f.references.Find(name)
	if err != nil || !exists {
		return false
	}
	slot, err := f.memory.Of(number)
	return err == nil && slot == 0
}

// refer fills in the numbers of a rule's sets, and keeps them for it.
func (n *change) refer(r *rule, to *row) error {
	for i, name := range r.forms.sets {
		if name == "" {
			continue
		}
		number, err := n.f.references.Refer(name)
		if err != nil {
			return err
		}
		r.sets = append(r.sets, number)
		n.undone.Push(func() error { n.f.references.Unrefer(number); r.sets = nil; return nil })
		to.Test[i].Value = number
	}
	return nil
}
