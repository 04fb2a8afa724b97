// SPDX-License-Identifier: Apache-2.0

package language

// The matches on the headers of TCP, UDP and other protocols with ports.

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// TCP is -m tcp.
type TCP struct {
	SPort, DPort PortRange
	Flags        TCPFlags
	// Option is a TCP option that must be there, 0 if none.
	Option    uint8
	OptionNot bool
}

// TCPFlags are flags that are looked at (Mask), and which of them must be set: bits of the 14th byte of the header. A
// Mask of 0 without Set is every packet.
type TCPFlags struct {
	Mask, Set uint8
	Not       bool
}

// Ports is -m udp, -m sctp or -m dccp.
type Ports struct {
	// Protocol is the name of the match.
	Protocol     string
	SPort, DPort PortRange
}

// Multiport is -m multiport.
type Multiport struct {
	// Of is sports, dports, or ports for either.
	Of string
	// Ports are the ports and ranges, in the order of the command.
	Ports []PortRange
	Not   bool
}

var tcpFlagNames = []string{"FIN", "SYN", "RST", "PSH", "ACK", "URG"}

func newTCP(Family) *builder {
	m := TCP{SPort: anyPort, DPort: anyPort}
	return &builder{
		name: "tcp",
		options: []option{
			portOption(&m.SPort, "--source-port", "--sport"),
			portOption(&m.DPort, "--destination-port", "--dport"),
			{names: []string{"--tcp-flags"}, arity: twoValues, not: true, excludes: []string{"--syn"}, set: m.Flags.read},
			{names: []string{"--syn"}, not: true, excludes: []string{"--tcp-flags"}, set: func(v value) error {
				m.Flags = TCPFlags{Mask: 0x17, Set: 0x02, Not: v.not}
				return nil
			}},
			{names: []string{"--tcp-option"}, arity: oneValue, not: true, set: func(v value) error {
				n, err := v.numberOf(1, 255)
				m.Option, m.OptionNot = uint8(n), v.not
				return err
			}},
		},
		finish: func(c *context) error {
			if !c.protocolIn(protoTCP) {
				return errors.New("the match requires -p tcp")
			}
			return nil
		},
		match: func() Match { return m },
	}
}

func (f *TCPFlags) read(v value) (err error) {
	f.Not = v.not
	if f.Mask, err = tcpFlags(v.text); err != nil {
		return err
	}
	if f.Set, err = tcpFlags(v.second); err != nil {
		return err
	}
	if f.Not && f.Mask == 0 && f.Set == 0 {
		return errors.New("! --tcp-flags NONE NONE never matches")
	}
	return nil
}

// tcpFlags reads flags that commas separate, ALL or NONE.
func tcpFlags(text string) (flags uint8, err error) {
	for _, name := range strings.Split(text, ",") {
		name = strings.ToUpper(name)
		i := slices.Index(tcpFlagNames, name)
		switch {
		case name == "ALL":
			flags |= 0x3f
		case i >= 0:
			flags |= 1 << i
		case name != "NONE":
			return 0, fmt.Errorf("unknown TCP flag %q", name)
		}
	}
	return flags, nil
}

func tcpFlagText(flags uint8) string {
	var names []string
	for i, name := range tcpFlagNames {
		if flags&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if names == nil {
		return "NONE"
	}
	return strings.Join(names, ",")
}

// Name returns tcp.
func (TCP) Name() string { return "tcp" }

func (m TCP) String() string {
	flags := ""
	if m.Flags.Mask != 0 || m.Flags.Set != 0 {
		flags = bang(m.Flags.Not, "--tcp-flags "+tcpFlagText(m.Flags.Mask)+" "+tcpFlagText(m.Flags.Set))
	}
	return joined(portText("--sport", m.SPort), portText("--dport", m.DPort),
		when(m.Option != 0, bang(m.OptionNot, "--tcp-option "+strconv.Itoa(int(m.Option)))), flags)
}

func newPorts(protocol uint8) func(Family) *builder {
	return func(Family) *builder {
		m := Ports{Protocol: implicit[protocol], SPort: anyPort, DPort: anyPort}
		return &builder{
			name: m.Protocol,
			options: []option{
				portOption(&m.SPort, "--source-port", "--sport"),
				portOption(&m.DPort, "--destination-port", "--dport"),
			},
			finish: func(c *context) error {
				if !c.protocolIn(protocol) {
					return fmt.Errorf("the match requires -p %s", m.Protocol)
				}
				return nil
			},
			match: func() Match { return m },
		}
	}
}

// Name returns the protocol.
func (m Ports) Name() string { return m.Protocol }

func (m Ports) String() string {
	return joined(portText("--sport", m.SPort), portText("--dport", m.DPort))
}

var multiportOptions = []string{"--source-ports", "--destination-ports", "--ports"}

func newMultiport(Family) *builder {
	var m Multiport
	of := func(which string, names ...string) option {
		return option{names: names, arity: oneValue, not: true, excludes: multiportOptions,
			set: func(v value) error { m.Of, m.Not = which, v.not; return m.read(v.text) }}
	}
	return &builder{
		name: "multiport",
		options: []option{
			of("sports", "--source-ports", "--sports"),
			of("dports", "--destination-ports", "--dports"),
			of("ports", "--ports"),
		},
		finish: func(c *context) error {
			if m.Ports == nil {
				return errors.New("one of --sports, --dports and --ports must be specified")
			}
			if !c.hasPorts() && !c.protocolIn(protoUDPLite) {
				return errors.New("the match requires -p tcp, udp, udplite, sctp or dccp")
			}
			return nil
		},
		match: func() Match { return m },
	}
}

func (m *Multiport) read(text string) error {
	slots := 0
	for _, part := range strings.Split(text, ",") {
		r, err := ports(part, ":", false)
		if err != nil {
			return err
		}
		if strings.Contains(part, ":") {
			if r.First == r.Last {
				return fmt.Errorf("invalid port range %q: its ends are the same", part)
			}
			slots++
		}
		slots++
		m.Ports = append(m.Ports, r)
	}
	if slots > 15 {
		return errors.New("too many ports: at most 15, a range counts as two")
	}
	return nil
}

// Name returns multiport.
func (Multiport) Name() string { return "multiport" }

func (m Multiport) String() string {
	list := make([]string, len(m.Ports))
	for i, r := range m.Ports {
		list[i] = r.text(":")
	}
	return bang(m.Not, "--"+m.Of+" "+strings.Join(list, ","))
}

func (TCP) match()       {}
func (Ports) match()     {}
func (Multiport) match() {}
