// SPDX-License-Identifier: Apache-2.0

package topology

// Edits of the trees of cubes. Each leaves its undo on the transaction's list, and touches the cube if it changes
// something.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/yang"
)

// edit changes a cube's tree, to be reversed if the transaction fails.
func (t *editing) edit(u *unit.Unit, op yang.Op, path yang.Path, body []byte) error {
	return t.request(u, op, path, body, false)
}

// request is edit with a body that may have been typed in words.
func (t *editing) request(u *unit.Unit, op yang.Op, path yang.Path, body []byte, words bool) error {
	edit := u.Tree.Edit
	if words {
		edit = u.Tree.EditWords
	}
	change, err := edit(t.ctx, op, path, body)
	if err != nil {
		return err
	}
	t.edited(u, change)
	return nil
}

// amend is edit for members that only the framework may change once they are set.
func (t *editing) amend(u *unit.Unit, path yang.Path, body []byte) error {
	change, err := u.Tree.Amend(t.ctx, yang.Merge, path, body)
	if err != nil {
		return err
	}
	t.edited(u, change)
	return nil
}

func (t *editing) edited(u *unit.Unit, change *yang.Change) {
	t.undo = append(t.undo, func() error { return change.Revert() })
	t.edits.Note(u.Name, change)
	t.entries[u] = append(t.entries[u], change.Entries()...)
	if !change.Empty() || t.before(u.Name) == nil {
		t.touch(u.Name)
	}
}

// applyEdit makes one change that a cube's code asked for. A list entry that is not there yet is created.
func (t *editing) applyEdit(u *unit.Unit, e cube.Edit) error {
	_, path, err := u.Service.Schema.Resolve(e.Path)
	if err != nil {
		return err
	}
	if e.Delete {
		return t.edit(u, yang.Delete, path, nil)
	}
	body, err := json.Marshal(e.Value)
	if err != nil {
		return fmt.Errorf("encode a change: %w", err)
	}
	if e.Insert {
		return t.edit(u, yang.Insert, path, body)
	}
	err = t.edit(u, yang.Merge, path, body)
	var missing *yang.Error
	if errors.As(err, &missing) && missing.Tag == yang.DataMissing && len(path) > 0 && len(path[len(path)-1].Keys) > 0 {
		return t.edit(u, yang.Create, path, body)
	}
	return err
}

// setPeer edits the leaf peer of a port.
func (t *editing) setPeer(cubeName, portName, peer string) error {
	path := yang.Path{{Name: "ports", Keys: []string{portName}}, {Name: "peer"}}
	body, _ := json.Marshal(peer) // a string always marshals
	return t.edit(t.next.Units[cubeName], yang.Merge, path, body)
}

// editOwn makes the edits that a cube's code wants at the time of the change, unless it is deleted by then.
func (w *writer) editOwn(name, uuid string, wanted func() ([]cube.Edit, error)) error {
	err := w.transact(context.Background(), func(t *editing) error {
		rec := t.own(name)
		if rec == nil || rec.UUID != uuid {
			return errUnchanged
		}
		u := t.next.Units[name]
		var edits []cube.Edit
		err := t.call(t.ctx, u, func() (err error) {
			edits, err = wanted()
			return err
		})
		if err == nil && len(edits) == 0 {
			err = errUnchanged
		}
		for i := 0; i < len(edits) && err == nil; i++ {
			err = t.applyEdit(u, edits[i])
		}
		return err
	})
	if errors.Is(err, errUnchanged) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: edit its configuration: %w", name, err)
	}
	return nil
}
