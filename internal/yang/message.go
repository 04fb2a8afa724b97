// SPDX-License-Identifier: Apache-2.0

// Converts libyang's validation messages into the errors of this package.

package yang

import (
	"errors"
	"slices"
	"strings"
)

// explain converts a validation error. It reads the tree as validation left it.
func (t *Tree) explain(err error) error {
	var n *nativeError
	if !errors.As(err, &n) {
		return err
	}
	p := parseLocation(n.path)
	node, at := t.schema.nearest(p)
	named := quotedIn(n.msg)
	switch {
	case strings.HasPrefix(n.msg, "Mandatory node "):
		return t.missing(node, at, named)
	case strings.HasPrefix(n.msg, "Mandatory choice "):
		return fault(MissingAttribute, at, "one of %s must be given", strings.Join(node.alternatives(named), ", "))
	case n.apptag == "too-few-elements":
		return t.tooFew(node, whole(at))
	case n.apptag == "too-many-elements":
		return fault(InvalidValue, whole(at), "too many entries, at most %d are allowed", node.max)
	case n.apptag == "data-not-unique":
		return fault(InvalidValue, at, "another entry has the same %s", named)
	case n.apptag == "instance-required":
		e := fault(InvalidValue, at, "refers to %q, which is not in %s", shorten(named), node.typ.refersTo())
		e.Given = named
		return e
	case strings.HasPrefix(n.msg, "When condition "):
		return fault(InvalidValue, at, "is allowed only when %s", strings.TrimSuffix(named, "."))
	case strings.HasPrefix(n.msg, "Must condition "):
		return fault(InvalidValue, at, "does not satisfy the condition %s", named)
	case strings.HasPrefix(n.msg, "Data for both cases "):
		return fault(InvalidValue, at, "mutually exclusive alternatives are given")
	}
	return fault(InvalidValue, at, "%s", strings.TrimSuffix(n.msg, "."))
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
	return p[:len(p)-1].with(p[len(p)-1].Name)
}

// missing reports a mandatory leaf. libyang names only its schema node, so the first entry without the leaf is
// searched.
func (t *Tree) missing(node *Node, at Path, name string) error {
	if node.name == name && node.parent != nil {
		node, at = node.parent, at[:len(at)-1]
	}
	child := node.Child(name)
	if child == nil {
		return fault(MissingAttribute, at, "%s is mandatory but missing", name)
	}
	items, err := t.read(t.root, allSiblings)
	if err != nil {
		return err
	}
	if found, ok := lacking(items, Path{}, child); ok {
		at = found
	}
	e := fault(MissingAttribute, at, "%s is mandatory but missing", name)
	e.Path = at.with(name).String()
	return e
}

// tooFew reports a list or leaf-list, which is also known only by its schema node.
func (t *Tree) tooFew(node *Node, at Path) error {
	items, err := t.read(t.root, allSiblings)
	if err != nil {
		return err
	}
	if found, ok := lacking(items, Path{}, node); ok {
		at = found.with(node.name)
	}
	return fault(MissingElement, at, "too few entries, at least %d are required", node.min)
}

// lacking finds an instance of the parent of n that has no n, or too few of them.
func lacking(items []*item, p Path, n *Node) (Path, bool) {
	for _, it := range items {
		if it.node.kind != Container && it.node.kind != List {
			continue
		}
		at := p.with(it.node.name)
		if it.node.kind == List {
			at = p.with(it.node.name, itemKeys(it)...)
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
			at = at.with(step.Name, step.Keys...)
		}
	}
	return node, at
}

// quotedIn returns the first quoted text of a message. Text quoted by libyang may contain quotes; it then ends where
// the message continues.
func quotedIn(msg string) string {
	_, rest, ok := strings.Cut(msg, `"`)
	if !ok {
		return ""
	}
	for _, end := range []string{`" - no target`, `" not satisfied`, `" instance`, `" data do not`} {
		if text, _, ok := strings.Cut(rest, end); ok {
			return text
		}
	}
	text, _, _ := strings.Cut(rest, `"`)
	return text
}

// parseLocation parses the path in libyang's description of a location, such as Data location "/m:list[k='v']/leaf".
func parseLocation(place string) Path {
	if _, after, ok := strings.Cut(place, `location "`); ok {
		place = after
		for _, end := range []string{`", line`, `", data`, `".`} {
			if i := strings.LastIndex(place, end); i >= 0 {
				place = place[:i]
			}
		}
	}
	var p Path
	for strings.HasPrefix(place, "/") {
		end := strings.IndexAny(place[1:], "/[") + 1
		if end == 0 {
			end = len(place)
		}
		step := Step{Name: bare(place[1:end])}
		place = place[end:]
		for strings.HasPrefix(place, "[") {
			key, rest, ok := parsePredicate(place)
			if !ok {
				return append(p, step)
			}
			step.Keys = append(step.Keys, key)
			place = rest
		}
		p = append(p, step)
	}
	return p
}

// parsePredicate reads [name='value'] and returns the value and what follows.
func parsePredicate(s string) (key, rest string, ok bool) {
	i := strings.IndexByte(s, '=')
	if i < 0 || i+1 >= len(s) || (s[i+1] != '\'' && s[i+1] != '"') {
		return "", "", false
	}
	key, rest, ok = strings.Cut(s[i+2:], s[i+1:i+2]+"]")
	return key, rest, ok
}
