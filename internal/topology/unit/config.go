// SPDX-License-Identifier: Apache-2.0

package unit

// The configuration of a unit: its tree, from the store or from a predecessor, and the form in which the cube's code
// gets it.

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
	"github.com/polycube/polycube/internal/yang/splice"
)

// RestoreTree makes the tree of a stored cube.
func RestoreTree(s *world.Stored, u *Unit) error {
	lists := map[string]*yang.Node{}
	for _, list := range u.Service.Schema.BulkLists() {
		lists[list.Path()] = list
	}
	whole := func(list string) bool { return inConfig(s, lists, list) }
	config, err := s.Whole(u.Service.Schema.Root(), whole)
	if err != nil {
		return err
	}
	if _, err := u.Tree.Amend(context.Background(), yang.Create, nil, config); err != nil {
		return err
	}
	if s.Entries == nil {
		return nil
	}
	for _, path := range slices.Sorted(maps.Keys(s.Entries.ByList)) {
		if list := lists[path]; !whole(path) {
			if err := restoreList(u.Tree, list, s.Entries.ByList[path]); err != nil {
				return err
			}
		}
	}
	return nil
}

// inConfig reports whether the entries of a stored list are restored with the configuration: the model no longer has them apart,
// or not those of a list around it, or in it.
func inConfig(s *world.Stored, lists map[string]*yang.Node, list string) bool {
	if lists[list] == nil {
		return true
	}
	for other := range s.Entries.ByList {
		if lists[other] == nil && (strings.HasPrefix(list, other+"/") || strings.HasPrefix(other, list+"/")) {
			return true
		}
	}
	return false
}

// restoreList restores the entries of a list, those below the same list entries together.
func restoreList(t *yang.Tree, list *yang.Node, entries []world.StoredEntry) error {
	texts := map[string][]string{}
	above := map[string][]string{}
	for _, e := range entries {
		keys := e.Keys[:max(len(e.Keys)-len(list.Keys()), 0)]
		id := fmt.Sprintf("%q", keys)
		texts[id], above[id] = append(texts[id], e.Text), keys
	}
	for _, id := range slices.Sorted(maps.Keys(texts)) {
		if err := t.Restore(list, above[id], slices.Values(texts[id])); err != nil {
			return err
		}
	}
	return nil
}

// Inherit makes the tree of a unit from the tree of its predecessor.
func (u *Unit) Inherit(was *Unit) error {
	saved, err := was.Tree.JSON(nil, yang.JSONOptions{Apart: true})
	if err != nil {
		return fmt.Errorf("read it: %w", err)
	}
	s := world.Stored{Config: saved, Entries: &world.StoredEntries{ByList: map[string][]world.StoredEntry{}}}
	for list, table := range was.Tree.Tables().Each() {
		table.Stored(func(e *bulk.Entry) bool {
			s.Entries.ByList[list] = append(s.Entries.ByList[list], world.StoredEntry{Keys: slices.Concat(table.Above(), e.Keys), Text: e.Saved})
			return true
		})
	}
	return RestoreTree(&s, u)
}

// ConfigOf is the configuration in the form that a cube's code gets.
func (u *Unit) ConfigOf(r *world.Cube) (json.RawMessage, error) {
	if r == nil {
		return nil, nil
	}
	if !u.Service.WholeLists {
		return r.Config.Raw, nil
	}
	return splice.Whole(u.Service.Schema, r.Config.Raw, r.Tables, true)
}
