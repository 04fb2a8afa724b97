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

	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// RestoreTree makes the tree of a stored cube.
func RestoreTree(s *world.Stored, u *Unit) error {
	lists := map[string]*yang.Node{}
	for _, list := range u.Service.Schema.BulkLists() {
		lists[list.Path()] = list
	}
	config, err := s.Whole(func(list string) bool { return lists[list] == nil })
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
		if list := lists[path]; list != nil {
			if err := u.Tree.Restore(list, slices.Values(s.Entries.ByList[path])); err != nil {
				return err
			}
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
	s := world.Stored{Config: saved, Entries: &world.StoredEntries{ByList: map[string][]string{}}}
	for list, table := range was.Tree.Tables() {
		if table.Len() > 0 {
			s.Entries.ByList[list.Path()] = slices.Collect(table.Saved())
		}
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
	return u.Service.Schema.Splice(r.Config.Raw, r.Tables, yang.JSONOptions{Defaults: true})
}
