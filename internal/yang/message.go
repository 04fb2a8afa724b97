// SPDX-License-Identifier: Apache-2.0

// Converts libyang's validation messages into the errors of this package.

package yang

import (
	"errors"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/fault"
)

// explain converts a validation error. It reads the tree as validation left it.
func (t *Tree) explain(err error) error {
	var n *nativeError
	if !errors.As(err, &n) {
		return err
	}
	p := fault.Location(n.path)
	node, at := t.schema.nearest(p)
	named := fault.Quoted(n.msg)
	switch {
	case strings.HasPrefix(n.msg, "Mandatory node "):
		return t.missing(node, at, named)
	case strings.HasPrefix(n.msg, "Mandatory choice "):
		return fault.At(MissingAttribute, at, "one of %s must be given", strings.Join(node.alternatives(named), ", "))
	case n.apptag == "too-few-elements":
		return t.tooFew(node, whole(at))
	case n.apptag == "too-many-elements":
		return fault.At(InvalidValue, whole(at), "too many entries, at most %d are allowed", node.max)
	case n.apptag == "data-not-unique":
		return fault.At(InvalidValue, at, "another entry has the same %s", named)
	case n.apptag == "instance-required":
		return fault.At(InvalidValue, at, "refers to %q, which is not in %s", fault.Shorten(named), node.typ.RefersTo()).About(named)
	case strings.HasPrefix(n.msg, "When condition "):
		return fault.At(InvalidValue, at, "is allowed only when %s", strings.TrimSuffix(named, "."))
	case strings.HasPrefix(n.msg, "Must condition "):
		return fault.At(InvalidValue, at, "does not satisfy the condition %s", named)
	case strings.HasPrefix(n.msg, "Data for both cases "):
		return fault.At(InvalidValue, at, "mutually exclusive alternatives are given")
	}
	return fault.At(InvalidValue, at, "%s", strings.TrimSuffix(n.msg, "."))
}

// alternatives names the members of a choice; the choice itself if there are none.
func (n *Node) alternatives(choice string) []string {
	var names []string
	for _, c := range n.children {
		if slices.ContainsFunc(c.cases, func(a alternative) bool { return a.name == choice }) {
			names = append(names, c.name)
		}
	}
	if names == nil {
		names = []string{choice}
	}
	return names
}

// whole removes the keys of the last step.
func whole(p Path) Path {
	if len(p) == 0 {
		return p
	}
	return p[:len(p)-1].With(p[len(p)-1].Name)
}

// missing reports a mandatory leaf. libyang names only its schema node, so the first entry without the leaf is searched.
func (t *Tree) missing(node *Node, at Path, name string) error {
	if node.name == name && node.parent != nil {
		node, at = node.parent, at[:len(at)-1]
	}
	child := node.Child(name)
	if child == nil {
		return fault.At(MissingAttribute, at, "%s is mandatory but missing", name)
	}
	items, err := t.read(t.root, allSiblings)
	if err != nil {
		return err
	}
	if found, ok := lacking(items, Path{}, child); ok {
		at = found
	}
	e := fault.At(MissingAttribute, at, "%s is mandatory but missing", name)
	e.Path = at.With(name).String()
	return e
}

// tooFew reports a list or leaf-list, which is also known only by its schema node.
func (t *Tree) tooFew(node *Node, at Path) error {
	items, err := t.read(t.root, allSiblings)
	if err != nil {
		return err
	}
	if found, ok := lacking(items, Path{}, node); ok {
		at = found.With(node.name)
	}
	return fault.At(MissingElement, at, "too few entries, at least %d are required", node.min)
}

// lacking finds an instance of the parent of n that has no n, or too few of them.
func lacking(items []*item, p Path, n *Node) (Path, bool) {
	for _, it := range items {
		if it.node.kind != Container && it.node.kind != List {
			continue
		}
		at := p.With(it.node.name)
		if it.node.kind == List {
			at = p.With(it.node.name, itemKeys(it)...)
		}
		count := 0
		for _, k := range it.kids {
			if k.node == n {
				count++
			}
		}
		if it.node == n.parent && count < max(1, n.min) {
			return at, true
		}
		if found, ok := lacking(it.kids, at, n); ok {
			return found, true
		}
	}
	return nil, false
}

// nearest returns the deepest node on a path that the model has, and the path to it: schema paths also name choices
// and cases, which are skipped.
func (s *Schema) nearest(p Path) (*Node, Path) {
	node, at := s.root, Path{}
	for _, step := range p {
		child := node.Child(step.Name)
		if child == nil && node.kind == Action {
			if child = node.input.Child(step.Name); child == nil {
				child = node.output.Child(step.Name)
			}
		}
		if child != nil {
			node = child
			at = at.With(step.Name, step.Keys...)
		}
	}
	return node, at
}
