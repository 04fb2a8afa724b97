// SPDX-License-Identifier: Apache-2.0

package iptables

// The action `run`: commands of iptables, as package commands carries them out.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/iptables/commands"
	"github.com/polycube/polycube/iptables/language"
)

// run carries out a command.
func (f *iptables) run(input json.RawMessage) (cube.ActionResult, error) {
	in, err := commands.ReadRequest(input)
	if err != nil {
		return cube.ActionResult{}, err
	}
	if in.Program == commands.ImportProgram {
		return f.runImport(in.Args, in.Input)
	}
	r, family, err := commands.Views(f.view).Run(in.Program, in.Args, in.Input)
	if err != nil {
		return failure(err)
	}
	var counts countings
	set := setOf(family)
	if r.Test {
		return cube.ActionResult{Output: r.Answer()}, f.check(r.Edits)
	}
	counts[set] = commands.CountedBy(r.Edits)
	edits := append(translate(set, r.Edits), f.tableEdits(family, r.Tables)...)
	return f.result(r.Answer(), edits, counts), nil
}

// check refuses rules that cannot be carried out.
func (f *iptables) check(edits []commands.Edit) error {
	for _, e := range edits {
		if e.Op != commands.InsertRule && e.Op != commands.ReplaceRule {
			continue
		}
		if _, err := compile(&e.Rule, f.plain); err != nil {
			return fmt.Errorf("table %s: chain %s: %s: %w", e.Table, e.Chain, e.Rule, err)
		}
	}
	return nil
}

// failure is the answer to a command that fails by an error with an exit status; others are those of the action.
func failure(err error) (cube.ActionResult, error) {
	is, err := commands.Failure(err)
	if err != nil {
		return cube.ActionResult{}, err
	}
	return cube.ActionResult{Output: is}, nil
}

// countings are counters to be set, by the position of the family.
type countings [len(families)][]commands.Counted

// result is an answer with the edits, after which counters are set.
func (f *iptables) result(is commands.Answer, edits []cube.Edit, counts countings) cube.ActionResult {
	out := cube.ActionResult{Output: is, Edits: edits}
	for _, c := range counts {
		if len(c) == 0 {
			continue
		}
		out.Rest = func(context.Context) (any, error) {
			var failed error
			if err := f.env.Do(func() { failed = f.setCounts(counts) }); err != nil {
				return nil, err
			}
			return is, failed
		}
	}
	return out
}

// runImport carries out the program iptables-import, which may change the chains of both families.
func (f *iptables) runImport(args []string, input string) (cube.ActionResult, error) {
	check := func(r *language.Rule) error {
		_, err := compile(r, f.plain)
		return err
	}
	is, err := commands.Views(f.view).Import(check, args, input)
	if err != nil {
		return failure(err)
	}
	var edits []cube.Edit
	var counts countings
	for set, family := range families {
		edits = append(edits, translate(set, is.Edits[family])...)
		counts[set] = commands.CountedBy(is.Edits[family])
	}
	return f.result(commands.Answer{Output: is.Output, Code: is.Code}, edits, counts), nil
}

// tableEdits returns the edits of tables other than filter.
func (f *iptables) tableEdits(family language.Family, tables map[string]string) (out []cube.Edit) {
	for name, text := range tables {
		path := []string{"table", familyNames[setOf(family)], name}
		was := f.config.tableText(family, name)
		switch {
		case text == was:
		case text == "":
			out = append(out, cube.Edit{Path: path, Delete: true})
		default:
			out = append(out, cube.Edit{Path: path, Value: map[string]string{"text": text}})
		}
	}
	return out
}

// view returns the chains of a table of a family as commands see them.
func (f *iptables) view(family language.Family, table string) (*commands.View, error) {
	if table == commands.NAT {
		return nil, &commands.ElsewhereError{Table: table}
	}
	if table != filter && table != raw {
		return commands.Parse(family, table, f.config.tableText(family, table), false)
	}
	var chains []*commands.Chain
	for _, c := range f.ordered(setOf(family), table) {
		counts, err := c.counters.Counts(c.counterIndexes())
		if err != nil {
			return nil, err
		}
		rules := make([]language.Rule, len(c.rules))
		for i, r := range c.rules {
			n := shownCounts(counts[i])
			rules[i] = r.is.Counted(n.Packets, n.Bytes)
		}
		policy, policyCounts := "", commands.Counts{}
		if c.builtIn() >= 0 {
			policy = map[bool]string{true: "DROP", false: "ACCEPT"}[c.drops]
			policyCounts = shownCounts(counts[len(c.rules)])
		}
		chains = append(chains, commands.NewChain(c.name, policy, policyCounts, rules))
	}
	return commands.NewView(family, table, chains), nil
}

// shownCounts are the packets and bytes as iptables counts them: without the Ethernet header.
func shownCounts(n inet.Count) commands.Counts {
	return commands.Counts{Packets: n.Packets, Bytes: n.Bytes - ethernetLen*n.Packets}
}

// translate returns the edits of the lists of chains. Tables other than filter are texts: tableEdits has their edits.
func translate(set int, edits []commands.Edit) (out []cube.Edit) {
	for _, e := range edits {
		k := key{set, chainName{e.Table, e.Chain}}
		path := []string{listNames[set], e.Chain}
		at := (&chain{key: k}).edit(e.At)
		remove, insert := at, at
		remove.Delete = true
		insert.Insert, insert.Value = true, map[string]string{"spec": e.Rule.String()}
		var is []cube.Edit
		switch e.Op {
		case commands.AddChain:
			is = []cube.Edit{{Path: path, Value: map[string]string{"default": "ACCEPT"}}}
		case commands.DeleteChain:
			is = []cube.Edit{{Path: path, Delete: true}}
		case commands.SetPolicy:
			is = []cube.Edit{{Path: path, Value: map[string]string{"default": e.Name}}}
		case commands.InsertRule:
			is = []cube.Edit{insert}
		case commands.DeleteRule:
			is = []cube.Edit{remove}
		case commands.ReplaceRule:
			is = []cube.Edit{remove, insert}
		case commands.SetCounts: // afterwards
		}
		if e.Table == filter {
			out = append(out, is...)
		}
	}
	return out
}

// setCounts sets counters of rules that exist.
func (f *iptables) setCounts(counts countings) error {
	indexes := map[*chain][]uint32{}
	values := map[*chain][]inet.Count{}
	for set, counts := range counts {
		for _, n := range counts {
			c := f.chains[key{set, chainName{n.Table, n.Chain}}]
			if c == nil || n.At >= len(c.rules) {
				continue // another change came first
			}
			index := c.policy
			if n.At >= 0 {
				index = c.rules[n.At].counter
			}
			indexes[c] = append(indexes[c], index)
			values[c] = append(values[c], inet.Count{Packets: n.To.Packets, Bytes: n.To.Bytes + ethernetLen*n.To.Packets})
		}
	}
	var errs []error
	for c, at := range indexes {
		errs = append(errs, c.counters.Write(at, values[c]))
	}
	return errors.Join(errs...)
}
