// SPDX-License-Identifier: Apache-2.0

package iptables

// Compilation of a rule: what the search compares, and the row with the rest.

import (
	"fmt"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/iptables/language"
	"github.com/polycube/polycube/iptables/search"
)

// compiled is a rule in the forms of the program.
type compiled struct {
	match classifier.Match
	verb  verb
	row   *row // nil if it says nothing
	jump  string
	sets  [maxTests]string // names of the sets that tests are about
}

// compiler compiles one rule.
type compiler struct {
	out    compiled
	search search.Conditions
	tests  []test
	sets   map[int]string // by the index of a test
	plain  func(set string) bool
}

// compile returns the forms of a rule. Its row lacks the numbers of the chain that it jumps to, and of sets. plain reports
// whether a set exists and the search knows what it has.
func compile(r *language.Rule, plain func(set string) bool) (compiled, error) {
	c := &compiler{sets: map[int]string{}, plain: plain}
	if err := c.header(r); err != nil {
		return c.out, err
	}
	for _, m := range r.Matches {
		if err := c.extension(r, m); err != nil {
			return c.out, fmt.Errorf("-m %s: %w", m.Name(), err)
		}
	}
	if err := c.target(r.Target); err != nil {
		return c.out, fmt.Errorf("-j %s: %w", r.Target.Name(), err)
	}
	c.out.match = c.search.Match
	if len(c.tests) > maxTests {
		return c.out, fmt.Errorf("the rule has %d conditions of the kind that is tested after the search, and may have %d: %w", len(c.tests), maxTests, cube.ErrUnsupported)
	}
	if len(c.tests) > 0 && c.out.row == nil {
		c.out.row = &row{}
	}
	if c.out.row != nil {
		c.out.row.Tests = uint32(copy(c.out.row.Test[:], c.tests))
		for i, name := range c.sets {
			c.out.sets[i] = name
		}
	}
	return c.out, nil
}

// header compiles the options that each rule has.
func (c *compiler) header(r *language.Rule) error {
	for _, a := range []struct {
		is   language.Address
		kind testKind
		add  func(language.Address) (bool, error)
	}{{r.Source, testSource, c.search.Source}, {r.Destination, testDestination, c.search.Destination}} {
		whole, err := a.add(a.is)
		if err != nil {
			return err
		}
		if !whole {
			c.tests = append(c.tests, maskTest(a.kind, a.is))
		}
	}
	if err := c.search.Protocol(r.Protocol); err != nil {
		return err
	}
	if r.Fragment != language.AnyFragment {
		c.tests = append(c.tests, test{Kind: testLaterFragment, Negated: r.Fragment == language.FirstFragment})
	}
	if r.In != (language.Interface{}) {
		c.tests = append(c.tests, netdevTest(testIn, r.In))
	}
	if r.Out != (language.Interface{}) {
		c.tests = append(c.tests, netdevTest(testOut, r.Out))
	}
	return nil
}

// extension compiles one -m.
func (c *compiler) extension(r *language.Rule, m language.Match) error {
	whole, err := c.search.Extension(m)
	if err != nil || whole {
		return err
	}
	switch m := m.(type) {
	case language.TCP:
		c.tests = append(c.tests, test{Kind: testTCPOption, Negated: m.OptionNot, Value: uint32(m.Option)})
		return nil
	case language.Set:
		return c.set(m)
	case language.Conntrack:
		if len(m.State) > 0 {
			if err := c.states(m); err != nil {
				return err
			}
		}
	}
	tests, err := testsOf(r.Family, m)
	c.tests = append(c.tests, tests...)
	return err
}

// The bits of testState for what the cube nat does: PCN_MD_SNAT and PCN_MD_DNAT, above those of the classes.
const (
	stateSNAT = 1 << 8
	stateDNAT = 2 << 8
)

// states adds the states of the packet's connection. The search compares them, but for those that the cube nat makes.
func (c *compiler) states(m language.Conntrack) error {
	bits := uint32(0)
	for _, name := range m.State {
		known := false
		for class := conntrack.Invalid; class <= conntrack.Untracked; class++ {
			if class.String() == name {
				bits |= 1 << class
				known = true
			}
		}
		switch {
		case known:
		case name == "SNAT":
			bits |= stateSNAT
		case name == "DNAT":
			bits |= stateDNAT
		default:
			return fmt.Errorf("--ctstate %s: %w", name, cube.ErrUnsupported)
		}
	}
	if bits&(stateSNAT|stateDNAT) != 0 {
		c.tests = append(c.tests, test{Kind: testState, Negated: m.StateNot, Value: bits})
		return nil
	}
	if m.StateNot {
		bits = ^bits
	}
	c.search.Match.State(0, uint8(^bits))
	return nil
}

// target compiles the target.
func (c *compiler) target(t language.Target) error {
	switch t := t.(type) {
	case nil:
		c.out.verb = verbCount
	case language.Verdict:
		c.out.verb = map[language.Verdict]verb{"ACCEPT": verbAccept, "DROP": verbDrop, "RETURN": verbReturn}[t]
	case language.Jump:
		c.out.verb, c.out.jump, c.out.row = verbJump, t.Chain, &row{}
		if t.Goto {
			c.out.verb = verbGoto
		}
	case language.Reject:
		c.out.verb, c.out.row = verbReject, &row{}
	case language.Log, language.NFLog:
		c.out.verb, c.out.row = verbLog, &row{}
	case language.SetMark:
		c.out.verb, c.out.row = verbMark, &row{Value: t.Value, Mask: t.Mask}
	case language.NoTrack:
		c.out.verb, c.out.row = verbNoTrack, &row{}
	case language.ModifySet:
		c.out.verb, c.out.row = verbCount, &row{}
		return c.modifySet(t)
	case language.NAT:
		return fmt.Errorf("addresses are translated by the cube nat: %w", cube.ErrUnsupported)
	default:
		return cube.ErrUnsupported
	}
	return nil
}
