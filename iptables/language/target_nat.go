// SPDX-License-Identifier: Apache-2.0

package language

// The targets of the table nat.

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// NAT is -j SNAT, DNAT, MASQUERADE or REDIRECT.
type NAT struct {
	// Kind is the name of the target.
	Kind string
	// First and Last are the range of addresses, invalid if the address is not given.
	First, Last netip.Addr
	// Ports is nil if the ports are not given.
	Ports                           *PortRange
	Random, RandomFully, Persistent bool
}

// natKinds says what each target takes.
var natKinds = map[string]struct {
	option, alias     string
	address           bool
	fully, persistent bool
	chains            []string
}{
	"SNAT": {option: "--to-source", address: true, fully: true, persistent: true,
		chains: []string{"POSTROUTING", "INPUT"}},
	"DNAT": {option: "--to-destination", address: true, persistent: true,
		chains: []string{"PREROUTING", "OUTPUT"}},
	"MASQUERADE": {option: "--to-ports", fully: true, chains: []string{"POSTROUTING"}},
	"REDIRECT":   {option: "--to-ports", chains: []string{"PREROUTING", "OUTPUT"}},
}

func newNAT(kind string) func(Family) *builder {
	return func(family Family) *builder {
		m := NAT{Kind: kind}
		k := natKinds[kind]
		b := &builder{name: kind, target: func() Target { return m }}
		b.options = []option{
			{names: []string{k.option}, arity: oneValue, set: func(v value) error {
				if k.address {
					return m.readTo(v.text, family)
				}
				return m.readPorts(v.text)
			}},
			flag(&m.Random, "--random"),
		}
		if k.fully {
			b.options = append(b.options, flag(&m.RandomFully, "--random-fully"))
		}
		if k.persistent {
			b.options = append(b.options, flag(&m.Persistent, "--persistent"))
		}
		if k.address {
			b.required = k.option
		}
		b.finish = func(c *context) error {
			if m.Ports != nil && !c.hasPorts() {
				return errors.New("ports require -p tcp, udp, sctp or dccp")
			}
			return firstOf(c.inTable("the target", "nat"), c.only("the target", k.chains...))
		}
		return b
	}
}

// readTo reads ADDRESS[-ADDRESS][:PORT[-PORT]]. An IPv6 address before a port is in brackets.
func (m *NAT) readTo(text string, family Family) error {
	addresses, port, ported := text, "", false
	switch {
	case family == IPv4:
		addresses, port, ported = strings.Cut(text, ":")
	case strings.HasPrefix(text, "["):
		inner, rest, closed := strings.Cut(text[1:], "]")
		if !closed || rest != "" && rest[0] != ':' {
			return fmt.Errorf("bad value %q: it is [ADDRESS]:PORT or [FIRST-LAST]:PORT", text)
		}
		addresses, port, ported = inner, strings.TrimPrefix(rest, ":"), rest != ""
	case strings.HasPrefix(text, ":") && !strings.HasPrefix(text, "::"):
		addresses, port, ported = "", text[1:], true
	}
	if ported {
		if err := m.readPorts(port); err != nil {
			return err
		}
	}
	if addresses == "" && ported {
		return nil
	}
	first, last, ranged := strings.Cut(addresses, "-")
	var err error
	if m.First, err = family.addr(first, false); err != nil {
		return err
	}
	if m.Last = m.First; ranged {
		m.Last, err = family.addr(last, false)
	}
	if err == nil && m.Last.Less(m.First) {
		err = fmt.Errorf("bad value %q: the range of addresses is reversed", text)
	}
	return err
}

func (m *NAT) readPorts(text string) error {
	if strings.Contains(text, "/") {
		return fmt.Errorf("bad value %q: shifted ports (FIRST-LAST/BASE) are not supported", text)
	}
	r, err := ports(text, "-", false)
	m.Ports = &r
	return err
}

// Name returns the kind.
func (m NAT) Name() string { return m.Kind }

func (m NAT) String() string {
	to := ""
	if m.First.IsValid() {
		to = addrText(m.First)
		if m.Last != m.First {
			to += "-" + addrText(m.Last)
		}
	}
	k := natKinds[m.Kind]
	if m.Ports != nil {
		if to != "" && m.First.Is6() {
			to = "[" + to + "]"
		}
		to += when(k.address, ":") + m.Ports.text("-")
	}
	return joined(when(to != "", k.option+" "+to), when(m.Random, "--random"),
		when(m.RandomFully, "--random-fully"), when(m.Persistent, "--persistent"))
}

func (NAT) target() {}
