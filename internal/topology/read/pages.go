// SPDX-License-Identifier: Apache-2.0

package read

// Lists read entry by entry, and the number of their entries.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/polycube/polycube/internal/topology/document"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// IsWholeList reports whether a path leads to a list and not to one of its entries.
func IsWholeList(node *yang.Node, path yang.Path) bool {
	return node.Kind() == yang.List && len(path[len(path)-1].Keys) == 0
}

// IsMissing reports whether a request failed because its object does not exist.
func IsMissing(err error) bool {
	var fault *yang.Error
	return errors.As(err, &fault) && fault.Tag == yang.DataMissing
}

// ListCount is the number of entries of a list.
type ListCount struct {
	// Entries counts all, Configured those of the configuration.
	Entries, Configured int
	// More is set if the count stopped before the end of the list.
	More bool
}

// CountEntries counts the entries of a list, in the same way as Entries reads them, up to most.
func (rd *Reader) CountEntries(ctx context.Context, serviceName, name string, path yang.Path, most int) (ListCount, error) {
	var c ListCount
	rec, u, err := rd.view.Load().Find(serviceName, name)
	if err != nil {
		return c, err
	}
	err = rd.Entries(ctx, serviceName, name, path, nil, func([]string, json.RawMessage) bool {
		c.More = c.Entries == most
		if !c.More {
			c.Entries++
		}
		return !c.More
	})
	if err != nil {
		return c, err
	}
	node, err := document.NodeAt(u.Service.Schema, path)
	if err != nil {
		return c, err
	}
	if node.Bulk() {
		table, err := tableAt(u, rec, node, path)
		if err == nil {
			c.Configured = table.Len()
		}
		return c, err
	}
	conf, err := rec.Config.Decode()
	if err != nil {
		return c, fmt.Errorf("%s: %w", name, err)
	}
	layers, err := document.Follow(u.Service.Schema.Root(), path, []any{conf})
	if IsMissing(err) {
		return c, nil // below an entry that only the cube's code has
	}
	c.Configured = len(document.Merge(node, layers))
	return c, err
}

// Entries calls f with the entries of a list, configured ones and those that exist in the state only, in the form of
// Read. A large list is read in the order of its keys and starts after the keys in after, whose entry may have been
// deleted; any other list is read in its own order, and that entry must exist. It stops when f returns false. A list
// that the model marks `paged` is always read from its start; Page starts elsewhere.
func (rd *Reader) Entries(ctx context.Context, serviceName, name string, path yang.Path, after []string,
	f func(keys []string, entry json.RawMessage) bool) error {
	w := rd.view.Load()
	rec, u, err := w.Find(serviceName, name)
	if err != nil {
		return err
	}
	node, err := document.NodeAt(u.Service.Schema, path)
	if err != nil {
		return err
	}
	if !IsWholeList(node, path) {
		return &yang.Error{Tag: yang.InvalidValue, Path: path.String(), Message: path.Words() + ": not a list, so it cannot be read in pages"}
	}
	if node.Paged() {
		return EachPaged(ctx, u, node, path, f)
	}
	layers, err := rd.layers(ctx, w, rec, u, path)
	if err != nil {
		return err
	}
	if node.Bulk() {
		table, err := tableAt(u, rec, node, path)
		if err != nil {
			return err
		}
		return document.EachOfTable(node, table, layers, after, f)
	}
	return document.EachInOrder(node, path, layers, after, f)
}

// tableAt returns the entries of the large list at a path.
func tableAt(u *unit.Unit, rec *world.Cube, list *yang.Node, path yang.Path) (*world.Rows, error) {
	above, err := u.Service.Schema.KeysAbove(path)
	if err != nil {
		return nil, err
	}
	return &world.Rows{Table: rec.Tables.At(list.Path(), above), All: rec.Tables}, nil
}
