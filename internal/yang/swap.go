// SPDX-License-Identifier: Apache-2.0

// The elementary steps of an edit. Each records its reverse and the nodes that it touches.

package yang

import (
	"fmt"
	"slices"

	"github.com/polycube/polycube/internal/fault"
)

// touchNow records the current value at p.
func (e *editor) touchNow(p Path, n *Node) error {
	if _, ok := e.seen[p.ID()]; ok {
		return nil
	}
	old, err := e.now(touch{path: p, node: n})
	if err != nil {
		return err
	}
	e.touched(p, n, old)
	return nil
}

// remove removes a node.
func (e *editor) remove(in place, node ref) {
	at := position(node)
	e.t.unlink(in.at, node)
	e.undo.records = append(e.undo.records, record{kind: removed, path: in.path, node: node, at: at})
}

// removeEntry removes a list entry.
func (e *editor) removeEntry(in place, n *Node, entry ref) error {
	if err := e.touchNow(in.path.With(n.name, entryKeys(entry, n)...), n); err != nil {
		return err
	}
	e.remove(in, entry)
	return nil
}

// removeAll removes all instances of n, including defaults unless told to keep them.
func (e *editor) removeAll(in place, n *Node, keepDefaults bool) error {
	for _, cur := range e.instances(in, n) {
		if keepDefaults && isDefault(cur) {
			continue
		}
		if n.kind != List {
			e.remove(in, cur)
			continue
		}
		if err := e.removeEntry(in, n, cur); err != nil {
			return err
		}
	}
	return nil
}

// clear unsets the member n of a place. What is fixed at creation stays.
func (e *editor) clear(in place, n *Node) error {
	cur := findSchema(e.t.root, in.at, n)
	if cur == nil || e.fixed(in, n) || n.kind == Action {
		return nil
	}
	p := in.path.With(n.name)
	switch n.kind {
	case Leaf, LeafList:
		if isDefault(cur) {
			return nil
		}
		if err := e.touchNow(p, n); err != nil {
			return err
		}
		return e.removeAll(in, n, true)
	case List:
		return e.removeAll(in, n, true)
	case Container, Action:
	}
	if n.presence {
		if err := e.touchNow(p, n); err != nil {
			return err
		}
		e.remove(in, cur)
		return nil
	}
	for _, c := range n.children {
		if err := e.clear(e.in(in, n, cur), c); err != nil {
			return err
		}
	}
	return nil
}

// insert moves a fragment into the tree, after the other entries of its list.
func (e *editor) insert(in place, f *fragment) error {
	p := in.path.With(f.node.name, f.keys...)
	if in.existing && !e.amend {
		if err := newFixed(f, p); err != nil {
			return err
		}
	}
	e.touchNew(in.path, f)
	var apart ref
	unlink(&apart, f.ref)
	f.moved = true
	if f.node.kind == List {
		// validation would also add them, but the time of its diff grows with the square of the number of entries
		if err := addDefaults(f.ref); err != nil {
			freeTree(f.ref)
			return fmt.Errorf("add defaults to %s: %w", p, err)
		}
	}
	if err := e.t.link(in.at, f.ref, last); err != nil {
		freeTree(f.ref)
		return fmt.Errorf("insert %s: %w", p, err)
	}
	e.undo.records = append(e.undo.records, record{kind: inserted, path: p})
	return nil
}

// newFixed refuses, within an existing container or entry, new nodes that are fixed at creation; a new entry may have
// them.
func newFixed(f *fragment, p Path) error {
	switch f.node.kind {
	case Leaf, LeafList:
		// accepted by setLeaf and setLeafList: the default given again
		return nil
	case List:
		if f.node.initOnly {
			return fault.At(InvalidValue, p, "is fixed at creation and cannot be added")
		}
		return nil
	case Container, Action:
	}
	for _, k := range f.kids {
		at := p.With(k.node.name)
		if k.node.initOnly {
			return fault.At(InvalidValue, at, "was not set at creation and cannot be set later")
		}
		if k.node.kind == Container {
			if err := newFixed(k, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// touchNew records the nodes of a new fragment; p is its parent's path.
func (e *editor) touchNew(p Path, f *fragment) {
	n := f.node
	at := p.With(n.name)
	switch {
	case n.kind == List && f.ref == nil:
		for _, entry := range f.kids {
			e.touchNew(p, entry)
		}
	case n.kind == List:
		e.touched(p.With(n.name, f.keys...), n, nil)
	case n.kind == Container && !n.presence:
		for _, k := range f.kids {
			e.touchNew(at, k)
		}
	default:
		e.touched(at, n, nil)
	}
}

// misplaced reports whether replacing the entries of a list leaves them in another order than the fragment's: existing
// entries keep their position, new ones are appended.
func (e *editor) misplaced(in place, list *fragment) bool {
	want := make(map[string]bool, len(list.kids))
	for _, f := range list.kids {
		want[keysID(f.keys)] = true
	}
	have := make(map[string]bool)
	var natural []string
	for _, cur := range slices.Backward(e.instances(in, list.node)) {
		if id := keysID(entryKeys(cur, list.node)); want[id] {
			natural = append(natural, id)
			have[id] = true
		}
	}
	for _, f := range list.kids {
		if id := keysID(f.keys); !have[id] {
			natural = append(natural, id)
		}
	}
	for i, f := range list.kids {
		if natural[i] != keysID(f.keys) {
			return true
		}
	}
	return false
}

// reorder puts the entries of a list, which are those of the fragment, into its order by removing and appending each.
func (e *editor) reorder(in place, list *fragment) error {
	for _, f := range list.kids {
		p := in.path.With(list.node.name, f.keys...)
		node, err := e.t.find(p)
		if err != nil || node == nil {
			return fmt.Errorf("reorder %s: find entry: %w", p, err)
		}
		at := position(node)
		if at == last {
			continue
		}
		e.t.unlink(in.at, node)
		if err := e.t.link(in.at, node, last); err != nil {
			freeTree(node)
			return fmt.Errorf("reorder %s: %w", p, err)
		}
		e.undo.records = append(e.undo.records, record{kind: moved, path: p, at: at})
	}
	return nil
}
