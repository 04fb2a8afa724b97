// SPDX-License-Identifier: Apache-2.0

package iptables

// The actions of a chain, and the deletion of sessions.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/polycube/polycube/cube"
)

// Action runs an action: run, delete-sessions, or one of a chain.
func (f *iptables) Action(_ context.Context, path []string, input json.RawMessage) (cube.ActionResult, error) {
	switch {
	case len(path) == 1 && path[0] == "delete-sessions":
		return f.zone.Delete(input)
	case len(path) == 1 && path[0] == "run":
		return f.run(input)
	case len(path) == 3 && slices.Contains(listNames[:], path[0]):
		c := f.chains[filterKey(slices.Index(listNames[:], path[0]), path[1])]
		if c == nil {
			return cube.ActionResult{}, fmt.Errorf("%s %s: %w", path[0], path[1], cube.ErrNotFound)
		}
		return c.action(path[2], input)
	}
	return cube.ActionResult{}, fmt.Errorf("action %s: %w", strings.Join(path, " "), cube.ErrNotFound)
}

// done is the output of an action that has no other.
var done = map[string]bool{"result": true}

// action runs an action of the chain.
func (c *chain) action(name string, input json.RawMessage) (cube.ActionResult, error) {
	switch name {
	case "append":
		return c.insert(len(c.rules), input)
	case "insert":
		var in struct{ ID int }
		if err := json.Unmarshal(input, &in); err != nil {
			return cube.ActionResult{}, fmt.Errorf("decode the rule: %w", err)
		}
		if in.ID > len(c.rules) {
			return cube.ActionResult{}, fmt.Errorf("id %d: the chain has %d rules: %w", in.ID, len(c.rules), cube.ErrInvalid)
		}
		return c.insert(in.ID, input)
	case "delete":
		return c.delete(input)
	case "reset-counters":
		return cube.ActionResult{Output: done}, c.counters.Reset(c.counterIndexes())
	case "apply-rules":
		return cube.ActionResult{Output: done}, nil
	}
	return cube.ActionResult{}, fmt.Errorf("action %s: %w", name, cube.ErrNotFound)
}

// edit returns the edit of the rule at a position.
func (c *chain) edit(at int) cube.Edit {
	return cube.Edit{Path: []string{listNames[c.set], c.name, "rule", strconv.Itoa(at)}}
}

// insert inserts the rule that an action gets.
func (c *chain) insert(at int, input json.RawMessage) (cube.ActionResult, error) {
	var value map[string]json.RawMessage
	if err := json.Unmarshal(input, &value); err != nil {
		return cube.ActionResult{}, fmt.Errorf("decode the rule: %w", err)
	}
	delete(value, "id")
	e := c.edit(at)
	e.Insert, e.Value = true, value
	return cube.ActionResult{Output: map[string]int{"id": at}, Edits: []cube.Edit{e}}, nil
}

// delete deletes the first rule that says what an action gets.
func (c *chain) delete(input json.RawMessage) (cube.ActionResult, error) {
	var is RuleFields
	if err := json.Unmarshal(input, &is); err != nil {
		return cube.ActionResult{}, fmt.Errorf("decode the rule: %w", err)
	}
	wanted, err := is.read(c.key)
	if err != nil {
		return cube.ActionResult{}, err
	}
	text := wanted.String()
	at := slices.IndexFunc(c.rules, func(r *rule) bool { return r.text == text })
	if at < 0 {
		return cube.ActionResult{}, fmt.Errorf("%s has no rule %s: %w", c.key, text, cube.ErrNotFound)
	}
	e := c.edit(at)
	e.Delete = true
	return cube.ActionResult{Edits: []cube.Edit{e}}, nil
}
