// SPDX-License-Identifier: Apache-2.0

package iptables

// Compilation of a rule: what the search compares, and the row with the rest.

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/iptables/language"
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
	out   compiled
	tests []test
	sets  map[int]string // by the index of a test
	plain func(set string) bool
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

// condition adds what set makes a match of, or the opposite.
func (c *compiler) condition(not bool, set func(*classifier.Match) error) error {
	if !not {
		return set(&c.out.match)
	}
	var except classifier.Match
	if err := set(&except); err != nil {
		return err
	}
	return c.out.match.Except(except)
}

// header compiles the options that each rule has.
func (c *compiler) header(r *language.Rule) error {
	for _, a := range []struct {
		is   language.Address
		kind testKind
		set  func(*classifier.Match, netip.Prefix) error
	}{
		{r.Source, testSource, (*classifier.Match).Source}, {r.Destination, testDestination, (*classifier.Match).Destination},
	} {
		if a.is.Any() {
			continue
		}
		p, ok := a.is.Prefix()
		if !ok || p.Addr().Is4In6() { // which would be an IPv4 address for the search
			c.tests = append(c.tests, maskTest(a.kind, a.is))
			continue
		}
		if err := c.condition(a.is.Not, func(m *classifier.Match) error { return a.set(m, p) }); err != nil {
			return err
		}
	}
	if number := r.Protocol.Number; number != 0 {
		protocol := func(m *classifier.Match) error { m.Protocol(number); return nil }
		if err := c.condition(r.Protocol.Not, protocol); err != nil {
			return err
		}
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
	switch m := m.(type) {
	case language.Comment:
		return nil
	case language.TCP:
		return c.tcp(m)
	case language.Ports:
		return c.ports(m.SPort, m.DPort)
	case language.ICMP:
		return c.icmp(m)
	case language.Multiport:
		if m.Of != "ports" {
			return c.multiport(m)
		}
	case language.Set:
		return c.set(m)
	case language.MAC:
		return c.condition(m.Not, func(to *classifier.Match) error {
			to.SourceMAC(m.Source.Bytes(), [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
			return nil
		})
	case language.Mark:
		return c.condition(m.Not, func(to *classifier.Match) error { to.Mark(m.Value, m.Mask); return nil })
	case language.DSCP:
		return c.condition(m.Not, func(to *classifier.Match) error { to.DSCP(m.Value); return nil })
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

// ports adds conditions of ports: a packet that has none does not match, even if all ports do.
func (c *compiler) ports(source, destination language.PortRange) error {
	for _, p := range []struct {
		is  language.PortRange
		set func(*classifier.Match, uint16, uint16) error
	}{{source, (*classifier.Match).SourcePorts}, {destination, (*classifier.Match).DestinationPorts}} {
		if p.is.Any() && !p.is.Not {
			continue
		}
		if err := c.condition(p.is.Not, func(m *classifier.Match) error { return p.set(m, p.is.First, p.is.Last) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) tcp(m language.TCP) error {
	if err := c.ports(m.SPort, m.DPort); err != nil {
		return err
	}
	if f := m.Flags; f.Mask|f.Set != 0 {
		flags := func(to *classifier.Match) error { to.TCPFlags(f.Set, f.Mask); return nil }
		if err := c.condition(f.Not, flags); err != nil {
			return err
		}
	}
	if m.Option != 0 {
		c.tests = append(c.tests, test{Kind: testTCPOption, Negated: m.OptionNot, Value: uint32(m.Option)})
	}
	return nil
}

func (c *compiler) icmp(m language.ICMP) error {
	if m.Any {
		return nil
	}
	return c.condition(m.Not, func(to *classifier.Match) error {
		if m.Family == language.IPv6 {
			return to.ICMPv6(m.Type, m.FirstCode, m.LastCode)
		}
		return to.ICMP(m.Type, m.FirstCode, m.LastCode)
	})
}

// multiport adds a list of source or destination ports: a range, without the gaps in it.
func (c *compiler) multiport(m language.Multiport) error {
	set := (*classifier.Match).SourcePorts
	if m.Of == "dports" {
		set = (*classifier.Match).DestinationPorts
	}
	ranges := merged(m.Ports)
	except := func(first, last uint16) error {
		return c.condition(true, func(to *classifier.Match) error { return set(to, first, last) })
	}
	if m.Not {
		for _, r := range ranges {
			if err := except(r.First, r.Last); err != nil {
				return err
			}
		}
		return nil
	}
	if err := set(&c.out.match, ranges[0].First, ranges[len(ranges)-1].Last); err != nil {
		return err
	}
	for i, r := range ranges[1:] {
		if err := except(ranges[i].Last+1, r.First-1); err != nil {
			return err
		}
	}
	return nil
}

// merged returns ranges in their order, with those that touch each other as one.
func merged(in []language.PortRange) (out []language.PortRange) {
	for _, r := range slices.SortedFunc(slices.Values(in), func(a, b language.PortRange) int { return int(a.First) - int(b.First) }) {
		if n := len(out); n > 0 && int(r.First) <= int(out[n-1].Last)+1 {
			out[n-1].Last = max(out[n-1].Last, r.Last)
			continue
		}
		out = append(out, r)
	}
	return out
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
	c.out.match.State(0, uint8(^bits))
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
