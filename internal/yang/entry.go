// SPDX-License-Identifier: Apache-2.0

// One entry of a bulk list: it is created and edited as separate libyang data, checked, and kept as text.

package yang

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/fault"
)

// refID encodes a leafref: its number among the list's references, and the value.
func refID(ref int, value string) string { return string(rune('0'+ref)) + value }

// splitRef is the reverse of refID.
func splitRef(id string) (ref int, value string) {
	r, n := utf8.DecodeRuneInString(id)
	return int(r - '0'), id[n:]
}

// newEntry is an entry to be added to a table.
type newEntry struct {
	b     *builder
	list  *Node
	above []string
	entry *fragment
}

// CanonicalKeys returns the keys of an entry of a list as the model spells them.
func (n *Node) CanonicalKeys(keys []string) ([]string, error) {
	out := make([]string, len(keys))
	for i, key := range keys {
		text, err := n.keys[i].word(key)
		if err != nil {
			return nil, fault.At(InvalidValue, n.pathTo(), "%s: %v", n.keys[i].name, err)
		}
		if out[i], err = canonical(n.keys[i], text); err != nil {
			e := fault.At(InvalidValue, n.pathTo(), "%s: %s", n.keys[i].name, n.keys[i].reason(text, err))
			e.Path = n.keys[i].path
			return nil, e
		}
	}
	return out, nil
}

// newEntry creates an entry that has only its keys, below entries with other keys.
func (s *Schema) newEntry(list *Node, above, keys []string) (*newEntry, error) {
	b := &builder{ctx: context.Background()}
	path := list.parent.pathTo(above...)
	var parent *fragment
	for i, node := range list.Ancestors() {
		if parent = b.step(parent, node, path[:i], path[i].Keys); parent == nil {
			b.free()
			return nil, fault.Join(b.errs)
		}
	}
	entry := b.step(parent, list, path, keys)
	if entry == nil {
		b.free()
		return nil, fault.Join(b.errs)
	}
	return &newEntry{b, list, above, entry}, nil
}

func (n *newEntry) free() { n.b.free() }

// keys are the keys of the entry in canonical form.
func (n *newEntry) keys() []string { return n.entry.keys }

// path is the path of the entry, with its keys in canonical form.
func (n *newEntry) path() Path { return entryPath(n.list, n.above, n.entry.keys) }

// entryPath returns the path of an entry of a list below entries with some keys.
func entryPath(n *Node, above, keys []string) Path {
	return n.parent.pathTo(above...).With(n.name, keys...)
}

// fill adds the members of a body to the entry; errors in the body name p.
func (n *newEntry) fill(p Path, v value) (*item, error) {
	n.b.object(n.entry, n.list, p, v)
	if len(n.b.errs) > 0 {
		return nil, fault.Join(n.b.errs)
	}
	return finish(n.list, n.entry.ref, n.path())
}

// finish adds the defaults, and checks that nothing is missing.
func finish(list *Node, at ref, p Path) (*item, error) {
	if err := addDefaults(at); err != nil {
		return nil, fmt.Errorf("add defaults to %s: %w", p, err)
	}
	buf, err := dump(at, oneNode, false)
	if err != nil {
		return nil, err
	}
	items, err := list.schema.decode(buf, false)
	if err != nil {
		return nil, err
	}
	if len(items) != 1 {
		return nil, errDump
	}
	if err := complete(list, items[0].kids, p); err != nil {
		return nil, err
	}
	return items[0], nil
}

// newBulkEntry converts an entry.
func newBulkEntry(list *Node, it *item) *bulk.Entry {
	e, _ := printEntry(list, it, nil)
	return e
}

// printEntry converts an entry with a buffer that it may reuse and returns.
func printEntry(list *Node, it *item, buf []byte) (*bulk.Entry, []byte) {
	p := printer{buf: buf[:0], defaults: true}
	p.item(it)
	full := len(p.buf)
	p.defaults = false
	p.item(it)
	e := &bulk.Entry{Keys: itemKeys(it), Full: string(p.buf[:full])}
	if e.Saved = e.Full; string(p.buf[full:]) != e.Full {
		e.Saved = string(p.buf[full:])
	}
	for i, ref := range list.refs {
		referred(e, i, ref.leaf, it.kids)
	}
	return e, p.buf
}

// referred collects the values of leafrefs below items.
func referred(e *bulk.Entry, ref int, leaf *Node, items []*item) {
	for _, it := range items {
		switch {
		case it.node == leaf:
			e.Refs = append(e.Refs, refID(ref, it.text))
		case leaf.within(it.node):
			referred(e, ref, leaf, it.kids)
		}
	}
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
			e := fault.At(MissingAttribute, p, "%s is mandatory but missing", c.name)
			e.Path = p.With(c.name).String()
			return e
		case !c.listed():
		case given < c.min:
			return fault.At(MissingElement, p.With(c.name), "too few entries, at least %d are required", c.min)
		case c.max > 0 && given > c.max:
			return fault.At(InvalidValue, p.With(c.name), "too many entries, at most %d are allowed", c.max)
		}
	}
	for _, it := range items {
		at := p.With(it.node.name)
		if it.node.kind == List {
			at = p.With(it.node.name, itemKeys(it)...)
		}
		if err := complete(it.node, it.kids, at); err != nil {
			return err
		}
	}
	return nil
}

// editEntry returns old after an edit at p, which is the entry's path or below it. The edit is made in a tree with
// only this entry.
func (t *Tree) editEntry(list *Node, above []string, old *bulk.Entry, op Op, p Path, v value, amend bool) (*bulk.Entry, error) {
	apart, at, err := t.apart(list, above, old)
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
	it, err := finish(list, entry, at)
	if err != nil {
		return nil, err
	}
	return newBulkEntry(list, it), nil
}

// apart creates a tree with only one entry, and returns the path to it.
func (t *Tree) apart(list *Node, above []string, e *bulk.Entry) (*Tree, Path, error) {
	apart := t.schema.NewTree()
	apart.created = true
	at := entryPath(list, above, e.Keys)
	body, err := parseBody(context.Background(), []byte(e.Saved), nil, false)
	if err == nil {
		err = hold(apart, at)
	}
	if err == nil {
		err = apart.writeEntry(Create, at, body, true)
	}
	if err != nil {
		apart.Close()
		return nil, nil, fmt.Errorf("read %s: %w", at, err)
	}
	return apart, at, nil
}

// hold creates the entries of lists above a path.
func hold(t *Tree, p Path) error {
	for i, step := range p[:len(p)-1] {
		if len(step.Keys) == 0 {
			continue
		}
		if err := t.writeEntry(Create, slices.Clone(p[:i+1]), value{kind: objectValue}, true); err != nil {
			return err
		}
	}
	return nil
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
