// SPDX-License-Identifier: Apache-2.0

package topology

// Lists of state that are too large to be read at once (`paged` in the model): the cube's code finds the entries of a
// page, so that what a page costs does not grow with the list.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/document"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// pageEntries is how many entries the cube's code is asked for at once: others wait for its turn.
const pageEntries = 1000

// Page reads a part of a list that the model marks `paged`: as many entries as q asks for, unless the list ends before.
func (m *Manager) Page(ctx context.Context, serviceName, name string, path yang.Path, q cube.PageQuery) (cube.Page, error) {
	_, u, err := m.view.Load().find(serviceName, name)
	if err != nil {
		return cube.Page{}, err
	}
	node, err := document.NodeAt(u.svc.Schema, path)
	if err != nil {
		return cube.Page{}, err
	}
	if !node.Paged() || len(path[len(path)-1].Keys) > 0 {
		return cube.Page{}, &yang.Error{Tag: yang.InvalidValue, Path: path.String(), Message: path.Words() + ": not a list that is read in pages"}
	}
	var all cube.Page
	for all.Next = q.After; len(all.Entries) < q.Limit; {
		page, err := u.page(ctx, path, cube.PageQuery{After: all.Next, Matches: q.Matches, Limit: min(pageEntries, q.Limit-len(all.Entries))})
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

// page asks the cube's code once.
func (u *unit) page(ctx context.Context, path yang.Path, q cube.PageQuery) (cube.Page, error) {
	if err := ctx.Err(); err != nil {
		return cube.Page{}, fmt.Errorf("%s: %s: %w", u.name, path.Words(), err)
	}
	pager, ok := u.instance().(cube.Pager)
	if !ok {
		return cube.Page{}, fmt.Errorf("%s: %s: its service has no code to read the list: %w", u.name, path.Words(), cube.ErrUnsupported)
	}
	var page cube.Page
	err := u.handle(ctx, "Page", func() (err error) {
		page, err = pager.Page(ctx, path.Segments(), q)
		return err
	})
	if err == nil && (len(page.Entries) > q.Limit || page.Next != "" && page.Next == q.After) {
		err = fmt.Errorf("a page of %d entries that leads to %q was read, for one of %d behind %q", len(page.Entries), page.Next, q.Limit, q.After)
	}
	if err != nil {
		return cube.Page{}, fmt.Errorf("%s: %s: %w", u.name, path.Words(), err)
	}
	return page, nil
}

// eachPaged calls f with the entries of such a list, page by page.
func (m *Manager) eachPaged(ctx context.Context, u *unit, list *yang.Node, path yang.Path, f func(keys []string, entry json.RawMessage) bool) error {
	q := cube.PageQuery{Limit: pageEntries}
	for {
		page, err := u.page(ctx, path, q)
		if err != nil {
			return err
		}
		for _, raw := range page.Entries {
			entry, err := world.DecodeObject(raw)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", u.name, path.Words(), err)
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
