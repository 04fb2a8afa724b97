// SPDX-License-Identifier: Apache-2.0

// Applies fragments to the tree: finds the existing nodes, compares, and replaces as little as possible, so that the
// cost of an edit depends on what it changes.

package yang

import (
	"fmt"
	"slices"

	"github.com/polycube/polycube/internal/fault"
)

// editor is one edit in progress.
type editor struct {
	t       *Tree
	op      Op
	amend   bool
	undo    *undo
	touches []touch
	seen    map[string]int
}

// place is a node in the tree below which the edit changes something.
type place struct {
	at   ref // nil for the cube
	path Path
	node *Node
	// existing tells that the list entry (or the cube) existed before the edit, so that nodes fixed at creation cannot
	// change.
	existing bool
}

func (e *editor) in(parent place, n *Node, at ref) place {
	return place{at: at, path: parent.path.With(n.name), node: n, existing: parent.existing}
}

// configure starts the configuration of an entry that exists by itself.
func (e *editor) configure(from place, f *fragment) error {
	entry, err := newList(from.at, f.node, f.keys) // insert first removes it from there
	if err != nil {
		return fmt.Errorf("create %s: %w", from.path.With(f.node.name, f.keys...), err)
	}
	return e.insert(from, &fragment{node: f.node, ref: entry, keys: f.keys})
}

// run finds the parent of the target and applies the operation there.
func (e *editor) run(p Path, node *Node, chain []*fragment, target *fragment) error {
	here := place{path: Path{}, node: e.t.schema.root, existing: e.t.created}
	if len(p) == 0 {
		if e.op == Create && e.t.created {
			return &Error{Tag: DataExists, Message: "the cube already exists"}
		}
		return e.content(here, target.kids, e.op == Replace)
	}
	for i, f := range chain {
		next, err := e.descend(here, f, p[:i+1])
		if err != nil {
			return err
		}
		here = next
	}
	switch {
	case target.gone:
		return e.unset(here, node)
	case node.kind == Leaf:
		return e.leafTarget(here, target)
	case node.kind == Container:
		return e.containerTarget(here, target)
	case len(p[len(p)-1].Keys) > 0:
		return e.entryTarget(here, target)
	}
	return e.wholeTarget(here, target)
}

// descend goes down one step; only containers without presence may be missing.
func (e *editor) descend(from place, f *fragment, p Path) (place, error) {
	n := f.node
	if n.kind == List {
		at := e.t.same(from.at, f)
		if at == nil && n.systemCreated && e.op != Delete {
			if err := e.configure(from, f); err != nil {
				return place{}, err
			}
			at = e.t.same(from.at, f)
		}
		if at == nil {
			return place{}, fault.At(DataMissing, p, "does not exist")
		}
		return place{at: at, path: from.path.With(n.name, f.keys...), node: n, existing: true}, nil
	}
	if at := findSchema(e.t.root, from.at, n); at != nil {
		return e.in(from, n, at), nil
	}
	if n.presence || e.op == Delete {
		return place{}, fault.At(DataMissing, p, "does not exist")
	}
	// created below its parent, or as a root if it is the cube
	at, err := newInner(from.at, n)
	if err != nil {
		return place{}, fmt.Errorf("create %s: %w", p, err)
	}
	if from.at == nil {
		if err := e.t.link(nil, at, last); err != nil {
			freeTree(at)
			return place{}, fmt.Errorf("insert %s: %w", p, err)
		}
	}
	here := e.in(from, n, at)
	e.undo.records = append(e.undo.records, record{kind: inserted, path: here.path})
	return here, nil
}

func (e *editor) leafTarget(in place, f *fragment) error {
	n := f.node
	p := in.path.With(n.name)
	cur := findSchema(e.t.root, in.at, n)
	isSet := cur != nil && !isDefault(cur)
	switch {
	case e.op == Create && isSet:
		return fault.At(DataExists, p, "is already set to %s", fault.Shorten(termValue(cur)))
	case e.op != Delete:
		return e.setLeaf(in, f)
	case !isSet:
		return fault.At(DataMissing, p, "is not set")
	case e.fixed(in, n):
		return fault.At(InvalidValue, p, "is fixed at creation and cannot be deleted")
	}
	return e.clear(in, n)
}

func (e *editor) containerTarget(in place, f *fragment) error {
	n := f.node
	p := in.path.With(n.name)
	cur := findSchema(e.t.root, in.at, n)
	if n.presence {
		switch {
		case e.op == Create && cur != nil:
			return fault.At(DataExists, p, "exists already")
		case (e.op == Merge || e.op == Delete) && cur == nil:
			return fault.At(DataMissing, p, "does not exist")
		}
	}
	switch {
	case e.op == Delete:
		return e.clear(in, n)
	case cur == nil:
		return e.insert(in, f)
	}
	return e.content(e.in(in, n, cur), f.kids, e.op == Replace)
}

// entryTarget edits one entry of a list or leaf-list.
func (e *editor) entryTarget(in place, list *fragment) error {
	n, f := list.node, list.kids[0]
	p := in.path.With(n.name, f.keys...)
	cur := e.t.same(in.at, f)
	switch {
	case e.op == Create && cur != nil:
		return fault.At(DataExists, p, "exists already")
	case (e.op == Merge && !n.systemCreated || e.op == Delete) && cur == nil:
		return fault.At(DataMissing, p, "does not exist")
	case e.op == Delete && e.fixed(in, n):
		return fault.At(InvalidValue, p, "is fixed at creation and cannot be deleted")
	}
	if n.kind == LeafList {
		if err := e.touchNow(in.path.With(n.name), n); err != nil {
			return err
		}
	}
	switch {
	case e.op == Delete && n.kind == LeafList:
		e.remove(in, cur)
		return nil
	case e.op == Delete:
		return e.removeEntry(in, n, cur)
	case cur == nil:
		return e.insert(in, f)
	case n.kind == LeafList:
		return nil
	}
	return e.content(place{at: cur, path: p, node: n, existing: true}, f.kids, e.op == Replace)
}

// wholeTarget edits a whole list or leaf-list.
func (e *editor) wholeTarget(in place, list *fragment) error {
	n := list.node
	p := in.path.With(n.name)
	cur := findSchema(e.t.root, in.at, n)
	switch {
	case e.op == Delete && e.fixed(in, n) && cur != nil:
		return fault.At(InvalidValue, p, "is fixed at creation and cannot be deleted")
	case e.op == Delete:
		return e.clear(in, n)
	case n.kind == LeafList && e.op == Create && cur != nil && !isDefault(cur):
		return fault.At(DataExists, p, "is already set")
	case n.kind == LeafList:
		return e.setLeafList(in, list)
	case list.exact:
		return e.list(in, list, true)
	}
	for _, f := range list.kids {
		exists := e.t.same(in.at, f) != nil
		if e.op == Create && exists {
			return fault.At(DataExists, in.path.With(n.name, f.keys...), "exists already")
		}
		if e.op == Merge && !exists && !n.systemCreated {
			return fault.At(DataMissing, in.path.With(n.name, f.keys...), "does not exist")
		}
	}
	return e.list(in, list, e.op == Replace)
}

// content applies members to a container, an entry or the cube. With replace, members that are not given are removed.
func (e *editor) content(in place, kids []*fragment, replace bool) error {
	if replace {
		for _, n := range in.node.children {
			given := slices.ContainsFunc(kids, func(f *fragment) bool { return f.node == n })
			if given || n.key || !n.config {
				continue
			}
			if err := e.clear(in, n); err != nil {
				return err
			}
		}
	}
	for _, f := range kids {
		if err := e.member(in, f, replace); err != nil {
			return err
		}
	}
	return nil
}

// unset removes a member, if it exists.
func (e *editor) unset(in place, n *Node) error {
	if cur := findSchema(e.t.root, in.at, n); cur != nil && e.fixed(in, n) && !isDefault(cur) {
		return fault.At(InvalidValue, in.path.With(n.name), "is fixed at creation and cannot be deleted")
	}
	return e.clear(in, n)
}

func (e *editor) member(in place, f *fragment, replace bool) error {
	if f.gone {
		return e.unset(in, f.node)
	}
	switch f.node.kind {
	case Leaf:
		return e.setLeaf(in, f)
	case LeafList:
		return e.setLeafList(in, f)
	case List:
		return e.list(in, f, replace || f.exact)
	case Container, Action:
	}
	cur := findSchema(e.t.root, in.at, f.node)
	if cur == nil {
		return e.insert(in, f)
	}
	return e.content(e.in(in, f.node, cur), f.kids, replace)
}

// fixed reports whether n can be set only at creation, and the node already exists.
func (e *editor) fixed(in place, n *Node) bool {
	return n.initOnly && in.existing && !e.amend
}

func (e *editor) setLeaf(in place, f *fragment) error {
	n := f.node
	p := in.path.With(n.name)
	cur := findSchema(e.t.root, in.at, n)
	same := cur != nil && termValue(cur) == termValue(f.ref)
	switch {
	case same && !isDefault(cur):
		return nil
	case !same && e.fixed(in, n):
		if cur == nil {
			return fault.At(InvalidValue, p, "was not set at creation and cannot be set later")
		}
		return fault.At(InvalidValue, p, "is fixed at creation and stays %s", fault.Shorten(termValue(cur)))
	}
	if err := e.touchNow(p, n); err != nil {
		return err
	}
	if cur != nil {
		e.remove(in, cur)
	}
	return e.insert(in, f)
}

func (e *editor) setLeafList(in place, list *fragment) error {
	n := list.node
	p := in.path.With(n.name)
	var have []string
	explicit := true
	for cur := findSchema(e.t.root, in.at, n); cur != nil && e.t.schema.is(cur, n); cur = nextSibling(cur) {
		have = append(have, termValue(cur))
		explicit = explicit && !isDefault(cur)
	}
	want := make([]string, 0, len(list.kids))
	for _, f := range list.kids {
		want = append(want, f.keys[0])
	}
	same := slices.Equal(have, want)
	if !same && !n.userOrder {
		a, b := slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(want))
		same = slices.Equal(a, b)
	}
	if same && explicit {
		return nil
	}
	if !same && e.fixed(in, n) {
		return fault.At(InvalidValue, p, "is fixed at creation")
	}
	if err := e.touchNow(p, n); err != nil {
		return err
	}
	if err := e.removeAll(in, n, false); err != nil {
		return err
	}
	for _, f := range list.kids {
		if err := e.insert(in, f); err != nil {
			return err
		}
	}
	return nil
}

// list applies entries to a list.
func (e *editor) list(in place, list *fragment, replace bool) error {
	n := list.node
	misplaced := replace && n.userOrder && e.misplaced(in, list)
	if misplaced {
		if err := e.touchNow(in.path.With(n.name), n); err != nil {
			return err
		}
	}
	if replace {
		given := make(map[string]bool, len(list.kids))
		for _, f := range list.kids {
			given[keysID(f.keys)] = true
		}
		for _, cur := range e.instances(in, n) {
			if given[keysID(entryKeys(cur, n))] {
				continue
			}
			if e.fixed(in, n) {
				return fault.At(InvalidValue, in.path.With(n.name, entryKeys(cur, n)...), "is fixed at creation")
			}
			if err := e.removeEntry(in, n, cur); err != nil {
				return err
			}
		}
	}
	for _, f := range list.kids {
		at := place{path: in.path.With(n.name, f.keys...), node: n, existing: true}
		var err error
		if at.at = e.t.same(in.at, f); at.at != nil {
			err = e.content(at, f.kids, replace)
		} else {
			err = e.insert(in, f)
		}
		if err != nil {
			return err
		}
	}
	if misplaced {
		return e.reorder(in, list)
	}
	return nil
}

// instances returns the entries of a list, last first, so that removing them in this order needs no positions.
func (e *editor) instances(in place, n *Node) []ref {
	var out []ref
	for cur := findSchema(e.t.root, in.at, n); cur != nil && e.t.schema.is(cur, n); cur = nextSibling(cur) {
		out = append(out, cur)
	}
	slices.Reverse(out)
	return out
}

// is reports whether a data node is an instance of n.
func (s *Schema) is(node ref, n *Node) bool { return node.schema == n.native }
