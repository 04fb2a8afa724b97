// SPDX-License-Identifier: Apache-2.0

package iptables

// The table raw, whose rules packets meet before their connections are known. In the configuration it is a text.

import (
	"fmt"
	"hash/fnv"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/iptables/commands"
	"github.com/polycube/polycube/iptables/language"
)

// rawChains are the chains of the table raw by family, as the configuration has them.
type rawChains [len(families)][]*commands.Chain

// readRaw reads the chains of the table raw, and notes which of their rules differ from those in effect.
func (n *change) readRaw() error {
	for set := range families {
		v, err := n.config.parseTable(set, raw)
		if err != nil {
			return err
		}
		n.raw[set] = v.Chains
		for _, c := range v.Chains {
			k := key{set, chainName{raw, c.Name}}
			var was []*rule
			if old := n.f.chains[k]; old != nil {
				was = old.rules
			}
			if entries := rawEntries(was, c.Rules); len(entries) > 0 {
				n.entries[k] = entries
			}
		}
	}
	return nil
}

// keep says under which ids the counters of rules are kept, which must not change when other rules do: a daemon that is killed
// has changed some of them. Each is a hash of the rule, and of how many before it say the same.
func (n *change) keep(c *chain, there map[*rule]bool) {
	said, used := map[string]uint32{}, map[uint32]bool{}
	for i, r := range c.rules {
		hash := fnv.New32a()
		_, _ = fmt.Fprint(hash, said[r.text], r.text) // never fails
		said[r.text]++
		id := hash.Sum32() &^ policyID
		for used[id] {
			id = (id + 1) &^ policyID
		}
		used[id] = true
		if id == r.kept {
			continue
		}
		is := *r
		is.kept = id
		c.rules[i] = &is
		if there[r] {
			there[&is] = true
		} else {
			delete(n.fresh, r)
			n.fresh[&is] = c
		}
	}
}

// rawEntries returns the changes that make some rules of others. The id of a rule is its place. Those that begin and end
// alike stay what they are, with their counters.
func rawEntries(was []*rule, is []language.Rule) (out []cube.Changed[Rule]) {
	old, texts := make([]string, len(was)), make([]string, len(is))
	for i := range was {
		old[i] = was[i].text
	}
	for i := range is {
		texts[i] = is[i].String()
	}
	first, last := commands.Alike(old, texts)
	at := func(i int, text string) *Rule {
		return &Rule{ID: uint32(i), RuleFields: RuleFields{Spec: &text}}
	}
	for i := first; i < len(was)-last; i++ {
		out = append(out, cube.Changed[Rule]{Old: at(i, old[i])})
	}
	for i := first; i < len(is)-last; i++ {
		out = append(out, cube.Changed[Rule]{New: at(i, texts[i])})
	}
	if len(was) == len(is) {
		return out
	}
	for i := range last {
		from, to := len(was)-last+i, len(is)-last+i
		out = append(out, cube.Changed[Rule]{Old: at(from, texts[to]), New: at(to, texts[to])})
	}
	return out
}

// any reports whether there are rules in the table raw.
func (r *rawChains) any() bool {
	for _, chains := range r {
		for _, c := range chains {
			if len(c.Rules) > 0 || c.Policy == "DROP" {
				return true
			}
		}
	}
	return false
}
