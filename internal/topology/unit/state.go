// SPDX-License-Identifier: Apache-2.0

package unit

// State that a cube's code adds to its configuration, whole or in pages.

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/tree"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// PageEntries is how many entries are requested from the cube's code at once: other calls wait for its turn meanwhile.
const PageEntries = 1000

// Page calls the cube's code once.
func (u *Unit) Page(ctx context.Context, path yang.Path, q cube.PageQuery) (cube.Page, error) {
	if err := ctx.Err(); err != nil {
		return cube.Page{}, fmt.Errorf("%s: %s: %w", u.Name, path.Words(), err)
	}
	read := u.Instance().Page
	if read == nil {
		return cube.Page{}, fmt.Errorf("%s: %s: its service does not support reading the list: %w", u.Name, path.Words(), cube.ErrUnsupported)
	}
	var page cube.Page
	err := u.Handle(ctx, "Page", func() (err error) {
		page, err = read(ctx, path.Segments(), q)
		return err
	})
	if err == nil && (len(page.Entries) > q.Limit || page.Next != "" && page.Next == q.After) {
		err = fmt.Errorf("a page of %d entries that leads to %q was read, for one of %d behind %q", len(page.Entries), page.Next, q.Limit, q.After)
	}
	if err != nil {
		return cube.Page{}, fmt.Errorf("%s: %s: %w", u.Name, path.Words(), err)
	}
	return page, nil
}

// State calls the cube's code; nil if it adds none or is degraded.
func (u *Unit) State(ctx context.Context, path yang.Path) (map[string]any, error) {
	state := u.Instance().State
	if state == nil || u.IsDegraded() {
		return nil, nil
	}
	var value any
	err := u.Handle(ctx, "State", func() (err error) {
		value, err = state(ctx, path.Segments())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: state: %w", u.Name, err)
	}
	object, err := encodeState(value)
	if err != nil {
		return nil, fmt.Errorf("%s: its state: %w", u.Name, err)
	}
	return object, nil
}

// encodeState converts the answer of a cube's code to a layer; nil if it is empty.
func encodeState(value any) (map[string]any, error) {
	if object, ok := value.(tree.State); ok {
		return object, nil
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode it: %w", err)
	}
	object, err := world.DecodeObject(raw)
	if err != nil || len(object) == 0 {
		return nil, err
	}
	return object, nil
}
