// SPDX-License-Identifier: Apache-2.0

// Large lists. A list that the model marks `bulk` is not part of the tree that libyang validates as a whole: its
// entries are checked one by one and kept in a [bulk.Table], so the cost of a change does not grow with the list.
//
// The model of such a list can only have constraints that can be checked entry by entry.

package yang

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/fault"
)

// Bulk reports whether the node is a list whose entries are kept in a [bulk.Table].
func (n *Node) Bulk() bool { return n.bulk }

// BulkLists returns the lists of the model whose entries are kept in tables.
func (s *Schema) BulkLists() []*Node { return s.bulk }

// reference is a leafref within a bulk list.
type reference struct {
	leaf, target *Node
}

// checkMarks refuses marks on nodes that cannot have them.
func (n *Node) checkMarks() error {
	for _, mark := range []string{"paged", "deletable"} {
		if _, ok := n.extensions[mark]; ok && (!n.marked(mark) || len(n.keys) == 0) {
			return fmt.Errorf("%s is marked %s: only a state list with keys can be", n.path, mark)
		}
	}
	if n.positions && !n.bulk {
		return fmt.Errorf("%s is marked positions: only a list that is marked bulk can be", n.path)
	}
	if _, ok := n.extensions["add-replaces"]; ok && !n.AddReplaces() {
		return fmt.Errorf("%s is marked add-replaces: only a configuration list can be", n.path)
	}
	for _, c := range n.children {
		if err := c.checkMarks(); err != nil {
			return err
		}
	}
	return nil
}

// findBulk collects the bulk lists of a model, and refuses constraints that cannot be checked entry by entry.
func (s *Schema) findBulk(n *Node) error {
	if n.bulk {
		if err := n.checkBulk(); err != nil {
			return fmt.Errorf("%s is marked bulk: %w", n.path, err)
		}
		s.bulk = append(s.bulk, n)
		s.forms[n.path] = formOf(n)
		for above := n.parent; above != nil; above = above.parent {
			above.holdsBulk = true
		}
	}
	for _, c := range n.children {
		if err := s.findBulk(c); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) checkBulk() error {
	switch {
	case n.kind != List || !n.config || n.inOutput:
		return fmt.Errorf("only a configuration list can be")
	case n.userOrder:
		return fmt.Errorf("its entries must be ordered-by system")
	case n.min > 0:
		return fmt.Errorf("min-elements is not supported here")
	case n.positions && (len(n.keys) != 1 || n.keys[0] != n.children[0] || n.keys[0].typ.Base != "uint32"):
		return fmt.Errorf("it is marked positions, so its first leaf must be its only key, a uint32")
	}
	for above := n.parent; above != nil && above.parent != nil; above = above.parent {
		if above.bulk && (!n.parent.bulk || n.positions || above.positions || above.systemCreated) {
			return fmt.Errorf("in a list that is marked bulk, it must be a member of the entries, and neither have positions nor be system-created")
		}
		nests := above.kind == Container && !above.presence || above.kind == List && !above.userOrder
		if !nests || above.when || len(above.cases) > 0 {
			return fmt.Errorf("its ancestor %s must be a container without presence, or a list ordered-by system, and have neither when nor choice",
				above.path)
		}
	}
	return n.checkBelow(n)
}

// formOf is what the tables of a bulk list have in common.
func formOf(n *Node) *bulk.Form {
	f := &bulk.Form{List: n.path, Positions: n.positions}
	for _, k := range n.keys {
		f.Numeric = append(f.Numeric, strings.Contains(k.typ.Base, "int") && len(k.typ.Union) == 0)
	}
	before := map[string]bool{}
	for _, c := range n.children {
		if c.bulk {
			f.Inner = append(f.Inner, bulk.Inner{Name: c.name, List: c.path, Before: maps.Clone(before)})
		}
		before[c.name] = true
	}
	return f
}

// checkBelow checks n, which is a part of the bulk list.
func (n *Node) checkBelow(list *Node) error {
	switch {
	case n.bulk && n != list:
		return nil // checked by itself
	case n.when:
		return fmt.Errorf("%s: when is not supported here", n.path)
	case n.musts:
		return fmt.Errorf("%s: must is not supported here", n.path)
	case n.unique:
		return fmt.Errorf("%s: unique is not supported here", n.path)
	case len(n.cases) > 0:
		return fmt.Errorf("%s: a choice is not supported here", n.path)
	case n.kind == List && n != list && n.config && n.userOrder:
		return fmt.Errorf("%s: its entries must be ordered-by system", n.path)
	case n.kind == Leaf || n.kind == LeafList:
		return n.checkReference(list)
	}
	for _, c := range n.children {
		if c.kind == Action {
			return fmt.Errorf("%s: actions are not supported here", c.path)
		}
		if err := c.checkBelow(list); err != nil {
			return err
		}
	}
	return nil
}

// checkReference records the target of a leafref.
func (n *Node) checkReference(list *Node) error {
	if !n.config {
		return nil
	}
	if n.typ.Base == "instance-identifier" {
		return fmt.Errorf("%s: an instance-identifier is not supported here", n.path)
	}
	for _, m := range n.typ.Union {
		if m.LeafrefPath != "" {
			return fmt.Errorf("%s: a leafref in a union is not supported here", n.path)
		}
	}
	if n.typ.LeafrefPath == "" {
		return nil
	}
	target := n.follow(n.typ.LeafrefPath)
	if target == nil || target.kind != Leaf || target.within(list) {
		return fmt.Errorf("%s: leafref %s: the target must be a leaf outside the list, without conditions on the path to it",
			n.path, n.typ.LeafrefPath)
	}
	for above := target.parent; above != nil; above = above.parent {
		single := target.key && above == target.parent && len(above.keys) == 1 && !above.bulk
		if above.kind != Container && !single {
			return fmt.Errorf("%s: leafref %s: the target must be the single key of a list, or a leaf outside lists",
				n.path, n.typ.LeafrefPath)
		}
	}
	list.refs = append(list.refs, reference{leaf: n, target: target})
	return nil
}

// follow walks a leafref's path; nil if it has more than names.
func (n *Node) follow(path string) *Node {
	if strings.ContainsAny(path, "[(") {
		return nil
	}
	at := n
	if rest, ok := strings.CutPrefix(path, "/"); ok {
		at, path = n.schema.root, rest
	}
	for _, word := range strings.Split(path, "/") {
		switch {
		case at == nil:
			return nil
		case word == "..":
			at = at.parent
		default:
			at = at.Child(fault.Bare(word))
		}
	}
	return at
}

// within reports whether the node is list or below it.
func (n *Node) within(list *Node) bool {
	for ; n != nil; n = n.parent {
		if n == list {
			return true
		}
	}
	return false
}

// checkMentions refuses conditions and leafrefs elsewhere that refer to a bulk list, because they would find it empty.
func (s *Schema) checkMentions(n *Node) error {
	if n.bulk {
		return nil
	}
	for _, list := range s.bulk {
		name := regexp.MustCompile(`(^|[^\w.-])` + regexp.QuoteMeta(list.name) + `($|[^\w.-])`)
		if i := slices.IndexFunc(n.conditions, name.MatchString); i >= 0 {
			return fmt.Errorf("%s: the condition %s may look into %s, which is marked bulk", n.path, n.conditions[i], list.path)
		}
		if path := n.typ.LeafrefPath; path != "" && n.follow(path).within(list) {
			return fmt.Errorf("%s: a leafref cannot look into %s, which is marked bulk", n.path, list.path)
		}
	}
	below := n.children
	if n.kind == Action {
		below = []*Node{n.input, n.output}
	}
	for _, c := range below {
		if err := s.checkMentions(c); err != nil {
			return err
		}
	}
	return nil
}

// bulkStep returns the index of the last step of a path that is a bulk list, -1 if there is none.
func (s *Schema) bulkStep(p Path) int {
	node, last := s.root, -1
	for i, step := range p {
		if node = node.Child(step.Name); node == nil {
			break
		}
		if node.bulk {
			last = i
		}
	}
	return last
}

// Ancestors returns the ancestors of a node, outermost first.
func (n *Node) Ancestors() []*Node {
	var out []*Node
	for up := n.parent; up != nil && up.parent != nil; up = up.parent {
		out = append(out, up)
	}
	slices.Reverse(out)
	return out
}

// pathTo returns the path of a node below list entries with some keys, outermost first.
func (n *Node) pathTo(keys ...string) Path {
	p := Path{}
	for _, node := range append(n.Ancestors(), n) {
		if node.parent == nil {
			break
		}
		mine := 0
		if node.kind == List {
			mine = min(len(node.keys), len(keys))
		}
		p = p.With(node.name, keys[:mine:mine]...)
		keys = keys[mine:]
	}
	return p
}

// KeysAbove returns the keys of the list entries on a path, without those of its last step, in canonical form.
func (s *Schema) KeysAbove(p Path) ([]string, error) {
	var keys []string
	node := s.root
	for _, step := range p[:max(len(p)-1, 0)] {
		if node = node.Child(step.Name); node.kind != List {
			continue
		}
		own, err := node.CanonicalKeys(step.Keys)
		if err != nil {
			return nil, err
		}
		keys = append(keys, own...)
	}
	return keys, nil
}

// Canonical returns the path to an action or a leaf with its keys in canonical form.
func (s *Schema) Canonical(p Path) (Path, error) {
	node, err := s.node(p)
	if err != nil {
		return nil, err
	}
	keys, err := s.KeysAbove(p)
	if err != nil {
		return nil, err
	}
	return node.pathTo(keys...), nil
}
