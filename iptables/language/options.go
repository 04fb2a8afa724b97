// SPDX-License-Identifier: Apache-2.0

package language

// Options of the program itself, and how names of options are resolved.

import (
	"fmt"
	"strings"
)

// argument is whether an option of the program has an argument.
type argument uint8

const (
	without argument = iota
	required
	optional
)

// global is an option of the program.
type global struct {
	letter byte
	// names are the long names.
	names    []string
	argument argument
	// not is whether `!` may precede it.
	not bool
}

// lineNumbers and others stand for the letters of options that have none.
const lineNumbers = 1

var globals = []global{
	{'A', []string{"--append"}, required, false}, {'D', []string{"--delete"}, required, false},
	{'C', []string{"--check"}, required, false}, {'I', []string{"--insert"}, required, false},
	{'R', []string{"--replace"}, required, false}, {'L', []string{"--list"}, optional, false},
	{'S', []string{"--list-rules"}, optional, false}, {'F', []string{"--flush"}, optional, false},
	{'Z', []string{"--zero"}, optional, false}, {'N', []string{"--new-chain"}, required, false},
	{'X', []string{"--delete-chain"}, optional, false}, {'E', []string{"--rename-chain"}, required, false},
	{'P', []string{"--policy"}, required, false},
	{'s', []string{"--source", "--src"}, required, true}, {'d', []string{"--destination", "--dst"}, required, true},
	{'p', []string{"--protocol", "--proto"}, required, true}, {'i', []string{"--in-interface"}, required, true},
	{'o', []string{"--out-interface"}, required, true}, {'f', []string{"--fragments"}, without, true},
	{'j', []string{"--jump"}, required, false}, {'g', []string{"--goto"}, required, false},
	{'m', []string{"--match"}, required, false}, {'t', []string{"--table"}, required, false},
	{'c', []string{"--set-counters"}, required, false}, {'n', []string{"--numeric"}, without, false},
	{'v', []string{"--verbose"}, without, false}, {'x', []string{"--exact"}, without, false},
	{'w', []string{"--wait"}, optional, false}, {'W', []string{"--wait-interval"}, optional, false},
	{'4', []string{"--ipv4"}, without, false}, {'6', []string{"--ipv6"}, without, false},
	{lineNumbers, []string{"--line-numbers"}, without, false},
}

// found is an option and whose it is: the program's, or of a match or target.
type found struct {
	global  *global
	builder *builder
	option  *option
}

// lookUp finds the option with a long name, or the only one that the name abbreviates.
func (r *reader) lookUp(name string) (out found, ok bool, err error) {
	var candidates []found
	for i := range globals {
		g := &globals[i]
		matched := false
		for _, n := range g.names {
			if n == name {
				return found{global: g}, true, nil
			}
			matched = matched || strings.HasPrefix(n, name)
		}
		if matched {
			candidates = append(candidates, found{global: g})
		}
	}
	for _, b := range r.builders() {
		exact, prefixed := b.find(name)
		if exact != nil {
			return found{builder: b, option: exact}, true, nil
		}
		for _, o := range prefixed {
			candidates = append(candidates, found{builder: b, option: o})
		}
	}
	for _, c := range candidates {
		if c.name() != candidates[0].name() {
			return out, false, fmt.Errorf("ambiguous option %q: %s or %s", name, candidates[0].name(), c.name())
		}
	}
	if candidates == nil {
		return out, false, nil
	}
	return candidates[0], true, nil
}

func (f found) name() string {
	if f.global != nil {
		return f.global.names[0]
	}
	return f.option.names[0]
}

// builders are the target and the matches, the last first: an option belongs to the last that has it.
func (r *reader) builders() []*builder {
	var out []*builder
	if r.target != nil {
		out = append(out, r.target)
	}
	for i := len(r.matches) - 1; i >= 0; i-- {
		out = append(out, r.matches[i])
	}
	return out
}

// implicit are the matches that -p brings when one of their options is met.
var implicit = map[uint8]string{protoTCP: "tcp", protoUDP: "udp", protoSCTP: "sctp", protoDCCP: "dccp", protoICMP: "icmp", protoICMPv6: "icmp6"}

// loadImplicit adds the match of the protocol, unless it is there. It reports whether there is a new match.
func (r *reader) loadImplicit() bool {
	name, ok := implicit[r.rule.Protocol.Number]
	if !ok || !r.seen['p'] {
		return false
	}
	for _, m := range r.matches {
		if m.name == name {
			return false
		}
	}
	b, err := newMatch(name, r.cmd.Family)
	if err != nil {
		return false
	}
	r.matches = append(r.matches, b)
	return true
}

// optionError is the error of an option that is not known.
func (r *reader) optionError(name string) error {
	for _, known := range []struct{ option, needs string }{
		{"--dport", "-p tcp, udp, sctp or dccp"}, {"--sport", "-p tcp, udp, sctp or dccp"}, {"--destination-port", "-p tcp, udp, sctp or dccp"},
		{"--source-port", "-p tcp, udp, sctp or dccp"}, {"--syn", "-p tcp"}, {"--tcp-flags", "-p tcp"},
		{"--icmp-type", "-p icmp"}, {"--icmpv6-type", "-p icmpv6"}, {"--state", "-m state"}, {"--ctstate", "-m conntrack"},
		{"--dports", "-m multiport"}, {"--sports", "-m multiport"}, {"--ports", "-m multiport"},
		{"--reject-with", "-j REJECT"}, {"--log-prefix", "-j LOG"}, {"--to-source", "-j SNAT"},
		{"--to-destination", "-j DNAT"}, {"--comment", "-m comment"}, {"--limit", "-m limit"},
	} {
		if known.option == name {
			return fmt.Errorf("unknown option %q: it must follow %s", name, known.needs)
		}
	}
	return fmt.Errorf("unknown option %q", name)
}
