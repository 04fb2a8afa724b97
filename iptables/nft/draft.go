// SPDX-License-Identifier: Apache-2.0

package nft

// The rules of iptables that one rule of nftables becomes.

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/iptables/language"
)

// maxCopies is how many rules one rule may become in a family.
const maxCopies = 256

// draft is a rule of a family while its statements are read, in their order.
type draft struct {
	of     language.Family
	chain  string
	rule   *rule
	rules  *ruleset
	target func(name string) (string, error) // the name here of a chain that it leads to
	// exact refuses what the rules of iptables would count otherwise, and has ranges of addresses as prefixes.
	exact   bool
	counted bool

	// Conditions: protocols, any if nil, without those in except; and for each of the alternatives one of its option lists.
	protocols, except []uint8
	alternatives      [][][]string
	single            []port
	icmp              struct {
		types, codes []uint64
		not          bool
	}
	hasPorts, transport bool            // ports, or options of -m tcp, are compared
	marks, several      bool            // the mark is compared, with several values
	used                map[string]bool // options that iptables takes once

	// What has been done to packets, which later matches cannot undo.
	limited, logged, marked, ended bool
	emitted                        []language.Rule
}

// port is one port or range.
type port struct {
	not         bool
	field, text string
}

// clone returns a copy that shares nothing that changes.
func (d *draft) clone() *draft {
	c := *d
	c.protocols, c.except, c.alternatives = slices.Clone(d.protocols), slices.Clone(d.except), slices.Clone(d.alternatives)
	c.single, c.emitted = slices.Clone(d.single), nil
	c.used = map[string]bool{}
	for name := range d.used {
		c.used[name] = true
	}
	return &c
}

// most is how many rules one rule, and how many elements a set, may have.
func (d *draft) most() int {
	if d.exact {
		return maxExact
	}
	return maxCopies
}

// only restricts the protocols.
func (d *draft) only(to []uint8) error {
	if d.protocols == nil {
		d.protocols = slices.Clone(to)
	} else {
		d.protocols = slices.DeleteFunc(d.protocols, func(p uint8) bool { return !slices.Contains(to, p) })
	}
	if len(d.protocols) == 0 {
		return errNever
	}
	return nil
}

// add adds a condition.
func (d *draft) add(words []string) error {
	d.alternatives = append(d.alternatives, [][]string{words})
	return nil
}

// emit adds a rule for each combination of the alternatives, with a target.
func (d *draft) emit(target ...string) error {
	if d.icmp.codes != nil && (d.icmp.types == nil || d.icmp.not) {
		return errors.New("iptables compares ICMP codes only together with a type")
	}
	prefixes, err := d.protocolWords()
	if err != nil {
		return err
	}
	bodies := [][]string{nil}
	for _, a := range append([][][]string{d.icmpWords()}, d.alternatives...) {
		if a == nil {
			continue
		}
		if len(a)*len(bodies)*len(prefixes) > d.most() {
			return fmt.Errorf("it would become more than %d rules; use -m set with an ipset cube", d.most())
		}
		var longer [][]string
		for _, b := range bodies {
			for _, words := range a {
				longer = append(longer, slices.Concat(b, words))
			}
		}
		bodies = longer
	}
	if d.limited && len(prefixes)*len(bodies) > 1 {
		return errors.New("it would become several rules, each with a rate of its own")
	}
	for _, p := range prefixes {
		for _, b := range bodies {
			args := slices.Concat([]string{"-A", d.chain}, p, b, d.commentWords(), target)
			c, err := language.ReadCommand(d.of, args)
			if err != nil {
				return err
			}
			d.emitted = append(d.emitted, c.Rules...)
		}
	}
	return nil
}

// protocolWords returns the options of each protocol, with the ports that are compared one by one.
func (d *draft) protocolWords() (out [][]string, err error) {
	if d.protocols == nil {
		switch {
		case d.hasPorts:
			return nil, errors.New("iptables compares ports of a protocol: write meta l4proto { tcp, udp } before")
		case len(d.except) > 1:
			return nil, errors.New("iptables excludes one protocol in a rule")
		case len(d.except) == 1:
			return [][]string{{"!", "-p", strconv.Itoa(int(d.except[0]))}}, nil
		}
		return [][]string{nil}, nil
	}
	for _, p := range d.protocols {
		if slices.Contains(d.except, p) {
			continue
		}
		words := []string{"-p", strconv.Itoa(int(p))}
		name := map[uint8]string{unix.IPPROTO_TCP: "tcp", unix.IPPROTO_UDP: "udp"}[p]
		if name != "" && (d.transport || len(d.single) > 0) {
			words = append(words, "-m", name)
		}
		for _, s := range d.single {
			if name == "" {
				words = append(append(words, "-m", "multiport"), bang(s.not, "--"+s.field+"s", s.text)...)
			} else {
				words = append(words, bang(s.not, "--"+s.field, s.text)...)
			}
		}
		out = append(out, words)
	}
	if out == nil {
		return nil, errNever
	}
	return out, nil
}

// icmpWords returns the alternatives of ICMP types and codes; nil if none are compared.
func (d *draft) icmpWords() (out [][]string) {
	match, option := "icmp", "--icmp-type"
	if d.of == language.IPv6 {
		match, option = "icmp6", "--icmpv6-type"
	}
	codes := []string{""}
	if d.icmp.codes != nil {
		codes = nil
		for _, c := range d.icmp.codes {
			codes = append(codes, "/"+strconv.FormatUint(c, 10))
		}
	}
	for _, t := range d.icmp.types {
		for _, c := range codes {
			out = append(out, append([]string{"-m", match}, bang(d.icmp.not, option, strconv.FormatUint(t, 10)+c)...))
		}
	}
	if d.icmp.not {
		return [][]string{slices.Concat(out...)}
	}
	return out
}

// commentWords returns the comment, unless iptables cannot keep it: it changes nothing for packets.
func (d *draft) commentWords() []string {
	c := d.rule.Comment
	if c == "" || len(c) > 255 || strings.IndexFunc(c, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0 {
		return nil
	}
	return []string{"-m", "comment", "--comment", c}
}
