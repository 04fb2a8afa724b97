// SPDX-License-Identifier: Apache-2.0

package nat

// The model's actions: appending rules, and switching masquerade.

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/polycube/polycube/cube"
)

// Action runs the actions of the model.
func (n *nat) Action(_ context.Context, path []string, input json.RawMessage) (cube.ActionResult, error) {
	words := strings.Join(path, " ")
	switch words {
	case "rule snat append":
		return appendRule(listSnat, n.rules.snat, input)
	case "rule dnat append":
		return appendRule(listDnat, n.rules.dnat, input)
	case "rule port-forwarding append":
		return appendRule(listForward, n.rules.forward, input)
	case "rule masquerade enable":
		if !n.hasAddress() {
			return cube.ActionResult{Output: result{false}}, nil
		}
		return switchMasquerade(true), nil
	case "rule masquerade disable":
		return switchMasquerade(false), nil
	}
	return cube.ActionResult{}, fmt.Errorf("action %s: %w", words, cube.ErrNotFound)
}

// result is the output of `enable` and `disable`.
type result struct {
	Result bool `json:"result"`
}

func switchMasquerade(on bool) cube.ActionResult {
	return cube.ActionResult{Output: result{true},
		Edits: []cube.Edit{{Path: []string{"rule", "masquerade"}, Value: map[string]bool{"enabled": on}}}}
}

// hasAddress reports whether masquerade has an address to use.
func (n *nat) hasAddress() bool {
	return addressOfParent(n.parent, true).IsValid() || addressOfParent(n.parent, false).IsValid()
}

// appendRule returns the edit that adds an entry with a number after all others.
func appendRule[E any](list string, entries map[uint32]E, input json.RawMessage) (cube.ActionResult, error) {
	id := free(entries)
	var value map[string]any
	if err := json.Unmarshal(input, &value); err != nil {
		return cube.ActionResult{}, fmt.Errorf("decode the rule: %w", err)
	}
	return cube.ActionResult{Output: map[string]uint32{"id": id},
		Edits: []cube.Edit{{Path: []string{"rule", list, "entry", strconv.FormatUint(uint64(id), 10)}, Value: value}}}, nil
}
