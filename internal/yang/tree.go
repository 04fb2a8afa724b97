// SPDX-License-Identifier: Apache-2.0

// The configuration of one cube, and how it is read.

package yang

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/fault"
	"github.com/polycube/polycube/internal/yang/printed"
)

// Tree is the configuration of one cube. It belongs to one goroutine at a time and must be closed before its schema.
type Tree struct {
	schema  *Schema
	root    ref
	created bool
	// version numbers the states of the tree, so that changes are reverted in reverse order.
	version, versions uint64
	// broken is why the tree is no longer reliable.
	broken error
	tops   index
	// tables are the entries of bulk lists.
	tables   *bulk.Tables
	interned bulk.Interned
	live     map[*undo]struct{}
	printed  printed.Printer

	mu   sync.Mutex
	dead []*undo
}

// NewTree returns the tree of a cube that does not exist yet: the first edit, usually a Create of the empty path,
// creates it.
func (s *Schema) NewTree() *Tree {
	return &Tree{schema: s, live: make(map[*undo]struct{}), tops: make(index), tables: bulk.NewTables(s.forms)}
}

// Tables returns the current entries of bulk lists. They do not change any more.
func (t *Tree) Tables() *bulk.Tables { return t.tables }

// tableAt returns the table that a path leads to or into, whose step i is its list.
func tableAt(t *Tree, list *Node, p Path, i int) (*bulk.Table, error) {
	above, err := t.schema.KeysAbove(p[:i+1])
	if err != nil {
		return nil, err
	}
	return t.tables.At(list.path, above), nil
}

// Close frees the tree. Its changes can no longer be reverted.
func (t *Tree) Close() {
	t.collect()
	for u := range t.live {
		u.free()
	}
	t.live, t.tops = nil, nil
	freeAll(t.root)
	t.root = nil
	t.broken = fmt.Errorf("the configuration was closed")
}

// Clone returns an independent copy. Changes of t cannot be reverted on it. Copies of an unreliable tree are also
// unreliable.
func (t *Tree) Clone() *Tree {
	c := t.schema.NewTree()
	c.created, c.broken, c.tables = t.created, t.broken, t.tables
	if c.broken != nil {
		return c
	}
	root, err := cloneTree(t.root)
	if err != nil {
		c.broken = fmt.Errorf("clone configuration: %w", err)
		return c
	}
	c.root = root
	return c
}

// Schema returns the model of the tree.
func (t *Tree) Schema() *Schema { return t.schema }

// JSON prints the node at p: an object for the cube, a container or a list entry, an array for a whole list or
// leaf-list, a scalar for a leaf. A leaf with its default value is printed whatever the options. The error for a
// missing node matches [ErrNotFound].
func (t *Tree) JSON(p Path, o JSONOptions) ([]byte, error) {
	if t.broken != nil {
		return nil, t.broken
	}
	node, err := t.schema.node(p)
	if err != nil {
		return nil, err
	}
	if node.kind == Action {
		return nil, fault.At(OperationNotSupported, p, "is an action and has no value")
	}
	if !node.config {
		return nil, fault.At(DataMissing, p, "is state, not configuration")
	}
	if i := t.schema.bulkStep(p); i >= 0 {
		return t.bulkJSON(p, i, node, o)
	}
	out, err := t.render(p, node, o)
	if err != nil {
		return nil, err
	}
	if out == nil {
		return nil, fault.At(DataMissing, p, "does not exist")
	}
	return out, nil
}

// Entries returns the keys of the entries of the list at p, or the values of
// the leaf-list at p, in order. p names the whole list.
func (t *Tree) Entries(p Path) ([][]string, error) {
	if t.broken != nil {
		return nil, t.broken
	}
	node, err := t.schema.node(p)
	if err != nil {
		return nil, err
	}
	if node.keyCount() == 0 || !node.config || len(p[len(p)-1].Keys) > 0 {
		return nil, fault.At(BadElement, p, "is not a list")
	}
	var out [][]string
	if node.bulk {
		table, err := tableAt(t, node, p, len(p)-1)
		if err != nil {
			return nil, err
		}
		table.All(func(e *bulk.Entry) bool {
			out = append(out, e.Keys)
			return true
		})
		return out, nil
	}
	first, err := t.find(p)
	if err != nil {
		return nil, err
	}
	for e := first; e != nil && e.schema == first.schema; e = nextSibling(e) {
		if node.kind == List {
			out = append(out, entryKeys(e, node))
		} else {
			out = append(out, []string{termValue(e)})
		}
	}
	return out, nil
}

// Only completes a path that ends within the keys of a list, if exactly one entry has those keys. Other paths are
// unchanged.
func (t *Tree) Only(p Path) (Path, error) {
	if len(p) == 0 || len(p[len(p)-1].Keys) == 0 {
		return p, nil
	}
	last := p[len(p)-1]
	list := slices.Concat(p[:len(p)-1], Path{{Name: last.Name}})
	node, err := t.schema.node(list)
	if err != nil {
		return nil, err
	}
	if node.kind != List || len(last.Keys) >= node.keyCount() {
		return p, nil
	}
	given, err := node.CanonicalKeys(last.Keys)
	if err != nil {
		return nil, err
	}
	entries, err := t.Entries(list)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(keys []string) bool { return !slices.Equal(keys[:len(given)], given) })
	switch len(entries) {
	case 0:
		return nil, &Error{Tag: DataMissing, Path: p.String(), Message: p.Words() + ": does not exist"}
	case 1:
		return list[:len(list)-1].With(last.Name, entries[0]...), nil
	}
	var found []string
	for _, keys := range entries[:min(len(entries), maxFaults)] {
		found = append(found, list[:len(list)-1].With(last.Name, keys...).Words())
	}
	return nil, &Error{Tag: InvalidValue, Path: p.String(),
		Message: fmt.Sprintf("%s: there are %d, specify one: %s", p.Words(), len(entries), strings.Join(found, ", "))}
}

// render prints the node at p, or returns nil if it does not exist. Lists, leaf-lists and containers without presence
// always exist if their parent does.
func (t *Tree) render(p Path, node *Node, o JSONOptions) ([]byte, error) {
	pr := &printer{defaults: o.Defaults, tables: t.tables}
	if len(p) == 0 {
		items, err := t.read(t.root, allSiblings)
		if err != nil {
			return nil, err
		}
		if !o.Apart {
			items = t.withTables(node, nil, items)
		}
		pr.object(items)
		return pr.buf, nil
	}
	at, err := t.find(p)
	if err != nil {
		return nil, err
	}
	whole := node.keyCount() > 0 && len(p[len(p)-1].Keys) == 0
	if at == nil {
		return t.nothing(p, node, whole)
	}
	what := oneNode
	if whole {
		what = allInstances
	}
	items, err := t.read(at, what)
	if err != nil {
		return nil, err
	}
	if node.holdsBulk && !o.Apart {
		above, err := t.schema.KeysAbove(p)
		if err != nil {
			return nil, err
		}
		fill(t, above, items)
	}
	if whole {
		pr.array(items)
	} else {
		pr.item(items[0])
	}
	return pr.buf, nil
}

// bulkJSON prints a bulk list, which is step i of the path, or something in it.
func (t *Tree) bulkJSON(p Path, i int, node *Node, o JSONOptions) ([]byte, error) {
	list, err := t.schema.node(p[:i+1])
	if err != nil {
		return nil, err
	}
	table, err := tableAt(t, list, p, i)
	if err != nil {
		return nil, err
	}
	if missing, err := missingAbove(t, p[:i+1]); err != nil || len(missing) > 0 {
		return nil, cmp.Or(err, error(fault.At(DataMissing, p, "does not exist")))
	}
	if len(p[i].Keys) == 0 {
		return t.tables.AppendAll(nil, table, o.Defaults), nil
	}
	wanted, err := t.schema.newEntry(list, table.Above(), p[i].Keys)
	if err != nil {
		return nil, err
	}
	defer wanted.free()
	e, ok := table.Get(wanted.keys())
	switch {
	case !ok:
		return nil, fault.At(DataMissing, p, "does not exist")
	case i == len(p)-1:
		return t.tables.Append(nil, table, e, o.Defaults), nil
	}
	out, err := t.inEntry(list, table.Above(), e, p, node, o)
	if err == nil && out == nil {
		err = fault.At(DataMissing, p, "does not exist")
	}
	return out, err
}

// inEntry prints something in an entry.
func (t *Tree) inEntry(list *Node, above []string, e *bulk.Entry, p Path, node *Node, o JSONOptions) ([]byte, error) {
	apart, at, err := t.apart(list, above, e)
	if err != nil {
		return nil, err
	}
	defer apart.Close()
	entry, err := apart.find(at)
	if err != nil {
		return nil, err
	}
	if err := addDefaults(entry); err != nil {
		return nil, fmt.Errorf("add defaults to %s: %w", at, err)
	}
	return apart.render(p, node, o)
}

// nothing prints a node that has no data.
func (t *Tree) nothing(p Path, node *Node, whole bool) ([]byte, error) {
	if !whole && (node.kind != Container || node.presence) {
		return nil, nil
	}
	for i := len(p) - 1; i > 0; i-- {
		parent, err := t.schema.node(p[:i])
		if err != nil {
			return nil, err
		}
		if parent.kind == Container && !parent.presence {
			continue
		}
		at, err := t.find(p[:i])
		if err != nil || at == nil {
			return nil, err
		}
		break
	}
	if whole {
		return []byte("[]"), nil
	}
	return []byte("{}"), nil
}

// read copies nodes from C.
func (t *Tree) read(at ref, what scope) ([]*item, error) {
	buf, err := dump(at, what, false)
	if err != nil {
		return nil, err
	}
	return t.schema.decode(buf, false)
}

// find returns the node at p, nil if there is none. For a whole list it is the first entry.
func (t *Tree) find(p Path) (ref, error) {
	b := &builder{ctx: context.Background()}
	defer b.free()
	var parent ref
	var like *fragment
	node := t.schema.root
	for i, step := range p {
		node = node.Child(step.Name)
		if node == nil {
			return nil, fault.At(BadElement, p[:i+1], "unknown")
		}
		at, next := t.findStep(b, like, parent, node, p[:i], step)
		if len(b.errs) > 0 {
			return nil, fault.Join(b.errs)
		}
		if at == nil {
			return nil, nil
		}
		parent, like = at, next
	}
	return parent, nil
}

// findStep finds one step below parent. An entry is found by comparison with a node built below like: its keys may
// contain any byte, so XPath is not used.
func (t *Tree) findStep(b *builder, like *fragment, parent ref, node *Node, p Path, step Step) (ref, *fragment) {
	switch {
	case node.kind == Container:
		f := b.step(like, node, p, nil)
		return findSchema(t.root, parent, node), f
	case len(step.Keys) == 0:
		return findSchema(t.root, parent, node), nil
	case node.kind == LeafList:
		f := b.term(like, node, p.With(node.name), value{kind: stringValue, text: step.Keys[0]})
		if f == nil {
			return nil, nil
		}
		b.attach(like, f)
		return t.same(parent, f), f
	}
	f := b.step(like, node, p, step.Keys)
	if f == nil {
		return nil, nil
	}
	return t.same(parent, f), f
}
