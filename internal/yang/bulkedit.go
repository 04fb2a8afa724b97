// SPDX-License-Identifier: Apache-2.0

// Editing bulk lists: an edit means the same as for any other list, but only the entries that it names are processed.

package yang

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// EntryChange is an entry of a bulk list that was added (Old is nil), deleted (New is nil) or changed.
type EntryChange struct {
	List     *Node
	Old, New *Entry
}

// bulkEditor is the part of an edit that concerns bulk lists.
type bulkEditor struct {
	ctx     context.Context
	t       *Tree
	op      Op
	amend   bool
	before  map[*Node]*Table
	own     map[*Node]bool
	errs    []*Error
	changes []EntryChange
}

func (t *Tree) newBulkEditor(ctx context.Context, op Op, amend bool) *bulkEditor {
	return &bulkEditor{ctx: ctx, t: t, op: op, amend: amend, before: maps.Clone(t.tables), own: map[*Node]bool{}}
}

// bulkBody is the part of a body about a bulk list.
type bulkBody struct {
	list *Node
	body value
}

// cutBulk removes the bulk lists from the body of an edit of n.
func (n *Node) cutBulk(v value) (value, []bulkBody) {
	if v.kind != objectValue || !n.holdsBulk {
		return v, nil
	}
	var cut []bulkBody
	rest := value{kind: objectValue}
	for _, m := range v.members {
		child := n.Child(m.name)
		switch {
		case child != nil && child.bulk:
			cut = append(cut, bulkBody{child, m.value})
			continue
		case child != nil && child.holdsBulk:
			var below []bulkBody
			m.value, below = child.cutBulk(m.value)
			cut = append(cut, below...)
		}
		rest.members = append(rest.members, m)
	}
	return rest, cut
}

// editBulk edits a bulk list, or something in it; step i of the path is the list.
func (t *Tree) editBulk(ctx context.Context, op Op, p Path, i int, body []byte, m editMode) (*Change, error) {
	list, err := t.schema.node(p[:i+1])
	if err != nil {
		return nil, err
	}
	v := value{kind: objectValue}
	if op != Delete {
		var typed *Node
		if m.words {
			typed, err = t.schema.node(p)
		}
		if err == nil {
			v, err = parse(&reader{ctx: ctx, words: m.words}, body, typed, p.toEntry())
		}
		if err != nil {
			return nil, &Error{Tag: InvalidValue, Path: p.String(), Message: err.Error()}
		}
	}
	b := t.newBulkEditor(ctx, op, m.amend)
	if len(p[i].Keys) == 0 {
		b.whole(list, v)
	} else {
		b.entry(list, p, i, v)
	}
	if len(b.errs) == 0 {
		b.checkReferences(nil)
	}
	if len(b.errs) > 0 {
		b.rollback()
		return nil, join(b.errs)
	}
	return t.changed(&editor{t: t, undo: &undo{}}, b, nil), nil
}

// rest is the part of an edit above bulk lists that affects them.
func (b *bulkEditor) rest(node *Node, bodies []bulkBody) {
	given := map[*Node]bool{}
	for _, body := range bodies {
		given[body.list] = true
		if b.op == Merge && body.body.kind == nullValue && !b.fixed(body.list) {
			b.clear(body.list)
		} else if b.isArray(body.list, body.body) {
			b.put(body.list, body.body.items, upsert)
		}
	}
	if b.op != Replace && b.op != Delete {
		return
	}
	for _, list := range b.t.schema.bulk {
		if !given[list] && list.within(node) && !b.fixed(list) {
			b.clear(list)
		}
	}
}

// whole edits a whole list.
func (b *bulkEditor) whole(list *Node, v value) {
	switch {
	case b.op == Delete && b.fixed(list) && b.t.tables[list].Len() > 0:
		b.fail(fault(InvalidValue, list.pathTo(), "is fixed at creation and cannot be deleted"))
	case b.op == Delete, b.op == Merge && v.kind == nullValue && !b.fixed(list):
		b.clear(list)
	case b.isArray(list, v):
		b.put(list, v.items, strict)
	}
}

func (b *bulkEditor) isArray(list *Node, v value) bool {
	if v.kind != arrayValue {
		b.fail(fault(InvalidValue, list.pathTo(), "%s is given, but an array of objects is required", v.kind))
	}
	return v.kind == arrayValue
}

// presence says what may exist before an entry is put.
type presence bool

const (
	// strict: Create requires it to be missing, Merge to exist.
	strict presence = false
	upsert presence = true
)

// put applies entries to a list. Replace removes the others.
func (b *bulkEditor) put(list *Node, items []value, how presence) {
	above := list.parent.pathTo()
	seen := make(map[string]bool, len(items))
	fb := &builder{ctx: b.ctx}
	defer fb.free()
	for i, it := range items {
		if err := b.ctx.Err(); err != nil {
			b.fail(fault(InvalidValue, above.with(list.name), "element %d: %v", i, err))
			return
		}
		if it.kind != objectValue {
			b.fail(fault(InvalidValue, above.with(list.name), "element %d is %s, but must be an object", i, it.kind))
			continue
		}
		keys, ok := fb.keysOf(list, above, i, it)
		if !ok {
			continue
		}
		b.putEntry(list, keys, it, how, seen)
	}
	b.errs = append(b.errs, fb.errs...)
	if b.op != Replace || len(b.errs) > 0 {
		return
	}
	var gone []*Entry
	b.t.tables[list].All(func(e *Entry) bool {
		if !seen[keysID(e.keys)] {
			gone = append(gone, e)
		}
		return true
	})
	if len(gone) > 0 && b.fixed(list) {
		b.fail(fault(InvalidValue, above.with(list.name, gone[0].keys...), "is fixed at creation"))
		return
	}
	for _, e := range gone {
		b.remove(list, e)
	}
}

// putEntry applies one entry to a list.
func (b *bulkEditor) putEntry(list *Node, keys []string, v value, how presence, seen map[string]bool) {
	fresh, err := b.t.schema.newEntry(list, keys)
	if err != nil {
		b.fail(err)
		return
	}
	defer fresh.free()
	id := keysID(fresh.keys())
	p := fresh.path()
	if seen[id] {
		b.fail(fault(InvalidValue, p, "is given twice"))
		return
	}
	seen[id] = true
	old, there := b.t.tables[list].Get(fresh.keys())
	switch {
	case there && b.op == Create && how == strict:
		b.refuse(p, v, fault(DataExists, p, "exists already"))
	case !there && b.op == Merge && how == strict:
		b.refuse(p, v, fault(DataMissing, p, "does not exist"))
	case !there:
		b.add(list, fresh, p, v)
	case b.op == Replace:
		b.change(list, old, Replace, p, v)
	default:
		b.change(list, old, Merge, p, v)
	}
}

// entry edits one entry, or something in it.
func (b *bulkEditor) entry(list *Node, p Path, i int, v value) {
	fresh, err := b.t.schema.newEntry(list, p[i].Keys)
	if err != nil {
		b.refuse(p, v, err)
		return
	}
	defer fresh.free()
	old, there := b.t.tables[list].Get(fresh.keys())
	at := fresh.path()
	switch itself := i == len(p)-1; {
	case !there && !itself:
		b.refuse(p, v, fault(DataMissing, p[:i+1], "does not exist"))
	case there && itself && b.op == Create:
		b.refuse(p, v, fault(DataExists, at, "exists already"))
	case !there && (b.op == Merge || b.op == Delete):
		b.refuse(p, v, fault(DataMissing, at, "does not exist"))
	case !there:
		b.add(list, fresh, p, v)
	case itself && b.op == Delete && b.fixed(list):
		b.fail(fault(InvalidValue, at, "is fixed at creation and cannot be deleted"))
	case itself && b.op == Delete:
		b.remove(list, old)
	default:
		b.change(list, old, b.op, p, v)
	}
}

// refuse reports an operation that is impossible whatever the body, unless the body is also wrong.
func (b *bulkEditor) refuse(p Path, v value, why error) {
	node, err := b.t.schema.node(p)
	if err == nil {
		fb := &builder{ctx: b.ctx, merges: b.op == Merge}
		defer fb.free()
		_, _, err = b.t.requestValue(fb, b.op, p, node, v)
	}
	if err != nil {
		b.fail(err)
		return
	}
	b.fail(why)
}

// add adds a new entry.
func (b *bulkEditor) add(list *Node, fresh *newEntry, p Path, v value) {
	if b.fixed(list) {
		b.refuse(p, v, fault(InvalidValue, fresh.path(), "is fixed at creation and cannot be added"))
		return
	}
	e, err := fresh.fill(b.t, p, v)
	if err != nil {
		b.fail(err)
		return
	}
	b.set(list, e)
}

// change edits an existing entry.
func (b *bulkEditor) change(list *Node, old *Entry, op Op, p Path, v value) {
	e, err := b.t.editEntry(list, old, op, p, v, b.amend)
	switch {
	case err != nil:
		b.fail(err)
	case e.saved != old.saved || e.full != old.full:
		b.set(list, e)
	}
}

// fixed reports whether the list can be given only at creation, and the node already exists.
func (b *bulkEditor) fixed(list *Node) bool { return list.initOnly && b.t.created && !b.amend }

// table returns the list's table for changes.
func (b *bulkEditor) table(list *Node) *Table {
	if !b.own[list] {
		b.t.tables[list] = b.t.tables[list].copy()
		b.own[list] = true
	}
	return b.t.tables[list]
}

func (b *bulkEditor) set(list *Node, e *Entry) {
	old := b.table(list).set(e)
	b.changes = append(b.changes, EntryChange{List: list, Old: old, New: e})
}

func (b *bulkEditor) remove(list *Node, e *Entry) {
	b.table(list).remove(e)
	b.changes = append(b.changes, EntryChange{List: list, Old: e})
}

// clear removes all entries.
func (b *bulkEditor) clear(list *Node) {
	b.t.tables[list].All(func(e *Entry) bool {
		b.changes = append(b.changes, EntryChange{List: list, Old: e})
		return true
	})
	b.t.tables[list], b.own[list] = newTable(list), true
}

func (b *bulkEditor) rollback() { b.t.tables = b.before }

// fail records a fault; faults of one body are reported together.
func (b *bulkEditor) fail(err error) {
	var e *Error
	switch {
	case len(b.errs) >= maxFaults:
	case !errors.As(err, &e):
		b.errs = append(b.errs, &Error{Tag: InvalidValue, Message: err.Error()})
	case len(e.Errs) > 0:
		b.errs = append(b.errs, e.Errs...)
	default:
		b.errs = append(b.errs, e)
	}
}

// checkReferences checks the leafrefs of entries: of the changed ones, and of all entries if the tree lost something.
func (b *bulkEditor) checkReferences(deltas []Delta) {
	known := map[*Node]map[string]bool{}
	there := func(list *Node, id string) bool {
		if known[list] == nil {
			known[list] = map[string]bool{}
		}
		ok, asked := known[list][id]
		if !asked {
			ref, value := splitRef(id)
			ok = b.t.holds(list.refs[ref].target, value)
			known[list][id] = ok
		}
		return ok
	}
	for _, c := range b.changes {
		if c.New == nil {
			continue
		}
		for _, id := range c.New.refs {
			if !there(c.List, id) {
				b.dangling(c.List, c.New, id)
			}
		}
	}
	if len(b.errs) > 0 || !slices.ContainsFunc(deltas, func(d Delta) bool { return d.Op != Created }) {
		return
	}
	for _, list := range b.t.schema.bulk {
		b.t.tables[list].used.Scan(func(id string, _ int) bool {
			if !there(list, id) {
				b.dangling(list, b.t.tables[list].referrer(id), id)
			}
			return len(b.errs) == 0
		})
	}
}

func (b *bulkEditor) dangling(list *Node, e *Entry, id string) {
	ref, value := splitRef(id)
	leaf := list.refs[ref].leaf
	err := fault(InvalidValue, list.parent.pathTo().with(list.name, e.keys...).with(leaf.name),
		"refers to %q, which is not in %s", shorten(value), leaf.typ.refersTo())
	err.Given = value
	b.fail(err)
}

// holds reports whether the tree has a value that a leafref can refer to.
func (t *Tree) holds(target *Node, value string) bool {
	p := target.pathTo()
	if target.key {
		p = p[:len(p)-1]
		p[len(p)-1].Keys = []string{value}
	}
	at, err := t.find(p)
	return err == nil && at != nil && (target.key || termValue(at) == value)
}
