// SPDX-License-Identifier: Apache-2.0

package read

// Lists of state that are too large to be read at once (`paged` in the model): the cube's code finds the entries of a
// page, so that the cost of a page does not grow with the list.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/document"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// Page reads a part of a list that the model marks `paged`: as many entries as q requests, fewer only at the end of the
// list.
func (rd *Reader) Page(ctx context.Context, serviceName, name string, path yang.Path, q cube.PageQuery) (cube.Page, error) {
	_, u, err := rd.view.Load().Find(serviceName, name)
	if err != nil {
		return cube.Page{}, err
	}
	node, err := document.NodeAt(u.Service.Schema, path)
	if err != nil {
		return cube.Page{}, err
	}
	if !node.Paged() || len(path[len(path)-1].Keys) > 0 {
		return cube.Page{}, &yang.Error{Tag: yang.InvalidValue, Path: path.String(), Message: path.Words() + ": not a list that is read in pages"}
	}
	var all cube.Page
	for all.Next = q.After; len(all.Entries) < q.Limit; {
		page, err := u.Page(ctx, path, cube.PageQuery{After: all.Next, Matches: q.Matches, Limit: min(unit.PageEntries, q.Limit-len(all.Entries))})
		if err != nil {
			return cube.Page{}, err
		}
		all.Entries, all.Next = append(all.Entries, page.Entries...), page.Next
		if page.Next == "" {
			break
		}
	}
	return all, nil
}

// EachPaged calls f with the entries of such a list, page by page.
func EachPaged(ctx context.Context, u *unit.Unit, list *yang.Node, path yang.Path, f func(keys []string, entry json.RawMessage) bool) error {
	q := cube.PageQuery{Limit: unit.PageEntries}
	for {
		page, err := u.Page(ctx, path, q)
		if err != nil {
			return err
		}
		for _, raw := range page.Entries {
			entry, err := world.DecodeObject(raw)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", u.Name, path.Words(), err)
			}
			if !f(slices.Clone(document.KeysOf(list, entry)), raw) {
				return nil
			}
		}
		if q.After = page.Next; q.After == "" {
			return nil
		}
	}
}
