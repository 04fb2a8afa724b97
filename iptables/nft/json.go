// SPDX-License-Identifier: Apache-2.0

// Package nft reads what `nft -j list ruleset` prints, the format of libnftables-json(5), and says which rules of iptables its
// filter chains are. A rule of nftables is imported only if rules of iptables judge each packet as it does; for any other, the
// reason is given. The input may come from anyone: what it becomes is bounded.
package nft

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// chainKey is a chain or set by the family and name of its table, and its own name.
type chainKey struct{ family, table, name string }

func (k chainKey) String() string { return k.family + " " + k.table + " " + k.name }

// chain is a chain; a base chain has a hook.
type chain struct {
	Family, Table, Name, Type, Hook, Policy string
	Handle                                  uint64
	Priority                                int `json:"prio"`
	rules                                   int
}

func (c *chain) key() chainKey { return chainKey{c.Family, c.Table, c.Name} }

// set is a set, or a map: then its elements are pairs. Stmt are statements that each element carries out.
type set struct {
	Family, Table, Name string
	Type, Map           any
	Flags               any
	Elem                []any
	Stmt                []any
}

// rule is a rule. Its statements are JSON objects with one member, whose name is that of the statement.
type rule struct {
	Family, Table, Chain, Comment string
	Handle                        uint64
	Expr                          []map[string]any
}

// ruleset is what was read.
type ruleset struct {
	chains     []*chain
	rules      []*rule
	sets       map[chainKey]*set
	maps       map[chainKey]*set
	flowtables []chainKey
	dormant    map[[2]string]bool // tables by family and name
	// updated are the sets that rules change. Nil: such rules say so themselves, where they are imported.
	updated map[chainKey]bool
}

// parse reads the JSON. It refuses what nft does not print.
func parse(inputs ...string) (*ruleset, error) {
	s := &ruleset{sets: map[chainKey]*set{}, maps: map[chainKey]*set{}, dormant: map[[2]string]bool{}}
	for _, input := range inputs {
		if err := s.read(input); err != nil {
			return nil, err
		}
	}
	return s, s.link()
}

// read reads one input.
func (s *ruleset) read(input string) error {
	in := json.NewDecoder(strings.NewReader(input))
	in.UseNumber()
	var top struct {
		Nftables *[]map[string]json.RawMessage `json:"nftables"`
	}
	if err := in.Decode(&top); err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return errors.New("read JSON: something follows the first object")
	}
	if top.Nftables == nil {
		return errors.New("the JSON has no member \"nftables\": it is not what `nft -j list ruleset` prints")
	}
	for i, object := range *top.Nftables {
		if len(object) != 1 {
			return fmt.Errorf("object %d has %d members: nft prints one", i, len(object))
		}
		for kind, raw := range object {
			if err := s.add(kind, raw); err != nil {
				return fmt.Errorf("object %d (%s): %w", i, kind, err)
			}
		}
	}
	return nil
}

// decode reads a part, with numbers as they are written.
func decode(raw json.RawMessage, to any) error {
	in := json.NewDecoder(strings.NewReader(string(raw)))
	in.UseNumber()
	return in.Decode(to)
}

// add reads one object.
func (s *ruleset) add(kind string, raw json.RawMessage) error {
	switch kind {
	case "chain":
		c := &chain{}
		s.chains = append(s.chains, c)
		return decode(raw, c)
	case "rule":
		r := &rule{}
		s.rules = append(s.rules, r)
		return decode(raw, r)
	case "set", "map":
		one := &set{}
		if err := decode(raw, one); err != nil {
			return err
		}
		k := chainKey{one.Family, one.Table, one.Name}
		if kind == "map" {
			s.maps[k] = one
		} else {
			s.sets[k] = one
		}
	case "flowtable":
		var k struct{ Family, Table, Name string }
		if err := decode(raw, &k); err != nil {
			return err
		}
		s.flowtables = append(s.flowtables, chainKey{k.Family, k.Table, k.Name})
	case "table":
		var t struct {
			Family, Name string
			Flags        any
		}
		if err := decode(raw, &t); err != nil {
			return err
		}
		s.dormant[[2]string{t.Family, t.Name}] = strings.Contains(text(t.Flags), "dormant")
	case "add", "replace", "create", "insert", "delete", "flush", "list", "reset", "rename":
		return errors.New("this is a command for nft: import what `nft -j list ruleset` prints")
	}
	return nil // objects that only rules give an effect
}

// link checks that rules are in chains.
func (s *ruleset) link() error {
	chains := map[chainKey]*chain{}
	for _, c := range s.chains {
		if chains[c.key()] != nil {
			return fmt.Errorf("chain %s is there twice", c.key())
		}
		chains[c.key()] = c
	}
	for _, r := range s.rules {
		c := chains[chainKey{r.Family, r.Table, r.Chain}]
		if c == nil {
			return fmt.Errorf("rule %d: there is no chain %s", r.Handle, chainKey{r.Family, r.Table, r.Chain})
		}
		c.rules++
		for _, statement := range r.Expr {
			if len(statement) != 1 {
				return fmt.Errorf("rule %d: a statement has %d members: nft prints one", r.Handle, len(statement))
			}
		}
	}
	return nil
}
