// SPDX-License-Identifier: Apache-2.0

// The reverse of an edit. It names nodes by path, because validation frees and
// makes nodes as it likes; only nodes that are out of the tree are held.

package yang

import (
	"fmt"
	"slices"
)

// recordKind is what was done to a node.
type recordKind int

const (
	inserted recordKind = iota
	removed
	moved
)

// record is one thing that was done to the tree.
type record struct {
	kind recordKind
	// path leads to the node, or to its parent when it was removed.
	path Path
	// node is a removed node, which the record owns.
	node ref
	// at is the place in its list that a removed or moved node had.
	at uint64
}

// undo is the reverse of an edit: what validation changed, then the records.
type undo struct {
	records []record
	diff    ref
}

// free gives up the possibility to undo.
func (u *undo) free() {
	freeAll(u.diff)
	u.diff = nil
	for _, r := range u.records {
		freeTree(r.node)
	}
	u.records = nil
}

// apply takes everything back, newest first. Nothing is left to free.
func (u *undo) apply(t *Tree) error {
	defer u.free()
	deleted := false
	if u.diff != nil {
		buf, err := dump(u.diff, allSiblings, true)
		if err != nil {
			return fmt.Errorf("read what validation changed: %w", err)
		}
		items, err := t.schema.decode(buf, true)
		if err != nil {
			return fmt.Errorf("read what validation changed: %w", err)
		}
		deleted = anyDeleted(items)
		if err := undoDiff(&t.root, u.diff); err != nil {
			return fmt.Errorf("take back defaults: %w", err)
		}
	}
	for i := len(u.records) - 1; i >= 0; i-- {
		if err := u.records[i].apply(t); err != nil {
			return err
		}
	}
	return u.settle(t, deleted)
}

// settle makes libyang forget that the nodes which validation had deleted and
// undo made again are new: new nodes of one case of a choice rule out another
// case, and a new node whose when is false is an error.
func (u *undo) settle(t *Tree, deleted bool) error {
	if !deleted {
		return nil
	}
	diff, err := t.schema.validate(&t.root)
	freeAll(diff)
	if err != nil {
		return fmt.Errorf("validate what was there before: %w", err)
	}
	return nil
}

func (r *record) apply(t *Tree) error {
	at, err := t.find(r.path)
	if err != nil {
		return fmt.Errorf("find %s: %w", r.path, err)
	}
	if at == nil && len(r.path) > 0 {
		return fmt.Errorf("find %s: %w", r.path, ErrNotFound)
	}
	switch r.kind {
	case inserted:
		unlink(&t.root, at)
		freeTree(at)
	case removed:
		if err := insertAt(&t.root, at, r.node, r.at); err != nil {
			return fmt.Errorf("put back a member of %s: %w", r.path, err)
		}
		r.node = nil
	case moved:
		above, err := t.find(r.path[:len(r.path)-1])
		if err != nil {
			return fmt.Errorf("find what holds %s: %w", r.path, err)
		}
		unlink(&t.root, at)
		if err := insertAt(&t.root, above, at, r.at); err != nil {
			return fmt.Errorf("put %s back in its place: %w", r.path, err)
		}
	}
	return nil
}

// anyDeleted reports whether a diff deletes a node.
func anyDeleted(items []*item) bool {
	return slices.ContainsFunc(items, func(it *item) bool { return it.op == 'd' || anyDeleted(it.kids) })
}
