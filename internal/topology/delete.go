// SPDX-License-Identifier: Apache-2.0

package topology

// Deleting list entries, one or all. The configuration has some of them and the cube's code others, such as learned
// addresses; some follow from other configuration and cannot be deleted. Deleting a whole list removes every entry that
// can be deleted by its key and leaves the others, so that it means the same in every cube.

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/document"
	"github.com/polycube/polycube/internal/topology/read"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/yang"
)

// emptied is a list of the configuration that a transaction deletes as a whole.
type emptied struct {
	unit *unit.Unit
	list *yang.Node
	path yang.Path
}

// deleteList deletes every entry of a list that can be deleted. State cannot be brought back: where the list is part of
// the configuration, state goes once the rest of the transaction is certain.
func (t *editing) deleteList(u *unit.Unit, list *yang.Node, path yang.Path) error {
	e := emptied{u, list, path}
	if list.Deletable() {
		return t.deleteAllState(e)
	}
	t.direct[u.Name] = true
	if err := t.edit(u, yang.Delete, path, nil); err != nil {
		return err
	}
	if u.Instance().DeleteState != nil {
		t.emptied = append(t.emptied, e)
	}
	return nil
}

// deleteEntry asks the cube to delete an entry that its configuration does not have. err is what became of deleting it
// there.
func (t *editing) deleteEntry(u *unit.Unit, path yang.Path, err error) error {
	if !read.IsMissing(err) || len(path[len(path)-1].Keys) == 0 {
		return err
	}
	gone := t.deleteState(u, path)
	if read.IsMissing(gone) || errors.Is(gone, service.ErrNoDeleter) {
		return err
	}
	return gone
}

// deleteState asks the cube to delete state: an entry, or a whole list that the model marks `deletable`.
func (t *txn) deleteState(u *unit.Unit, path yang.Path) error {
	deleteState := u.Instance().DeleteState
	if deleteState == nil {
		return fmt.Errorf("%s: %s: %w", u.Name, path.Words(), service.ErrNoDeleter)
	}
	err := u.Handle(t.ctx, "DeleteState", func() error { return deleteState(t.ctx, path.Segments()) })
	if errors.Is(err, cube.ErrNotFound) {
		return &yang.Error{Tag: yang.DataMissing, Path: path.String(), Message: path.Words() + ": not found"}
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", u.Name, path.Words(), err)
	}
	return nil
}

// deleteAllState deletes the entries that the cube's code has of a list, one by one unless the code takes the whole list.
func (t *txn) deleteAllState(e emptied) error {
	if e.list.Deletable() {
		if err := t.deleteState(e.unit, e.path); !read.IsMissing(err) {
			return err
		}
	}
	all, err := t.keysOfState(e)
	if err != nil {
		return err
	}
	entry := slices.Clone(e.path)
	for _, keys := range all {
		entry[len(entry)-1].Keys = keys
		if err := t.deleteState(e.unit, entry); err != nil && !stays(err) {
			return err
		}
	}
	return nil
}

// keysOfState are the keys of the entries that the cube's code has of a list.
func (t *txn) keysOfState(e emptied) (all [][]string, err error) {
	if e.list.Paged() {
		err = read.EachPaged(t.ctx, e.unit, e.list, e.path, func(keys []string, _ json.RawMessage) bool {
			all = append(all, keys)
			return true
		})
		return all, err
	}
	state, err := e.unit.State(t.ctx, e.path)
	if errors.Is(err, cube.ErrNotFound) || err == nil && state == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	layers, err := document.Follow(e.unit.Service.Schema.Root(), e.path, []any{read.ConfineToPorts(state, t.next.Cubes[e.unit.Name])})
	if read.IsMissing(err) {
		return nil, nil
	}
	for _, entry := range document.Merge(e.list, layers) {
		all = append(all, entry.Keys)
	}
	return all, err
}

// stays reports whether an entry cannot be deleted and stays, or is gone already.
func stays(err error) bool {
	refused := errors.Is(err, cube.ErrInvalid) || errors.Is(err, cube.ErrInUse) || errors.Is(err, cube.ErrUnsupported)
	return read.IsMissing(err) || refused && !errors.Is(err, unit.ErrDegraded)
}

// holdEmptied enters the gates of the cubes whose state the transaction deletes, because it must not wait for a handler
// once it has locked the data plane.
func (x *execution) holdEmptied() error {
	for _, e := range x.emptied {
		if err := x.hold(x.ctx, e.unit); err != nil {
			return fmt.Errorf("%s: %w", e.unit.Name, err)
		}
	}
	return nil
}

// deleteEmptied deletes the state of the lists that the transaction deletes.
func (x *execution) deleteEmptied() error {
	for _, e := range x.emptied {
		if err := e.unit.Refused(); err != nil {
			return err
		}
		e.unit.BeginCommit() // the data plane is locked: a change of programs would wait for itself
		err := x.deleteAllState(e)
		e.unit.EndCommit()
		if err != nil {
			return err
		}
	}
	return nil
}
