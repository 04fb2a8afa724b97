// SPDX-License-Identifier: Apache-2.0

package nft

// The tables of a host, with their filter chains as rules of iptables that judge and count each packet as these do.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/polycube/polycube/iptables/language"
)

// maxExact is how many rules one rule may become for a host, and how many elements a set may have.
const maxExact = 4096

// Host is the rule set of a host.
type Host struct{ *ruleset }

// HostTable is a table, as packets of a family meet it.
type HostTable struct {
	Family, Name string
	Chains       []HostChain
	Flowtables   []string
	// Tracks is whether its rules may ask for connections, Alters whether they may give them helpers, zones or the like.
	Tracks, Alters bool
}

// HostChain is a chain. Without Hook it is one that rules lead to. Type, Hook and Policy are in nft's words.
type HostChain struct {
	Name, Type, Hook, Policy string
	Priority                 int
	// Rules are read if the table filters packets for the host, or packets that it forwards. Empty is whether there are none.
	Rules []HostRule
	Empty bool
}

// HostRule is a rule.
type HostRule struct {
	Handle uint64
	Text   string
	// Is are the rules that it is. A packet matches one of them at most; if there are none, it matches none. Jumps have the names of
	// the table's chains.
	Is []language.Rule
	// Why says why it cannot be read, if not empty. Then Is are the conditions that it has among others.
	Why string
	// Counted is whether it has a counter, Packets and Bytes are what it has counted.
	Counted        bool
	Packets, Bytes uint64
}

// ReadHost reads the JSON of `nft -j list ruleset`, or that of several `nft -j list table` together.
func ReadHost(inputs ...string) (*Host, error) {
	s, err := parse(inputs...)
	if err != nil {
		return nil, err
	}
	s.updated = map[chainKey]bool{}
	for _, r := range s.rules {
		for _, statement := range r.Expr {
			if kind, value, _ := only(statement); kind != "match" {
				s.noteUpdated(r, value)
			}
		}
	}
	return &Host{s}, nil
}

// noteUpdated notes the sets that a statement changes: all that it names, wherever.
func (s *ruleset) noteUpdated(r *rule, value any) {
	object, _ := value.(map[string]any)
	for _, name := range []string{"set", "map"} {
		if t, ok := object[name].(string); ok && t != "" && t[0] == '@' {
			s.updated[chainKey{r.Family, r.Table, t[1:]}] = true
		}
	}
}

// Tables returns the tables that packets of a family meet, without those to skip.
func (h *Host) Tables(of language.Family, skip func(family, table string) bool) (out []HostTable, err error) {
	at := map[[2]string]int{}
	table := func(family, name string) *HostTable {
		k := [2]string{family, name}
		if !slices.Contains([]string{"netdev", "bridge"}, family) && !slices.Contains(families[family], of) || skip(family, name) {
			return nil
		}
		if _, ok := at[k]; !ok {
			at[k] = len(out)
			out = append(out, HostTable{Family: family, Name: name})
		}
		return &out[at[k]]
	}
	for _, k := range h.flowtables {
		if t := table(k.family, k.table); t != nil {
			t.Flowtables = append(t.Flowtables, k.name)
		}
	}
	for _, c := range h.chains {
		if t := table(c.Family, c.Table); t != nil && !h.dormant[[2]string{c.Family, c.Table}] {
			t.Chains = append(t.Chains, HostChain{Name: c.Name, Type: c.Type, Hook: c.Hook, Policy: c.Policy, Priority: c.Priority, Empty: c.rules == 0})
		}
	}
	total := 0
	for _, r := range h.rules {
		t := table(r.Family, r.Table)
		if t == nil {
			continue
		}
		tracks, alters := r.connections()
		t.Tracks, t.Alters = t.Tracks || tracks, t.Alters || alters
		c := slices.IndexFunc(t.Chains, func(c HostChain) bool { return c.Name == r.Chain })
		if c < 0 || !t.filters() {
			continue
		}
		one := h.rule(of, r)
		if total += len(one.Is); total > maxRules {
			return nil, fmt.Errorf("the rules are more than %d of iptables", maxRules)
		}
		t.Chains[c].Rules = append(t.Chains[c].Rules, one)
	}
	return out, nil
}

// Filters reports whether a chain filters packets for the host, or those that it forwards.
func (c *HostChain) Filters() bool {
	return c.Type == "filter" && (c.Hook == "input" || c.Hook == "forward")
}

// filters reports whether the table has such a chain.
func (t *HostTable) filters() bool {
	return families[t.Family] != nil && slices.ContainsFunc(t.Chains, func(c HostChain) bool { return c.Filters() })
}

// rule reads a rule for a family.
func (h *Host) rule(of language.Family, r *rule) HostRule {
	one := HostRule{Handle: r.Handle, Text: r.String()}
	d := h.draft(of, r)
	rules, err := d.translate()
	one.Packets, one.Bytes = r.counts()
	one.Counted = slices.ContainsFunc(r.Expr, func(s map[string]any) bool { _, ok := s["counter"].(map[string]any); return ok })
	switch {
	case err == nil:
		one.Is = named(h, rules)
	case !errors.Is(err, errNever):
		one.Is, one.Why = h.hull(of, r)
	}
	return one
}

// draft returns an empty one, which names chains by their place: iptables takes fewer names than nft.
func (h *Host) draft(of language.Family, r *rule) *draft {
	return &draft{of: of, chain: "FORWARD", rule: r, rules: h.ruleset, exact: true, target: func(name string) (string, error) {
		i := slices.IndexFunc(h.chains, func(c *chain) bool { return c.key() == chainKey{r.Family, r.Table, name} })
		if i < 0 {
			return "", fmt.Errorf("there is no chain %q in the table", name)
		}
		return "c" + strconv.Itoa(i), nil
	}}
}

// named gives the jumps of rules the names of chains.
func named(h *Host, rules []language.Rule) []language.Rule {
	for i := range rules {
		if j, ok := rules[i].Target.(language.Jump); ok {
			n, _ := strconv.Atoi(j.Chain[1:])
			j.Chain = h.chains[n].Name
			rules[i].Target = j
		}
	}
	return rules
}

// hull returns the conditions in front of the first statement that rules of iptables cannot be, which may change something for
// packets that meet no later one.
func (h *Host) hull(of language.Family, r *rule) (is []language.Rule, why string) {
	is = []language.Rule{{Family: of}}
	for n := range r.Expr {
		short := *r
		short.Expr = r.Expr[:n+1]
		rules, err := h.draft(of, &short).translate()
		kind, _, _ := only(r.Expr[n])
		switch {
		case errors.Is(err, errNever):
			return nil, ""
		case err != nil:
			return is, "the fast path cannot evaluate " + statementText(r.Expr[n])
		case kind == "match":
			is = rules
		}
	}
	return is, "the fast path cannot evaluate it"
}

// connections reports whether a rule may make the kernel track connections, and whether it may give them what changes the state of
// others: helpers, zones, timeouts.
func (r *rule) connections() (tracks, alters bool) {
	for _, s := range r.Expr {
		kind, value, _ := only(s)
		switch kind {
		case "match", "vmap", "counter", "limit", "quota", "log", "accept", "drop", "continue", "return", "jump", "goto", "reject", "queue", "last",
			"set", "map":
			tracks = tracks || mentionsConnection(value)
		case "mangle":
			tracks = tracks || mentionsConnection(value)
			object, _ := value.(map[string]any)
			alters = alters || mentionsConnection(object["key"])
		case "masquerade", "snat", "dnat", "redirect", "ct count":
			tracks = true
		default: // a helper, a module of iptables, a flow table, or what a newer kernel has
			tracks, alters = true, true
		}
	}
	return tracks, alters
}

// mentionsConnection reports whether an expression has one about connections in it.
func mentionsConnection(in any) bool {
	switch in := in.(type) {
	case []any:
		return slices.ContainsFunc(in, mentionsConnection)
	case map[string]any:
		for name, v := range in {
			if name == "ct" || strings.HasPrefix(name, "ct ") || mentionsConnection(v) {
				return true
			}
		}
	}
	return false
}

// prefixes replaces ranges of addresses by prefixes.
func (d *draft) prefixes(items []item) (out []item, err error) {
	for _, i := range items {
		if !i.ranged() {
			out = append(out, i)
			continue
		}
		_, first, last, err := i.address(d.of)
		if err != nil {
			return nil, err
		}
		from, errFirst := netip.ParseAddr(first)
		to, errLast := netip.ParseAddr(last)
		if err := errors.Join(errFirst, errLast); err != nil {
			return nil, err
		}
		for _, p := range (language.AddressRange{First: from, Last: to}).Prefixes() {
			out = append(out, item{p.Addr().String(), p.Addr().String(), p.Bits()})
		}
	}
	return out, nil
}
