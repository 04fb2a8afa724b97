// SPDX-License-Identifier: Apache-2.0

// Package conditions makes the conditions of a rule out of the leaves of a model: header fields, some of which may be
// negated. It checks what leaves say together, and names the leaf in an error.
//
//	err := conditions.Match(&match, conditions.List{
//		conditions.Source("src_ip", rule.SrcIP), conditions.DestinationPorts("dst_port", rule.DstPort),
//	}, negated)
package conditions

import (
	"fmt"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// Condition is what one leaf of a model says about a packet.
type Condition struct {
	leaf string
	// protocol is the only one whose packets can match; implied says that no other leaf names it.
	protocol *inet.Protocol
	implied  bool
	// is adds the condition to a match, and not its negation; nil: the leaf says nothing.
	is, not func(*classifier.Match) error
}

// List contains the conditions that hold together.
type List []Condition

// Match adds conditions to a match: all of is, and none of not. Errors wrap cube.ErrInvalid, or what a condition returns.
func Match(m *classifier.Match, is, not List) error {
	if err := is.compatible(); err != nil {
		return err
	}
	for _, c := range is {
		if c.is == nil {
			continue
		}
		if err := c.is(m); err != nil {
			return fmt.Errorf("%s: %w", c.leaf, err)
		}
	}
	for _, c := range not {
		if c.is == nil {
			continue
		}
		if err := c.not(m); err != nil {
			return fmt.Errorf("not: %s: %w", c.leaf, err)
		}
	}
	return nil
}

// compatible refuses leaves of different protocols.
func (l List) compatible() error {
	var first *Condition
	for i, c := range l {
		switch {
		case c.is == nil || c.protocol == nil:
		case first == nil:
			first = &l[i]
		case *first.protocol == *c.protocol:
		case first.implied && c.implied:
			return fmt.Errorf("a rule can have only one of %s and %s: %w", first.leaf, c.leaf, cube.ErrInvalid)
		case first.implied:
			return fmt.Errorf("%s: %s is %s: %w", first.leaf, c.leaf, c.protocol, cube.ErrInvalid)
		default:
			return fmt.Errorf("%s: %s is %s: %w", c.leaf, first.leaf, first.protocol, cube.ErrInvalid)
		}
	}
	return nil
}

// condition is one whose negation excludes the packets that match it; set is nil for a leaf that says nothing.
func condition(leaf string, set func(*classifier.Match) error) Condition {
	return Condition{leaf: leaf, is: set, not: func(m *classifier.Match) error { return except(m, set) }}
}

// except excludes the packets that match a condition.
func except(m *classifier.Match, set func(*classifier.Match) error) error {
	var one classifier.Match
	if err := set(&one); err != nil {
		return err
	}
	return m.Except(one)
}

// Of is a condition of a cube's own; it says nothing if set is nil.
func Of(leaf string, set func(*classifier.Match) error) Condition { return condition(leaf, set) }

// optional is the condition of a leaf that may not be there.
func optional[V any](leaf string, value *V, set func(*classifier.Match, V) error) Condition {
	if value == nil {
		return Condition{}
	}
	return condition(leaf, func(m *classifier.Match) error { return set(m, *value) })
}

// implying adds the only protocol that can match.
func (c Condition) implying(p inet.Protocol) Condition {
	c.protocol, c.implied = &p, true
	return c
}
