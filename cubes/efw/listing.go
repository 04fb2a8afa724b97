// SPDX-License-Identifier: Apache-2.0

package efw

// The host's rules with the total counters of stack and fast path: as entries of a list, and as the host's iptables prints them.

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/iptables/commands"
	"github.com/polycube/polycube/iptables/language"
	"github.com/polycube/polycube/iptables/offload"
)

// bothFamilies is the family name of chains that packets of both families traverse.
const bothFamilies = "INET"

type ruleState struct {
	Family  string  `json:"family"`
	Name    string  `json:"name"`
	Number  int     `json:"number"`
	Packets *uint64 `json:"packets,omitempty"`
	Bytes   *uint64 `json:"bytes,omitempty"`
	Text    string  `json:"text"`
}

type listingState struct {
	Family string `json:"family"`
	Text   string `json:"text"`
	Exact  string `json:"exact"`
}

// now are the host's current rules, with the fast path's counters by their names.
type now struct {
	hosts hosts
	*compiled
	counted [len(families)]map[string]inet.Count
}

// now reads them.
func (e *efw) now(ctx context.Context) (n now, err error) {
	if n.hosts, err = e.readHosts(ctx, e.parent, e.config.Outputs); err != nil {
		return n, err
	}
	n.compiled = compile(n.hosts)
	for f := range families {
		if n.counted[f], err = e.rules.countedIn(f); err != nil {
			return n, err
		}
	}
	return n, nil
}

// lines returns the lines of a family, grouped by chain. A user-defined chain that both hooks lead to appears once.
func (n *now) lines(family int) (out []offload.Line) {
	seen := map[string]bool{}
	for _, p := range n.programs[family] {
		for _, l := range p.Lines {
			if name := key(l.Rule); !seen[name] {
				seen[name] = true
				out = append(out, l)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b offload.Line) int { return strings.Compare(a.Chain, b.Chain) })
	return out
}

// chains lists the rules.
func (e *efw) chains(ctx context.Context) (out []ruleState, err error) {
	n, err := e.now(ctx)
	if err != nil {
		return nil, err
	}
	both := map[string]bool{}
	for f := range families {
		for _, l := range n.lines(f) {
			name := key(l.Rule)
			if both[name] {
				continue
			}
			count, family := n.counted[f][name], familyNames[f]
			if l.Both {
				both[name], family = true, bothFamilies
				count = plus(count, n.counted[1-f][name])
			}
			one := ruleState{Family: family, Name: l.Chain, Number: l.Number, Text: l.Text}
			if !l.Uncounted {
				packets, bytes := l.Packets+count.Packets, l.Bytes+count.Bytes
				one.Packets, one.Bytes = &packets, &bytes
			}
			out = append(out, one)
		}
	}
	return out, nil
}

// errChanged is returned if rules changed while they were listed.
var errChanged = fmt.Errorf("the rules changed while they were read; try again: %w", cube.ErrInUse)

// listings lists the table filter of iptables for each family that has one.
func (e *efw) listings(ctx context.Context) (out []listingState, err error) {
	n, err := e.now(ctx)
	if err != nil {
		return nil, err
	}
	for f := range families {
		program := n.hosts[f].Firewall()
		if program == "" {
			continue
		}
		if families[f] == language.IPv6 {
			program = "ip6" + strings.TrimPrefix(program, "ip")
		}
		text, err := e.printed(ctx, program, "-w", "5", "-L", "-v", "-n", "-x")
		if err != nil {
			return nil, err
		}
		l, err := n.merge(f, text)
		if err != nil {
			return nil, fmt.Errorf("%s -L: %w", program, err)
		}
		out = append(out, listingState{familyNames[f], l.Text, l.Exact})
	}
	return out, nil
}

// merge adds the fast path's counters to a listing.
func (n *now) merge(family int, text string) (commands.Listing, error) {
	type at struct {
		chain  string
		number int
	}
	counts, last := map[at]commands.Counts{}, map[string]int{}
	for _, l := range n.lines(family) {
		c := n.counted[family][key(l.Rule)]
		counts[at{l.Chain, l.Number}] = commands.Counts{Packets: c.Packets, Bytes: c.Bytes}
		last[l.Chain] = max(last[l.Chain], l.Number)
	}
	l, err := commands.Merge(text, func(chain string, number int) commands.Counts { return counts[at{chain, number}] })
	if err != nil {
		return l, err
	}
	for chain, rules := range last {
		if got, ok := l.Rules[chain]; ok && got != rules {
			return l, errChanged
		}
	}
	return l, nil
}

// printed returns the output of a program of the host, run in the namespace of the netdevs.
func (e *efw) printed(ctx context.Context, program string, args ...string) (out string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err = e.visit(func() error {
		text, err := start(ctx, program, args...)()
		out = string(text)
		return err
	})
	return out, err
}
