// SPDX-License-Identifier: Apache-2.0

// Package search turns conditions of iptables into those that package classifier compares, for the cubes that carry out such
// rules. What the classifier cannot compare is left to the cube.
package search

import (
	"net/netip"
	"slices"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/iptables/language"
)

// Conditions are those of a rule, as far as they were added. Each function adds conditions of the rule only: whatever
// it leaves out, a packet that the rule matches fulfils Match.
type Conditions struct {
	Match classifier.Match
}

// Add adds what set makes of a match, or the opposite.
func (c *Conditions) Add(not bool, set func(*classifier.Match) error) error {
	if !not {
		return set(&c.Match)
	}
	var except classifier.Match
	if err := set(&except); err != nil {
		return err
	}
	return c.Match.Except(except)
}

// Source adds the source address of a rule. It returns false, and adds nothing, if the address is no prefix or, as
// ::ffff:0:0/96, would be one of IPv4 here.
func (c *Conditions) Source(a language.Address) (bool, error) {
	return c.address(a, (*classifier.Match).Source)
}

// Destination adds the destination address in the same way.
func (c *Conditions) Destination(a language.Address) (bool, error) {
	return c.address(a, (*classifier.Match).Destination)
}

func (c *Conditions) address(a language.Address, set func(*classifier.Match, netip.Prefix) error) (bool, error) {
	if a.Any() {
		return true, nil
	}
	p, ok := a.Prefix()
	if !ok || p.Addr().Is4In6() {
		return false, nil
	}
	return true, c.Add(a.Not, func(m *classifier.Match) error { return set(m, p) })
}

// Protocol adds the protocol of a rule.
func (c *Conditions) Protocol(p language.Protocol) error {
	if p.Number == 0 {
		return nil
	}
	return c.Add(p.Not, func(m *classifier.Match) error { m.Protocol(p.Number); return nil })
}

// Extension adds the conditions of one -m. It returns false if something is left that the classifier cannot compare.
func (c *Conditions) Extension(m language.Match) (whole bool, err error) {
	switch m := m.(type) {
	case language.Comment:
		return true, nil
	case language.TCP:
		return m.Option == 0, c.tcp(m)
	case language.Ports:
		return true, c.ports(m.SPort, m.DPort)
	case language.ICMP:
		return true, c.icmp(m)
	case language.Multiport:
		if m.Of != "ports" {
			return true, c.multiport(m)
		}
	case language.MAC:
		return true, c.Add(m.Not, func(to *classifier.Match) error {
			to.SourceMAC(m.Source.Bytes(), [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
			return nil
		})
	case language.Mark:
		return true, c.Add(m.Not, func(to *classifier.Match) error { to.Mark(m.Value, m.Mask); return nil })
	case language.DSCP:
		return true, c.Add(m.Not, func(to *classifier.Match) error { to.DSCP(m.Value); return nil })
	}
	return false, nil
}

// ports adds conditions of ports: a packet that has none does not match, even if all ports do.
func (c *Conditions) ports(source, destination language.PortRange) error {
	for _, p := range []struct {
		is  language.PortRange
		set func(*classifier.Match, uint16, uint16) error
	}{{source, (*classifier.Match).SourcePorts}, {destination, (*classifier.Match).DestinationPorts}} {
		if p.is.Any() && !p.is.Not {
			continue
		}
		if err := c.Add(p.is.Not, func(m *classifier.Match) error { return p.set(m, p.is.First, p.is.Last) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *Conditions) tcp(m language.TCP) error {
	if err := c.ports(m.SPort, m.DPort); err != nil {
		return err
	}
	f := m.Flags
	if f.Mask|f.Set == 0 {
		return nil
	}
	return c.Add(f.Not, func(to *classifier.Match) error { to.TCPFlags(f.Set, f.Mask); return nil })
}

func (c *Conditions) icmp(m language.ICMP) error {
	if m.Any {
		return nil
	}
	return c.Add(m.Not, func(to *classifier.Match) error {
		if m.Family == language.IPv6 {
			return to.ICMPv6(m.Type, m.FirstCode, m.LastCode)
		}
		return to.ICMP(m.Type, m.FirstCode, m.LastCode)
	})
}

// multiport adds a list of source or destination ports: a range, without the gaps in it.
func (c *Conditions) multiport(m language.Multiport) error {
	set := (*classifier.Match).SourcePorts
	if m.Of == "dports" {
		set = (*classifier.Match).DestinationPorts
	}
	ranges := merged(m.Ports)
	except := func(first, last uint16) error {
		return c.Add(true, func(to *classifier.Match) error { return set(to, first, last) })
	}
	if m.Not {
		for _, r := range ranges {
			if err := except(r.First, r.Last); err != nil {
				return err
			}
		}
		return nil
	}
	if err := set(&c.Match, ranges[0].First, ranges[len(ranges)-1].Last); err != nil {
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
