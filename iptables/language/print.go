// SPDX-License-Identifier: Apache-2.0

package language

// Printing as `iptables -S` and iptables-save do.

import (
	"strconv"
	"strings"
)

// String returns the options of the rule as `iptables -S` prints them, without -A and the chain.
func (r Rule) String() string {
	parts := []string{
		when(!r.Source.Any(), bang(r.Source.Not, "-s "+r.Source.String())),
		when(!r.Destination.Any(), bang(r.Destination.Not, "-d "+r.Destination.String())),
		when(r.In != Interface{}, bang(r.In.Not, "-i "+r.In.String())),
		when(r.Out != Interface{}, bang(r.Out.Not, "-o "+r.Out.String())),
		when(r.Protocol.Number != 0, bang(r.Protocol.Not, "-p "+r.Protocol.String())),
		[]string{"", "-f", "! -f"}[r.Fragment],
	}
	for _, m := range r.Matches {
		parts = append(parts, "-m "+m.Name(), m.String())
	}
	if r.Target != nil {
		letter := "-j "
		if j, ok := r.Target.(Jump); ok && j.Goto {
			letter = "-g "
		}
		parts = append(parts, letter+r.Target.Name(), r.Target.String())
	}
	return joined(parts...)
}

// String returns the name, with + after a prefix.
func (i Interface) String() string { return i.Name + when(i.Prefix, "+") }

// Lines returns the command line, without the name of the program; one for each rule if there are several.
func (c Command) Lines() []string {
	var options []string
	if c.Table != "filter" {
		options = append(options, "-t "+c.Table)
	}
	if c.Wait {
		options = append(options, joined("-w", when(c.WaitSeconds != 0, strconv.Itoa(c.WaitSeconds))))
	}
	number := ""
	if c.Number != 0 && (c.Op != 'I' || c.Number != 1) {
		number = strconv.Itoa(c.Number)
	}
	options = append(options, joined("-"+string(rune(c.Op)), c.Chain, number, c.Name), when(c.Zero, "-Z"),
		when(c.Numeric, "-n"), when(c.Verbose, "-v"), when(c.Exact, "-x"), when(c.LineNumbers, "--line-numbers"))
	line := joined(options...)
	if len(c.Rules) == 0 {
		return []string{line}
	}
	lines := make([]string, len(c.Rules))
	for i, r := range c.Rules {
		counters := ""
		if r.Packets != 0 || r.Bytes != 0 {
			counters = "-c " + strconv.FormatUint(r.Packets, 10) + " " + strconv.FormatUint(r.Bytes, 10)
		}
		lines[i] = joined(line, r.String(), counters)
	}
	return lines
}

// String returns the lines.
func (c Command) String() string { return strings.Join(c.Lines(), "\n") }
