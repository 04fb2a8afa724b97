// SPDX-License-Identifier: Apache-2.0

// Validation of the entries that an edit reached, instead of the whole tree: of a list at the top whose model has no
// constraint that joins entries, such as a service of a load balancer.

package yang

import (
	"regexp"
	"slices"
	"unsafe"
)

// findSeparate marks the lists at the top whose entries can be validated one by one.
func (s *Schema) findSeparate() {
	for _, n := range s.root.children {
		n.separate = n.kind == List && n.config && !n.bulk && !s.conditional && n.alone(n) && !s.root.mentions(n)
	}
}

// alone reports whether n, a part of an entry of list, has no constraint but types, mandatory leaves and numbers of entries.
func (n *Node) alone(list *Node) bool {
	if n.bulk || !n.config {
		return true // not in the tree
	}
	if n.when || n.musts || n.unique || len(n.cases) > 0 || n.kind == Container || n.kind == List && n != list || n.typ.Refers() {
		return false
	}
	return !slices.ContainsFunc(n.children, func(c *Node) bool { return c.kind == Action || !c.alone(list) })
}

// mentions reports whether a condition or a leafref of n, or below it, may look into a list.
func (n *Node) mentions(list *Node) bool {
	name := regexp.MustCompile(`(^|[^\w.-])` + regexp.QuoteMeta(list.name) + `($|[^\w.-])|[*]|//`)
	if slices.ContainsFunc(n.conditions, name.MatchString) {
		return true
	}
	if n.typ.Refers() {
		if target := n.follow(n.typ.LeafrefPath); target == nil || target.within(list) {
			return true
		}
	}
	return slices.ContainsFunc(n.children, func(c *Node) bool { return c.mentions(list) })
}

// validateEntries validates the tree if the edit only added or removed entries that can be validated by themselves, or set
// leaves of them. It
// reports false if something else has to be looked at, or if something is wrong: then the whole tree is validated.
func (e *editor) validateEntries() bool {
	if !e.t.created {
		return false
	}
	for _, r := range e.undo.records {
		n := r.top(e.t.schema)
		if n == nil || !n.separate || r.kind == moved {
			return false
		}
		at := r.path
		if r.kind == removed && len(at) > 0 {
			at = at.With(e.t.schema.nodes[uintptr(unsafe.Pointer(r.node.schema))].name)
		}
		entries := len(e.t.indexOf(n))
		if len(at) > 1 && !e.isSet(at) || len(at) == 1 && !e.completeEntry(n, at) || entries < n.min || n.max > 0 && entries > n.max {
			return false
		}
	}
	return true
}

// isSet reports whether a leaf is set after the edit, so that nothing takes its place.
func (e *editor) isSet(p Path) bool {
	at, err := e.t.find(p)
	return err == nil && at != nil && e.t.schema.nodes[uintptr(unsafe.Pointer(at.schema))].kind == Leaf
}

// completeEntry reports whether an entry that was added, with its defaults, has what is mandatory; also if it was removed again.
func (e *editor) completeEntry(n *Node, p Path) bool {
	at, err := e.t.find(p)
	if err != nil || at == nil {
		return err == nil
	}
	items, err := e.t.read(at, oneNode)
	return err == nil && len(items) == 1 && complete(n, items[0].kids, p) == nil
}
