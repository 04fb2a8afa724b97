// SPDX-License-Identifier: Apache-2.0

package commands

// The output of -L and -S.

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/polycube/polycube/iptables/language"
)

// print prints a chain, or all, and sets the counters to zero if the command wants that.
func (e *editor) print(c language.Command, chain func(*Chain, language.Command)) error {
	first := true
	if c.Op == 'S' && c.Chain == "" {
		for _, each := range e.view.Chains {
			e.declare(each, c)
		}
	}
	err := e.each(c.Chain, func(each *Chain) error {
		if c.Op == 'L' && !first {
			e.out.WriteString("\n")
		}
		first = false
		chain(each, c)
		return nil
	})
	if err == nil && c.Zero {
		err = e.each(c.Chain, e.zeroChain)
	}
	return err
}

// declare prints the command that makes a chain, or sets its policy.
func (e *editor) declare(chain *Chain, c language.Command) {
	if chain.Policy == "" {
		fmt.Fprintf(&e.out, "-N %s\n", chain.Name)
		return
	}
	counters := ""
	if c.Verbose {
		counters = fmt.Sprintf(" -c %d %d", chain.Packets, chain.Bytes)
	}
	fmt.Fprintf(&e.out, "-P %s %s%s\n", chain.Name, chain.Policy, counters)
}

// commands prints the commands that make the rules of a chain.
func (e *editor) commands(chain *Chain, c language.Command) {
	if c.Chain != "" && c.Number == 0 {
		e.declare(chain, c)
	}
	for i, r := range chain.Rules {
		if c.Number != 0 && i != c.Number-1 {
			continue
		}
		text := "-A " + chain.Name
		if c.Verbose {
			target := r.Target
			r.Target = nil
			text = joined(text, r.String(), fmt.Sprintf("-c %d %d", r.Packets, r.Bytes))
			r = language.Rule{Family: r.Family, Target: target}
		}
		fmt.Fprintln(&e.out, joined(text, r.String()))
	}
}

// joined joins the parts that are not empty.
func joined(parts ...string) string {
	out := ""
	for _, p := range parts {
		if p != "" && out != "" {
			out += " "
		}
		out += p
	}
	return out
}

// number prints a counter, with a suffix unless the exact number is wanted.
func number(n uint64, exact bool) string {
	if exact || n <= 99999 {
		return strconv.FormatUint(n, 10)
	}
	for _, suffix := range "KMGT" {
		n = (n + 500) / 1000
		if n <= 9999 || suffix == 'T' {
			return strconv.FormatUint(n, 10) + string(suffix)
		}
	}
	return ""
}

// listed prints a chain as a table.
func (e *editor) listed(chain *Chain, c language.Command) {
	if c.Number == 0 {
		e.heading(chain, c)
	}
	for i, r := range chain.Rules {
		if c.Number == 0 || i == c.Number-1 {
			e.row(i, &r, c)
		}
	}
}

func (e *editor) heading(chain *Chain, c language.Command) {
	switch {
	case chain.Policy == "":
		fmt.Fprintf(&e.out, "Chain %s (%d references)\n", chain.Name, e.view.references(chain.Name))
	case c.Verbose:
		fmt.Fprintf(&e.out, "Chain %s (policy %s %s packets, %s bytes)\n", chain.Name, chain.Policy,
			number(chain.Packets, c.Exact), number(chain.Bytes, c.Exact))
	default:
		fmt.Fprintf(&e.out, "Chain %s (policy %s)\n", chain.Name, chain.Policy)
	}
	if c.LineNumbers {
		e.out.WriteString("num  ")
	}
	switch {
	case c.Verbose && c.Exact:
		fmt.Fprintf(&e.out, "%8s %10s ", "pkts", "bytes")
	case c.Verbose:
		fmt.Fprintf(&e.out, "%5s %5s ", "pkts", "bytes")
	}
	fmt.Fprintf(&e.out, "%-9s  %-4s %s ", "target", "prot", "opt")
	if c.Verbose {
		fmt.Fprintf(&e.out, "%-6s %-6s  ", "in", "out")
	}
	fmt.Fprintf(&e.out, "%-19s  %-19s \n", "source", "destination")
}

// row prints a rule.
func (e *editor) row(i int, r *language.Rule, c language.Command) {
	if c.LineNumbers {
		fmt.Fprintf(&e.out, "%-4d ", i+1)
	}
	switch {
	case c.Verbose && c.Exact:
		fmt.Fprintf(&e.out, "%8d %10d ", r.Packets, r.Bytes)
	case c.Verbose:
		fmt.Fprintf(&e.out, "%5s %5s ", number(r.Packets, false), number(r.Bytes, false))
	}
	target := ""
	if r.Target != nil {
		target = r.Target.Name()
	}
	fmt.Fprintf(&e.out, "%-9s %1s%-4s %s ", target, not(r.Protocol.Not), protocolName(r.Protocol, c.Numeric), options(r))
	if c.Verbose {
		fmt.Fprintf(&e.out, " %-6s %-6s ", interfaceName(r.In), interfaceName(r.Out))
	}
	fmt.Fprintf(&e.out, "%1s%-19s %1s%-19s ", not(r.Source.Not), address(r.Source, r.Family, c.Numeric),
		not(r.Destination.Not), address(r.Destination, r.Family, c.Numeric))
	if j, ok := r.Target.(language.Jump); ok && j.Goto {
		e.out.WriteString("[goto] ")
	}
	for _, m := range r.Matches {
		if text := listedMatch(m, c.Numeric); text != "" {
			e.out.WriteString(" " + text)
		}
	}
	if text := listedTarget(r.Target, c.Numeric); text != "" {
		e.out.WriteString(" " + text)
	}
	e.out.WriteString("\n")
}

// not is the mark of a negation.
func not(negated bool) string {
	if negated {
		return "!"
	}
	return ""
}

// protocolName is the name of a protocol, or its number.
func protocolName(p language.Protocol, numeric bool) string {
	switch {
	case numeric:
		return strconv.Itoa(int(p.Number))
	case p.Number == 0:
		return "all"
	}
	return p.String()
}

// options are those for fragments.
func options(r *language.Rule) string {
	return [...]string{language.AnyFragment: "--", language.LaterFragments: "-f", language.FirstFragment: "!f"}[r.Fragment]
}

func interfaceName(i language.Interface) string {
	if i == (language.Interface{}) {
		return "*"
	}
	return not(i.Not) + i.String()
}

// address is an address without the length of a single host.
func address(a language.Address, family language.Family, numeric bool) string {
	switch {
	case a.Any() && !numeric:
		return "anywhere"
	case a.Any() && family == language.IPv6:
		return "::/0"
	case a.Any():
		return "0.0.0.0/0"
	}
	return strings.TrimSuffix(a.String(), map[language.Family]string{language.IPv4: "/32", language.IPv6: "/128"}[family])
}
