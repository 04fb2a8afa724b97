// SPDX-License-Identifier: Apache-2.0

// Paths into the data of a cube: words from a URL, resolved against the model.

package yang

import (
	"fmt"
	"strings"

	"github.com/polycube/polycube/internal/fault"
	"github.com/polycube/polycube/internal/suggest"
)

// Limits on a path, checked before libyang sees it.
const (
	maxDepth     = 64
	maxPathWords = maxDepth * 9
	maxValue     = 1 << 20
)

// Resolve resolves the words of a URL below a cube to a node and the path to it. Keys are positional, one word each. A
// path that ends within the keys of a list is a [*PartialKeysError], anything else an [*Error].
func (s *Schema) Resolve(words []string) (*Node, Path, error) {
	if len(words) > maxPathWords {
		return nil, nil, &Error{Tag: InvalidValue, Message: "the path is too long"}
	}
	node, path := s.root, Path{}
	for len(words) > 0 {
		name := words[0]
		child := node.Child(name)
		if child == nil {
			return nil, nil, node.lacks(path, name)
		}
		node, words = child, words[1:]
		keys, err := stepKeys(child, path, words)
		if err != nil {
			return nil, nil, err
		}
		path = path.With(name, keys...)
		words = words[len(keys):]
	}
	return node, path, nil
}

// ActionOf finds the action that the words `LIST VERB VALUE...` stand for: LIST-VERB, a sibling of the list. It
// returns the path to it, and the values, which are for the required inputs of the action. The node is nil if there is
// none.
func (s *Schema) ActionOf(words []string) (action *Node, path Path, values []string) {
	node := s.root
	for len(words) > 1 {
		child := node.Child(words[0])
		if child == nil {
			return nil, nil, nil
		}
		if a := node.Child(words[0] + "-" + words[1]); a != nil && a.kind == Action && child.kind == List {
			return a, path.With(a.name), words[2:]
		}
		keys := min(child.keyCount(), len(words)-1)
		path = path.With(words[0], words[1:1+keys]...)
		node, words = child, words[1+keys:]
	}
	return nil, nil, nil
}

// Verbs are the actions that ActionOf finds after the name of a list.
func (n *Node) Verbs() map[string]*Node {
	out := map[string]*Node{}
	for _, a := range n.parent.children {
		if verb, ok := strings.CutPrefix(a.name, n.name+"-"); ok && a.kind == Action && n.kind == List {
			out[verb] = a
		}
	}
	return out
}

// lacks is the error about a missing member of the node at p.
func (n *Node) lacks(p Path, name string) *Error {
	var known []string
	for _, c := range n.children {
		known = append(known, c.name)
	}
	near := suggest.Near(name, known)
	switch at := n; {
	case near != nil:
	case strings.Contains(name, "."):
		words := strings.Split(name, ".")
		for _, w := range words {
			at = at.Child(w)
		}
		if at != nil {
			near = []string{strings.Join(words, " ")}
		}
	default:
		near = n.inside(name, false)
	}
	return &Error{Tag: BadElement, Path: p.With(fault.Shorten(name)).String(), Given: name, Near: near,
		Message: fmt.Sprintf("%s has no %q", n.what(p), fault.Shorten(name))}
}

// maxInside is up to how many matching members are offered.
const maxInside = 3

// inside finds members with this name in the containers of a node, and returns them with dots between the names.
// settable omits state.
func (n *Node) inside(name string, settable bool) []string {
	var out []string
	for _, c := range n.children {
		if c.kind != Container || len(out) == maxInside {
			continue
		}
		if m := c.Child(name); m != nil && m.kind != Action && (m.config || !settable) {
			out = append(out, c.name+"."+name)
		}
		for _, deeper := range c.inside(name, settable) {
			out = append(out, c.name+"."+deeper)
		}
	}
	return out[:min(len(out), maxInside)]
}

// stepKeys takes the keys of node from words. No keys at all is valid.
func stepKeys(node *Node, parent Path, words []string) ([]string, error) {
	want := node.keyCount()
	if want == 0 || len(words) == 0 {
		return nil, nil
	}
	keys := words[:min(want, len(words))]
	for _, k := range keys {
		if err := fault.Text(k); err != nil {
			return nil, fault.At(InvalidValue, parent.With(node.name), "key %q: %v", fault.Shorten(k), err)
		}
	}
	if len(keys) < want {
		return nil, &PartialKeysError{List: node, Path: parent.With(node.name), Given: keys}
	}
	return keys, nil
}

// node checks a path from a caller and returns its node.
func (s *Schema) node(p Path) (*Node, error) {
	if len(p) > maxDepth {
		return nil, &Error{Tag: InvalidValue, Message: "the path is too deep"}
	}
	node := s.root
	for i, step := range p {
		child := node.Child(step.Name)
		if child == nil {
			return nil, node.lacks(p[:i], step.Name)
		}
		want := child.keyCount()
		if len(step.Keys) > 0 && len(step.Keys) != want {
			return nil, fault.At(InvalidValue, p[:i+1], "%d keys given, %d required", len(step.Keys), want)
		}
		if child.kind == List && len(step.Keys) == 0 && i < len(p)-1 {
			return nil, fault.At(MissingElement, p[:i+1], "keys are missing")
		}
		for _, k := range step.Keys {
			if err := fault.Text(k); err != nil {
				return nil, fault.At(InvalidValue, p[:i], "%s: key %q: %v", step.Name, fault.Shorten(k), err)
			}
		}
		node = child
	}
	return node, nil
}

// keysID is a unique string for each list of keys.
func keysID(keys []string) string { return fmt.Sprintf("%q", keys) }
