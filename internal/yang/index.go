// SPDX-License-Identifier: Apache-2.0

// libyang finds entries by hash below a node, but walks all siblings at the top of a tree, where a router keeps its
// routes. This index covers the lists at the top.

package yang

import "unsafe"

// index has the entries of top-level lists by their keys. A list is indexed when it is first searched.
type index map[*Node]map[string]ref

// same returns the node below parent that has the keys or the value of like.
func (t *Tree) same(parent ref, like *fragment) ref {
	if parent != nil || like.node.kind != List {
		return findSame(t.root, parent, like.ref)
	}
	return t.indexOf(like.node)[keysID(like.keys)]
}

// indexOf returns the entries of a list at the top by their keys.
func (t *Tree) indexOf(list *Node) map[string]ref {
	entries, ok := t.tops[list]
	if !ok {
		entries = make(map[string]ref)
		for cur := findSchema(t.root, nil, list); cur != nil && t.schema.is(cur, list); cur = nextSibling(cur) {
			entries[keysID(entryKeys(cur, list))] = cur
		}
		t.tops[list] = entries
	}
	return entries
}

// link inserts a node into the tree at a position in its list.
func (t *Tree) link(parent, node ref, at uint64) error {
	if err := insertAt(&t.root, parent, node, at); err != nil {
		return err
	}
	if n := t.indexed(parent, node); n != nil {
		t.tops[n][keysID(entryKeys(node, n))] = node
	}
	return nil
}

// unlink removes a node from the tree.
func (t *Tree) unlink(parent, node ref) {
	if n := t.indexed(parent, node); n != nil {
		delete(t.tops[n], keysID(entryKeys(node, n)))
	}
	unlink(&t.root, node)
}

// indexed returns the list of an entry if the index knows it.
func (t *Tree) indexed(parent, node ref) *Node {
	if parent != nil {
		return nil
	}
	n := t.schema.nodes[uintptr(unsafe.Pointer(node.schema))]
	if _, ok := t.tops[n]; !ok {
		return nil
	}
	return n
}

// outdated removes from the index what libyang changed itself, according to a diff.
func (t *Tree) outdated(diff ref) {
	for d := diff; d != nil && len(t.tops) > 0; d = nextSibling(d) {
		if n := t.indexed(nil, d); n != nil && !diffKeeps(d) {
			delete(t.tops, n)
		}
	}
}
