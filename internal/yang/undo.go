// SPDX-License-Identifier: Apache-2.0

// The reverse of an edit. It names nodes by path, because validation frees and creates nodes; only removed nodes are
// kept.

package yang

import (
	"fmt"
	"slices"
	"unsafe"
)

// recordKind is the kind of a record.
type recordKind int

const (
	inserted recordKind = iota
	removed
	moved
)

// record is one operation on the tree.
type record struct {
	kind recordKind
	// path leads to the node, or to its parent if it was removed.
	path Path
	// node is a removed node, which the record owns.
	node ref
	// at is the position in its list of a removed or moved node.
	at uint64
}

// undo is the reverse of an edit: the changes of validation, then the records. For a model with conditional lists it
// is a copy of the whole tree, because the order of entries that validation deleted is otherwise unknown.
type undo struct {
	records []record
	diff    ref
	before  ref
	copied  bool
}

// copyTree copies the whole tree if the model requires it.
func (u *undo) copyTree(t *Tree) error {
	if !t.schema.conditional {
		return nil
	}
	before, err := cloneTree(t.root)
	if err != nil {
		return fmt.Errorf("copy configuration: %w", err)
	}
	u.before, u.copied = before, true
	return nil
}

// free frees the undo data.
func (u *undo) free() {
	freeAll(u.diff)
	freeAll(u.before)
	u.diff, u.before = nil, nil
	for _, r := range u.records {
		freeTree(r.node)
	}
	u.records = nil
}

// apply undoes everything, newest first. Nothing is left to free.
func (u *undo) apply(t *Tree) error {
	defer u.free()
	if u.copied || u.diff != nil || len(u.records) > 0 {
		t.printed.Forget()
	}
	if u.copied {
		freeAll(t.root)
		t.root, u.before, t.tops = u.before, nil, make(index)
		return nil
	}
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
		t.outdated(u.diff)
		if err := undoDiff(&t.root, u.diff); err != nil {
			return fmt.Errorf("remove defaults: %w", err)
		}
	}
	for i := len(u.records) - 1; i >= 0; i-- {
		if err := u.records[i].apply(t); err != nil {
			return err
		}
	}
	return u.settle(t, deleted)
}

// settle makes libyang treat nodes that validation deleted and undo re-created as old: new nodes of one case of a
// choice exclude another case, and a new node whose when is false is an error.
func (u *undo) settle(t *Tree, deleted bool) error {
	if !deleted {
		return nil
	}
	diff, err := t.schema.validate(&t.root)
	t.outdated(diff)
	freeAll(diff)
	if err != nil {
		return fmt.Errorf("validate the previous configuration: %w", err)
	}
	return nil
}

// top is the member of the configuration in which the operation was.
func (r *record) top(s *Schema) *Node {
	if len(r.path) > 0 {
		return s.root.Child(r.path[0].Name)
	}
	return s.nodes[uintptr(unsafe.Pointer(r.node.schema))]
}

func (r *record) apply(t *Tree) error {
	above := r.path
	if r.kind != removed {
		above = r.path[:len(r.path)-1]
	}
	parent, err := t.find(above)
	if err != nil {
		return fmt.Errorf("find %s: %w", above, err)
	}
	if parent == nil && len(above) > 0 {
		return fmt.Errorf("find %s: %w", above, ErrNotFound)
	}
	if r.kind == removed {
		if err := t.link(parent, r.node, r.at); err != nil {
			return fmt.Errorf("restore a member of %s: %w", above, err)
		}
		r.node = nil
		return nil
	}
	node, err := t.find(r.path)
	if err != nil {
		return fmt.Errorf("find %s: %w", r.path, err)
	}
	if node == nil {
		return fmt.Errorf("find %s: %w", r.path, ErrNotFound)
	}
	t.unlink(parent, node)
	if r.kind == inserted {
		freeTree(node)
		return nil
	}
	if err := t.link(parent, node, r.at); err != nil {
		return fmt.Errorf("restore the position of %s: %w", r.path, err)
	}
	return nil
}

// anyDeleted reports whether a diff deletes a node.
func anyDeleted(items []*item) bool {
	return slices.ContainsFunc(items, func(it *item) bool { return it.op == 'd' || anyDeleted(it.kids) })
}
