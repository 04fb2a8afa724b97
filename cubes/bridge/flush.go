// SPDX-License-Identifier: Apache-2.0

package bridge

// The action `fdb flush`.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/fdb"
)

// flushInput selects the entries to remove; a missing value matches all.
type flushInput struct {
	VLAN uint16 `json:"vlan"`
	Port string `json:"port"`
}

// Action runs `fdb flush`: learned addresses are removed at once, configured entries by the edits of the configuration
// that it returns.
func (b *bridge) Action(_ context.Context, path []string, input json.RawMessage) (cube.ActionResult, error) {
	if !slices.Equal(path, []string{"fdb", "flush"}) {
		return cube.ActionResult{}, fmt.Errorf("action %s: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	var in flushInput
	if len(input) > 0 {
		if err := json.Unmarshal(input, &in); err != nil {
			return cube.ActionResult{}, fmt.Errorf("fdb flush: decode the input: %w", err)
		}
	}
	index, ok := b.env.PortIndex(in.Port)
	if in.Port != "" && !ok {
		return cube.ActionResult{}, fmt.Errorf("fdb flush: port %s: %w", in.Port, cube.ErrNotFound)
	}
	meant := func(k Key, port uint16) bool {
		return (in.VLAN == 0 || k.vlan() == in.VLAN) && (in.Port == "" || port == index)
	}
	if err := b.fdb.Forget(nil, func(k Key, e fdb.Entry) bool { return meant(k, e.Port) }); err != nil {
		return cube.ActionResult{}, err
	}
	return cube.ActionResult{Edits: b.flushStatic(meant, in == flushInput{})}, nil
}

// flushStatic returns the edits that delete configured entries.
func (b *bridge) flushStatic(meant func(Key, uint16) bool, all bool) []cube.Edit {
	if all {
		meant = func(Key, uint16) bool { return true }
	}
	var keys []Key
	for k, port := range b.fdb.Configured() {
		if meant(k, port) {
			keys = append(keys, k)
		}
	}
	if all && len(keys) > 0 {
		return []cube.Edit{{Delete: true, Path: []string{"fdb", "entry"}}}
	}
	slices.SortFunc(keys, Key.compare)
	edits := make([]cube.Edit, len(keys))
	for i, k := range keys {
		edits[i] = cube.Edit{Delete: true, Path: []string{"fdb", "entry", strconv.Itoa(int(k.vlan())), k.address().String()}}
	}
	return edits
}
