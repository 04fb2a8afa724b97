// SPDX-License-Identifier: Apache-2.0

package offload

// The conditions of one rule: exact, or matching a superset.

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/iptables/language"
	"github.com/polycube/polycube/iptables/search"
)

// StateNew and StateEstablished are the classifier's state bits: the packet certainly opens a connection, or belongs to an
// established one that is not translated. All other packets may have any state.
const (
	StateNew         = 1
	StateEstablished = 2
)

// known are the bits for states that are known.
const known = StateNew | StateEstablished

// conditions are those of a rule for the packets of a hook.
type conditions struct {
	match classifier.Match
	// left names the first condition that match lacks; match is then a superset.
	left string
	// never says that the rule matches no packet of the hook.
	never bool
	// narrow says that match has any condition.
	narrow bool
	// state is whether the rule asks for the state of the connection, states the known ones that it asks for.
	state  bool
	states uint8
}

// reader of the conditions of a rule.
type matcher struct {
	c    search.Conditions
	out  conditions
	seen map[string]bool
}

// conditionsOf returns the conditions of a rule.
func (s *Setting) conditionsOf(hook string, r *language.Rule) conditions {
	m := matcher{seen: map[string]bool{}}
	m.add("-s", r.Source.Any(), func() (bool, error) { return m.c.Source(r.Source) })
	m.add("-d", r.Destination.Any(), func() (bool, error) { return m.c.Destination(r.Destination) })
	m.add("-p", r.Protocol.Number == 0, func() (bool, error) { return true, m.c.Protocol(r.Protocol) })
	if r.Fragment == language.LaterFragments { // fragments are for the stack
		m.out.never = true
	}
	m.netdevs(s, hook, r)
	for _, one := range r.Matches {
		if !m.extension(one) { // -m limit, say, counts the packets that a later match refuses
			break
		}
	}
	m.out.match = m.c.Match
	m.out.narrow = m.out.match != (classifier.Match{})
	return m.out
}

// leave notes a condition that cannot be compared.
func (m *matcher) leave(name string) {
	if m.out.left == "" {
		m.out.left = name
	}
}

// add adds a condition, or leaves it out as a whole. It returns whether all of it is there.
func (m *matcher) add(name string, any bool, set func() (bool, error)) bool {
	if any {
		return true
	}
	was := m.c
	whole, err := set()
	if err != nil {
		m.c = was
		m.leave(fmt.Sprintf("%s (%v)", name, err))
	} else if !whole {
		m.leave(name)
	}
	return whole && err == nil
}

// netdevs compares the netdevs. That of the way in is known: the program runs there.
func (m *matcher) netdevs(s *Setting, hook string, r *language.Rule) {
	if r.In != (language.Interface{}) && matches(r.In, s.In) == r.In.Not {
		m.out.never = true
	}
	if r.Out == (language.Interface{}) {
		return
	}
	if hook == Input { // which has none
		m.out.never = m.out.never || !r.Out.Not && r.Out.Name != ""
		return
	}
	var index []uint16
	for name, i := range s.Netdevs {
		if matches(r.Out, name) {
			index = append(index, i)
		}
	}
	switch {
	case len(index) == 0:
		m.out.never = m.out.never || !r.Out.Not
	case len(index) > 1 || index[0] == 0:
		m.leave("-o")
	default:
		m.add("-o", false, func() (bool, error) {
			return true, m.c.Add(r.Out.Not, func(to *classifier.Match) error { to.InPort(index[0]); return nil })
		})
	}
}

// matches reports whether a netdev has the name of a condition, whatever its negation.
func matches(i language.Interface, name string) bool {
	if i.Prefix {
		return strings.HasPrefix(name, i.Name)
	}
	return i.Name == name
}

// extension adds the conditions of a -m. It returns whether all of them can be compared.
func (m *matcher) extension(one language.Match) bool {
	if ct, ok := one.(language.Conntrack); ok && m.connection(ct) {
		return true
	}
	if r, ok := one.(language.IPRange); ok {
		return m.add("-m iprange", false, func() (bool, error) { return m.excepts(r) })
	}
	for _, field := range fieldsOf(one) {
		if m.seen[field] { // the search compares one value of a field
			m.leave("a second -m " + one.Name())
			return false
		}
	}
	for _, field := range fieldsOf(one) {
		m.seen[field] = true
	}
	return m.add("-m "+one.Name(), false, func() (bool, error) { return m.c.Extension(one) })
}

// excepts adds ranges of addresses that the rule excludes. False: it has another one.
func (m *matcher) excepts(r language.IPRange) (bool, error) {
	for _, of := range []struct {
		is  language.AddressRange
		set func(*classifier.Match, netip.Prefix) error
	}{{r.Source, (*classifier.Match).Source}, {r.Destination, (*classifier.Match).Destination}} {
		if of.is.First.IsValid() && !of.is.Not {
			return false, nil
		}
		for _, p := range of.is.Prefixes() {
			if err := m.c.Add(true, func(to *classifier.Match) error { return of.set(to, p) }); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// fieldsOf names the fields of the search that an extension compares.
func fieldsOf(one language.Match) (out []string) {
	switch one := one.(type) {
	case language.TCP:
		if !one.SPort.Any() {
			out = append(out, "sport")
		}
		if !one.DPort.Any() {
			out = append(out, "dport")
		}
		if one.Flags.Mask|one.Flags.Set != 0 {
			out = append(out, "flags")
		}
	case language.Ports:
		if !one.SPort.Any() {
			out = append(out, "sport")
		}
		if !one.DPort.Any() {
			out = append(out, "dport")
		}
	case language.Multiport:
		out = append(out, strings.TrimSuffix(one.Of, "s"))
	case language.ICMP, language.MAC, language.Mark, language.DSCP:
		out = append(out, one.Name())
	}
	return out
}

// connection takes the states of a rule that has no other condition about the connection. False: it has.
func (m *matcher) connection(ct language.Conntrack) bool {
	names := ct.State
	not := ct.StateNot
	ct.State, ct.StateNot, ct.Short = nil, false, false
	if len(names) == 0 || m.out.state || ct.String() != "" {
		return false
	}
	states := uint8(0)
	for _, name := range names {
		switch name {
		case "NEW":
			states |= StateNew
		case "ESTABLISHED":
			states |= StateEstablished
		case "SNAT", "DNAT": // a new connection may be translated
			return false
		}
	}
	if not {
		states ^= known
	}
	m.out.state, m.out.states = true, states
	return true
}
