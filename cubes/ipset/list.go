// SPDX-License-Identifier: Apache-2.0

package ipset

// What the commands test, list and save print.

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/polycube/polycube/ipset"
)

// line is an element and its options, as ipset prints them.
type line struct {
	text    string
	options ipset.Options
}

func (l line) String() string { return strings.TrimRight(l.text+" "+l.options.String(), " ") }

// sorted returns the members of a set of sets in their order.
func (s *set) sorted() []*ipset.Entry {
	return slices.SortedFunc(maps.Values(s.wanted), ipset.ByPosition)
}

// lines returns the elements.
func (s *set) lines() (out []line, err error) {
	if s.slot == 0 {
		for _, p := range slices.SortedFunc(maps.Keys(s.prefixes), netip.Prefix.Compare) {
			out = append(out, line{text: inetText(p)})
		}
		return out, nil
	}
	if s.config.SetType == "list:set" {
		for _, e := range s.sorted() {
			out = append(out, line{text: e.Entry, options: ipset.Options{Comment: e.Comment}})
		}
		return out, nil
	}
	all, err := s.current()
	for _, m := range all {
		l := line{text: m.Entry.Entry, options: ipset.Options{Timeout: m.state.TimeLeft, NoMatch: m.NoMatch, Comment: m.Comment}}
		if m.state.Packets != nil {
			l.options.Counted, l.options.Packets, l.options.Bytes = true, *m.state.Packets, *m.state.Bytes
		}
		out = append(out, l)
	}
	return out, err
}

// elementSize and prefixSize are about what an element needs in the memory of programs, in bytes.
const (
	elementSize = 136
	prefixSize  = 80
)

// list prints the set as `ipset list` does.
func (s *set) list(c ipset.Command) (string, error) {
	if c.Names {
		return s.env.Name() + "\n", nil
	}
	lines, err := s.lines()
	if err != nil {
		return "", err
	}
	h := s.config.Header()
	searched, tested := s.addresses.Uses()
	size := elementSize
	if s.slot == 0 {
		size = prefixSize
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Name: %s\nType: %s\nRevision: 0\nHeader: %s\n", s.env.Name(), h.Type, strings.TrimPrefix(strings.TrimPrefix(h.String(), h.Type), " "))
	fmt.Fprintf(&b, "Size in memory: %d\nReferences: %d\nNumber of entries: %d\n", size*len(lines), searched+tested, len(lines))
	if c.Terse {
		return b.String(), nil
	}
	b.WriteString("Members:\n")
	for _, l := range lines {
		fmt.Fprintln(&b, l)
	}
	return b.String(), nil
}

// save prints the commands that make the set again.
func (s *set) save() (string, error) {
	lines, err := s.lines()
	var b strings.Builder
	fmt.Fprintf(&b, "create %s %s\n", s.env.Name(), s.config.Header())
	for _, l := range lines {
		fmt.Fprintf(&b, "add %s %s\n", s.env.Name(), l)
	}
	return b.String(), err
}

// test says whether the set has an element; an address is also in a set of prefixes if one of them contains it.
func (s *set) test(c ipset.Command) (string, error) {
	h := s.config.Header()
	e, err := h.Element(c.Entry)
	if err != nil {
		return "", failed("Syntax error: %v", err)
	}
	all, err := h.Expand(e)
	if err != nil {
		return "", failed("%v", err)
	}
	for _, e := range all {
		found, err := s.has(h, e, c.Options.NoMatch)
		if err != nil {
			return "", err
		}
		if !found {
			return "", failed("%s is NOT in set %s.", c.Entry, s.env.Name())
		}
	}
	return fmt.Sprintf("%s is in set %s.\n", c.Entry, s.env.Name()), nil
}

// has looks an element up as programs do.
func (s *set) has(h ipset.Header, e ipset.Element, nomatch bool) (bool, error) {
	for {
		there, err := s.entry(h, e)
		if there != 0 || err != nil {
			return there > 0 && !nomatch || there < 0 && nomatch, err
		}
		if !e.Net.IsValid() || e.Net.Bits() == 0 {
			return false, nil
		}
		e.Net = netip.PrefixFrom(e.Net.Addr(), e.Net.Bits()-1).Masked()
	}
}

// entry looks up exactly one element: -1 for an exception.
func (s *set) entry(h ipset.Header, e ipset.Element) (int, error) {
	there, err := s.find(h, e)
	if !there || err != nil || s.slot == 0 || h.Type == "list:set" {
		return map[bool]int{true: 1}[there], err
	}
	if is := s.wanted[keyOf(h, e)]; is != nil && is.NoMatch {
		return -1, nil
	}
	return 1, nil
}
