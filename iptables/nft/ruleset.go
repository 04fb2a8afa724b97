// SPDX-License-Identifier: Apache-2.0

package nft

// Which chains of iptables the chains of a rule set are.

import (
	"errors"
	"fmt"
	"slices"

	"github.com/polycube/polycube/iptables/language"
	"github.com/polycube/polycube/iptables/source"
)

// hooks are the chains of iptables by the hooks of nftables.
var hooks = map[string]string{"input": "INPUT", "forward": "FORWARD", "output": "OUTPUT"}

// families are those whose packets the tables of a family see.
var families = map[string][]language.Family{
	"ip": {language.IPv4}, "ip6": {language.IPv6}, "inet": {language.IPv4, language.IPv6},
}

// maxRules is how many rules of iptables a rule set may become.
const maxRules = 1 << 17

// place is the chain of iptables that a chain becomes in a family, or why it becomes none.
type place struct {
	name string
	why  error
}

// importer is a rule set while it is translated.
type importer struct {
	*ruleset
	out    source.Set
	places map[language.Family]map[chainKey]place
}

// Read reads the JSON of `nft -j list ruleset`. It fails if that is malformed.
func Read(input string) (*source.Set, error) {
	s, err := parse(input)
	if err != nil {
		return nil, err
	}
	n := &importer{ruleset: s, places: map[language.Family]map[chainKey]place{}}
	n.out.Handles, n.out.Chains = true, map[language.Family][]language.Chain{}
	for _, f := range families["inet"] {
		n.places[f] = map[chainKey]place{}
		n.placeBase(f)
		n.placeOthers(f)
	}
	for _, c := range s.chains {
		n.policy(c)
	}
	total := 0
	for _, r := range s.rules {
		one := n.translate(r)
		if total += len(one.Rules); total > maxRules {
			return nil, fmt.Errorf("the rules become more than %d in iptables", maxRules)
		}
		n.out.Rules = append(n.out.Rules, one)
	}
	return &n.out, nil
}

// effective reports whether a base chain may drop packets.
func (c *chain) effective() bool { return c.rules > 0 || c.Policy == "drop" }

// placeBase decides which base chains become INPUT, FORWARD and OUTPUT: for each hook the first that has an effect.
func (n *importer) placeBase(f language.Family) {
	taken := map[string]*chain{}
	base := slices.DeleteFunc(slices.Clone(n.chains), func(c *chain) bool { return c.Hook == "" || !slices.Contains(families[c.Family], f) })
	slices.SortStableFunc(base, func(a, b *chain) int {
		if a.effective() != b.effective() {
			return map[bool]int{true: -1, false: 1}[a.effective()]
		}
		return a.Priority - b.Priority
	})
	for _, c := range base {
		name, why := hooks[c.Hook], error(nil)
		switch {
		case c.Type == "nat":
			why = errors.New("addresses are translated by the cube nat")
		case name == "" || c.Type != "filter":
			why = fmt.Errorf("chains of the type %s at the hook %s are not imported: only filters at input, forward and output", c.Type, c.Hook)
		case taken[name] != nil && c.effective():
			why = fmt.Errorf("iptables has one chain for the hook %s, which is made of %s; move the rules there", c.Hook, taken[name].key())
		case taken[name] != nil:
			why = errors.New("another chain of its hook is imported") // it has no rules
		default:
			taken[name] = c
			policy := map[bool]string{true: "DROP", false: "ACCEPT"}[c.Policy == "drop"]
			n.out.Chains[f] = append(n.out.Chains[f], language.Chain{Name: name, Policy: policy})
		}
		n.places[f][c.key()] = place{name, why}
	}
	if len(taken) == 0 {
		return
	}
	for _, name := range language.BuiltIn("filter") { // a hook without chain lets all packets pass
		if taken[name] == nil {
			n.out.Chains[f] = append(n.out.Chains[f], language.Chain{Name: name, Policy: "ACCEPT"})
		}
	}
}

// placeOthers gives the chains without hook their names.
func (n *importer) placeOthers(f language.Family) {
	tables := map[[2]string]bool{}
	for k, p := range n.places[f] {
		if p.why == nil {
			tables[[2]string{k.family, k.table}] = true
		}
	}
	names := map[string]*chain{}
	for _, c := range n.chains {
		if c.Hook != "" || !slices.Contains(families[c.Family], f) {
			continue
		}
		_, err := language.ReadCommand(f, []string{"-N", c.Name})
		switch {
		case !tables[[2]string{c.Family, c.Table}]:
			err = fmt.Errorf("no imported chain of the table %s %s leads to it", c.Family, c.Table)
		case err != nil:
			err = fmt.Errorf("chain %s cannot be imported: %w; rename it", c.Name, err)
		case names[c.Name] != nil:
			err = fmt.Errorf("chain %s cannot be imported: there is one of this name in another table; rename it", c.Name)
		default:
			names[c.Name] = c
			n.out.Chains[f] = append(n.out.Chains[f], language.Chain{Name: c.Name, Policy: "-"})
		}
		n.places[f][c.key()] = place{c.Name, err}
	}
}

// policy reports the policy of a base chain that drops packets and is not imported.
func (n *importer) policy(c *chain) {
	if c.Hook == "" || c.Policy != "drop" {
		return
	}
	one := source.Rule{
		At: c.Handle, Where: c.key().String(), Effect: source.MayPass,
		Text: fmt.Sprintf("type %s hook %s priority %d; policy drop;", c.Type, c.Hook, c.Priority),
	}
	for _, f := range families[c.Family] {
		if why := n.places[f][c.key()].why; why != nil {
			one.Leave(f, why)
		}
	}
	if len(families[c.Family]) == 0 {
		one.Reasons = []string{notOurs}
	}
	if len(one.Reasons) > 0 {
		n.out.Rules = append(n.out.Rules, one)
	}
}

// notOurs is why tables of other families are left out.
const notOurs = "only tables of the families ip, ip6 and inet are imported"

// translate returns what a rule becomes in the families of its table.
func (n *importer) translate(r *rule) source.Rule {
	k := chainKey{r.Family, r.Table, r.Chain}
	one := source.Rule{At: r.Handle, Where: k.String(), Text: r.String(), Effect: r.effect()}
	for _, f := range families[r.Family] {
		to := n.places[f][k]
		if to.why != nil {
			one.Leave(f, to.why)
			continue
		}
		one.Chain = to.name
		d := &draft{of: f, chain: to.name, rule: r, rules: n.ruleset, target: func(name string) (string, error) {
			p, ok := n.places[f][chainKey{r.Family, r.Table, name}]
			if !ok || p.name == "" && p.why == nil {
				return "", fmt.Errorf("there is no chain %q in the table", name)
			}
			return p.name, p.why
		}}
		rules, err := d.translate()
		switch {
		case errors.Is(err, errNever): // nothing is missing without it
		case err != nil:
			one.Leave(f, err)
		default:
			one.Rules = append(one.Rules, rules...)
		}
	}
	if len(families[r.Family]) == 0 {
		one.Reasons = []string{notOurs}
	}
	if len(one.Rules) > 1 { // which cannot share the counters
		for i := range one.Rules {
			one.Rules[i] = one.Rules[i].Counted(0, 0)
		}
	}
	return one
}
