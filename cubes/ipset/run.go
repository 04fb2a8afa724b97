// SPDX-License-Identifier: Apache-2.0

package ipset

// The action `run`: the commands of ipset that are about one set.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/ipset"
	"github.com/polycube/polycube/ipset/elements"
)

// command is the input of the action.
type command struct {
	Argument []struct {
		Text string `json:"text"`
	} `json:"argument"`
}

// answer is the output of the action.
type answer struct {
	Output string `json:"output,omitempty"`
	Code   int    `json:"code"`
	Error  string `json:"error,omitempty"`
}

// failure is an error that ipset reports with status 1.
type failure struct{ text string }

func (f *failure) Error() string { return f.text }

func failed(format string, args ...any) error { return &failure{fmt.Sprintf(format, args...)} }

func (s *set) action(_ context.Context, path []string, input json.RawMessage) (cube.ActionResult, error) {
	if len(path) != 1 || path[0] != "run" {
		return cube.ActionResult{}, fmt.Errorf("action %s: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	var in command
	if err := json.Unmarshal(input, &in); err != nil {
		return cube.ActionResult{}, fmt.Errorf("decode the command: %w", err)
	}
	args := make([]string, len(in.Argument))
	for i, a := range in.Argument {
		args[i] = a.Text
	}
	out, err := s.run(args)
	var is *failure
	if errors.As(err, &is) {
		return cube.ActionResult{Output: answer{Code: 1, Error: is.text}}, nil
	}
	return out, err
}

func (s *set) run(args []string) (cube.ActionResult, error) {
	var out cube.ActionResult
	c, err := ipset.ReadCommand(args)
	if err != nil {
		return out, failed("%v", err)
	}
	if c.Set != "" && c.Set != s.env.Name() {
		return out, failed("the command is about the set %s, and not %s", c.Set, s.env.Name())
	}
	text := ""
	switch c.Op {
	case "add", "del":
		return s.edit(c)
	case "test":
		text, err = s.test(c)
	case "flush":
		return s.flush()
	case "list":
		text, err = s.list(c)
	case "save":
		text, err = s.save()
	case "destroy":
		if searched, tested := s.addresses.Uses(); searched+tested > 0 {
			return out, failed("Set cannot be destroyed: it is in use by a kernel component")
		}
	default:
		err = failed("%s is not about one set: call pcn-ipset", c.Op)
	}
	out.Output = answer{Output: text}
	return out, err
}

// find returns whether the set has an element, which may have expired in the configuration.
func (s *set) find(h ipset.Header, e ipset.Element) (bool, error) {
	k := keyOf(h, e)
	if s.slot == 0 {
		return s.prefixes[prefixOf(e)], nil
	}
	if h.Type == "list:set" {
		return s.wanted[k] != nil, nil
	}
	now, err := cube.TimeCoarse()
	if err != nil {
		return false, err
	}
	k.Slot = s.slot
	v, there, err := s.memory.Elements.Get(k)
	return there && !v.Over(now), err
}

func prefixOf(e ipset.Element) netip.Prefix {
	if e.Net.IsValid() {
		return e.Net
	}
	return netip.PrefixFrom(e.First, e.First.BitLen())
}

// edit adds or deletes the elements that a command names.
func (s *set) edit(c ipset.Command) (out cube.ActionResult, err error) {
	h := s.config.Header()
	e, err := h.Element(c.Entry)
	if err != nil {
		return out, failed("Syntax error: %v", err)
	}
	all, err := h.Expand(e)
	if err != nil {
		return out, failed("%v", err)
	}
	what := &edition{set: s, header: h, command: c}
	if c.Op == "add" {
		if what.like, err = h.Entry(all[0], c.Options); err != nil {
			return out, failed("%v", err)
		}
		if err := what.position(all[0].Set); err != nil {
			return out, err
		}
		if c.Options.NoMatch && s.slot == 0 {
			what.convert()
		}
	}
	for _, e := range all {
		if err := what.add(e); err != nil {
			return out, err
		}
	}
	most := max(h.MaxElem, h.Size)
	if c.Op == "add" && most > 0 && len(s.prefixes)+len(s.wanted)+what.fresh > int(most) {
		return out, failed("Hash is full, cannot add more elements")
	}
	out.Edits = what.edits
	out.Output = answer{}
	if len(what.renewed)+len(what.gone) > 0 {
		out.Rest = what.rest
	}
	return out, nil
}

// edition is the edits of a command.
type edition struct {
	*set
	header    ipset.Header
	command   ipset.Command
	like      ipset.Entry // the options of new entries
	edits     []cube.Edit
	fresh     int
	converted bool
	renewed   []elements.Key // that live on for the timeout of the command
	gone      []elements.Key // that are not configured
}

// add adds the edit of one element.
func (n *edition) add(e ipset.Element) error {
	there, err := n.find(n.header, e)
	if err != nil {
		return err
	}
	k := keyOf(n.header, e)
	text := n.header.Text(e)
	plain := n.config.Plain() && !n.converted
	path := []string{"element", text}
	if plain {
		path = []string{"prefixes", inetText(prefixOf(e))}
	}
	if n.command.Op == "del" {
		switch {
		case !there && !n.command.Exist:
			return failed("Element cannot be deleted from the set: it's not added")
		case plain && there, n.wanted[k] != nil:
			n.edits = append(n.edits, cube.Edit{Delete: true, Path: path})
		case there:
			n.gone = append(n.gone, k)
		}
		return nil
	}
	if there && !n.command.Exist {
		return failed("Element cannot be added to the set: it's already added")
	}
	switch {
	case plain && there:
		return nil
	case plain:
		n.fresh++
		n.edits = append(n.edits, cube.Edit{Path: path, Value: map[string]string{}})
		return nil
	case n.wanted[k] == nil:
		n.fresh++
	default:
		n.renewed = append(n.renewed, k)
	}
	is := n.like
	is.Entry = text
	n.edits = append(n.edits, cube.Edit{Path: path, Value: is})
	return nil
}

// inetText is the key of a prefix in the list `prefixes`.
func inetText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// convert makes elements of all prefixes, which have no exceptions.
func (n *edition) convert() {
	n.converted = true
	n.edits = append(n.edits, cube.Edit{Path: []string{"exceptions"}, Value: true})
	for p := range n.prefixes {
		text := inetText(p)
		n.edits = append(n.edits, cube.Edit{Delete: true, Path: []string{"prefixes", text}},
			cube.Edit{Path: []string{"element", text}, Value: ipset.Entry{Entry: text}})
	}
}

// position finds the place of a new member of a set of sets, and makes room there.
func (n *edition) position(name string) error {
	o := n.command.Options
	if n.header.Type != "list:set" {
		return nil
	}
	if err := n.fits(name); err != nil {
		return err
	}
	list := n.sorted()
	names, err := o.Place(list, name)
	if err != nil {
		return failed("%v", err)
	}
	for _, e := range list {
		if to := uint32(slices.Index(names, e.Entry) + 1); e.Position != to {
			n.edits = append(n.edits, cube.Edit{Path: []string{"element", e.Entry}, Value: map[string]uint32{"position": to}})
		}
	}
	n.like.Position = uint32(slices.Index(names, name) + 1)
	return nil
}

// fits checks that a set can be a member: it exists, and is no set of sets itself.
func (n *edition) fits(name string) error {
	number, exists, err := n.members.Find(name)
	if err != nil {
		return err
	}
	if !exists || name == n.env.Name() {
		return failed("Set to be added/deleted/tested as element does not exist")
	}
	slot, err := n.memory.Of(number)
	if err != nil || slot == 0 {
		return err
	}
	is, err := n.memory.Slot(slot)
	if err == nil && is.Kind == elements.Sets {
		return failed("Sets with list:set type cannot be added to the set")
	}
	return err
}

// rest changes what is in no configuration: the time that elements have left, and those that rules have added.
func (n *edition) rest(context.Context) (any, error) {
	var err error
	do := n.env.Do(func() { err = n.restInTurn() })
	return answer{}, errors.Join(do, err)
}

func (n *edition) restInTurn() error {
	var errs []error
	for _, k := range n.gone {
		k.Slot = n.slot
		errs = append(errs, n.remove(k))
	}
	for _, k := range n.renewed {
		e := n.wanted[k]
		k.Slot = n.slot
		v, there, err := n.memory.Elements.Get(k)
		if err != nil || !there || e == nil || n.config.Timeout == nil {
			errs = append(errs, err)
			continue
		}
		seconds := *n.config.Timeout
		if e.Timeout != nil {
			seconds = *e.Timeout
		}
		v.Expires, err = elements.Expiry(seconds)
		errs = append(errs, err, n.memory.Elements.Set(k, v))
	}
	return errors.Join(errs...)
}

// flush removes all elements.
func (s *set) flush() (out cube.ActionResult, err error) {
	for p := range s.prefixes {
		out.Edits = append(out.Edits, cube.Edit{Delete: true, Path: []string{"prefixes", inetText(p)}})
	}
	for _, e := range s.wanted {
		out.Edits = append(out.Edits, cube.Edit{Delete: true, Path: []string{"element", e.Entry}})
	}
	n := &edition{set: s}
	if s.slot != 0 && s.config.SetType != "list:set" {
		all, err := s.current()
		if err != nil {
			return out, err
		}
		for _, m := range all {
			if s.wanted[m.key] == nil {
				n.gone = append(n.gone, m.key)
			}
		}
	}
	out.Output = answer{}
	if len(n.gone) > 0 {
		out.Rest = n.rest
	}
	return out, nil
}
