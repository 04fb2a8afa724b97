// SPDX-License-Identifier: Apache-2.0

// One entry of a bulk list: it is created and edited as separate libyang data, checked, and kept as text.

package yang

import (
	"context"
	"fmt"
)

// newEntry is an entry to be added to a table.
type newEntry struct {
	b     *builder
	list  *Node
	entry *fragment
}

// CanonicalKeys returns the keys of an entry of a list as the model spells them.
func (n *Node) CanonicalKeys(keys []string) ([]string, error) {
	e, err := n.schema.newEntry(n, keys)
	if err != nil {
		return nil, err
	}
	defer e.free()
	return e.keys(), nil
}

// newEntry creates an entry that has only its keys.
func (s *Schema) newEntry(list *Node, keys []string) (*newEntry, error) {
	b := &builder{ctx: context.Background()}
	above := list.parent.pathTo()
	var parent *fragment
	for i, node := range list.above() {
		parent = b.step(parent, node, above[:i], nil)
	}
	entry := b.step(parent, list, above, keys)
	if entry == nil {
		b.free()
		return nil, join(b.errs)
	}
	return &newEntry{b, list, entry}, nil
}

func (n *newEntry) free() { n.b.free() }

// keys are the keys of the entry in canonical form.
func (n *newEntry) keys() []string { return n.entry.keys }

// path is the path of the entry, with its keys in canonical form.
func (n *newEntry) path() Path { return n.list.parent.pathTo().with(n.list.name, n.entry.keys...) }

// fill adds the members of a body to the entry; errors in the body name p.
func (n *newEntry) fill(t *Tree, p Path, v value) (*Entry, error) {
	n.b.object(n.entry, n.list, p, v)
	if len(n.b.errs) > 0 {
		return nil, join(n.b.errs)
	}
	return t.finish(n.list, n.entry.ref, n.path())
}

// finish adds the defaults, checks that nothing is missing, and converts the entry.
func (t *Tree) finish(list *Node, at ref, p Path) (*Entry, error) {
	if err := addDefaults(at); err != nil {
		return nil, fmt.Errorf("add defaults to %s: %w", p, err)
	}
	items, err := t.read(at, oneNode)
	if err != nil {
		return nil, err
	}
	if len(items) != 1 {
		return nil, errDump
	}
	if err := complete(list, items[0].kids, p); err != nil {
		return nil, err
	}
	full, saved := printer{defaults: true}, printer{}
	full.item(items[0])
	saved.item(items[0])
	e := &Entry{keys: itemKeys(items[0]), full: string(full.buf), saved: string(saved.buf)}
	if e.full == e.saved {
		e.saved = e.full
	}
	for i, ref := range list.refs {
		t.referred(e, i, ref.leaf, items[0].kids)
	}
	return e, nil
}

// referred collects the values of leafrefs below items.
func (t *Tree) referred(e *Entry, ref int, leaf *Node, items []*item) {
	for _, it := range items {
		switch {
		case it.node == leaf:
			e.refs = append(e.refs, t.intern(refID(ref, it.text)))
		case leaf.within(it.node):
			t.referred(e, ref, leaf, it.kids)
		}
	}
}

// intern returns the same string for equal ones: many entries refer to few values.
func (t *Tree) intern(s string) string {
	if known, ok := t.interned[s]; ok {
		return known
	}
	if t.interned == nil || len(t.interned) > 4096 {
		t.interned = make(map[string]string)
	}
	t.interned[s] = s
	return s
}

// complete checks the required members of an entry, or of something in it.
func complete(n *Node, items []*item, p Path) error {
	count := make(map[*Node]int, len(items))
	for _, it := range items {
		count[it.node]++
	}
	for _, c := range n.children {
		given := count[c]
		switch {
		case c.kind == Leaf && given == 0 && c.mandatory:
			e := fault(MissingAttribute, p, "%s is mandatory but missing", c.name)
			e.Path = p.with(c.name).String()
			return e
		case !c.listed():
		case given < c.min:
			return fault(MissingElement, p.with(c.name), "too few entries, at least %d are required", c.min)
		case c.max > 0 && given > c.max:
			return fault(InvalidValue, p.with(c.name), "too many entries, at most %d are allowed", c.max)
		}
	}
	for _, it := range items {
		at := p.with(it.node.name)
		if it.node.kind == List {
			at = p.with(it.node.name, itemKeys(it)...)
		}
		if err := complete(it.node, it.kids, at); err != nil {
			return err
		}
	}
	return nil
}

// editEntry returns old after an edit at p, which is the entry's path or below it. The edit is made in a tree with
// only this entry.
func (t *Tree) editEntry(list *Node, old *Entry, op Op, p Path, v value, amend bool) (*Entry, error) {
	apart, at, err := t.apart(list, old)
	if err != nil {
		return nil, err
	}
	defer apart.Close()
	if err := apart.writeEntry(op, p, v, amend); err != nil {
		return nil, err
	}
	entry, err := apart.find(at)
	if err != nil || entry == nil {
		return nil, fmt.Errorf("find %s: %w", at, err)
	}
	return apart.finish(list, entry, at)
}

// apart creates a tree with only one entry, and returns the path to it.
func (t *Tree) apart(list *Node, e *Entry) (*Tree, Path, error) {
	apart := t.schema.NewTree()
	apart.created = true
	at := list.parent.pathTo().with(list.name, e.keys...)
	body, err := parseBody(context.Background(), []byte(e.saved), nil, false)
	if err == nil {
		err = apart.writeEntry(Create, at, body, true)
	}
	if err != nil {
		apart.Close()
		return nil, nil, fmt.Errorf("read %s: %w", at, err)
	}
	return apart, at, nil
}

// writeEntry makes an edit without validation.
func (t *Tree) writeEntry(op Op, p Path, v value, amend bool) error {
	node, err := t.schema.node(p)
	if err != nil {
		return err
	}
	b := &builder{ctx: context.Background(), merges: op == Merge}
	defer b.free()
	chain, target, err := t.requestValue(b, op, p, node, v)
	if err != nil {
		return err
	}
	e := &editor{t: t, op: op, amend: amend, undo: &undo{}}
	defer e.undo.free()
	return e.run(p, node, chain, target)
}
