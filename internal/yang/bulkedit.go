// SPDX-License-Identifier: Apache-2.0

// Editing bulk lists: an edit means the same as for any other list, but only the entries that it names are processed.

package yang

import (
	"context"
	"errors"
	"slices"

	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/fault"
)

// EntryChange is a change of an entry of a bulk list, below list entries with some keys.
type EntryChange struct {
	List  *Node
	Above []string
	bulk.Change
}

// bulkEditor is the part of an edit that concerns bulk lists.
type bulkEditor struct {
	ctx     context.Context
	t       *Tree
	op      Op
	amend   bool
	before  *bulk.Tables
	own     map[*bulk.Table]bool
	errs    []*Error
	changes []EntryChange
}

func (t *Tree) newBulkEditor(ctx context.Context, op Op, amend bool) *bulkEditor {
	return &bulkEditor{ctx: ctx, t: t, op: op, amend: amend, before: t.tables, own: map[*bulk.Table]bool{}}
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
			v, err = parse(&reader{ctx: ctx, words: m.words}, body, typed, p.ToEntry())
		}
		if err != nil {
			return nil, &Error{Tag: InvalidValue, Path: p.String(), Message: err.Error()}
		}
	}
	b := t.newBulkEditor(ctx, op, m.amend)
	e, deltas, above, err := standOn(ctx, t, op, p[:i+1])
	if err != nil {
		b.refuse(p, v, err)
		return nil, fault.Join(b.errs)
	}
	if l := (bulkPlace{list, above}); len(p[i].Keys) == 0 {
		b.whole(l, v)
	} else {
		b.entry(l, p, i, v)
	}
	if b.check(nil); len(b.errs) > 0 {
		b.rollback()
		return nil, e.rollback(fault.Join(b.errs))
	}
	return t.changed(e, b, deltas), nil
}

// check checks what joins entries, if they are right by themselves.
func (b *bulkEditor) check(deltas []Delta) {
	if len(b.errs) > 0 {
		return
	}
	for _, c := range b.changes {
		if l := (bulkPlace{c.List, c.Above}); c.Old == nil && c.List.max > 0 && b.t.tables.At(c.List.path, c.Above).Len() > c.List.max {
			b.fail(fault.At(InvalidValue, l.path(), "too many entries, at most %d are allowed", c.List.max))
			return
		}
	}
	b.checkReferences(deltas)
}

// standOn returns the keys of the list entries above a bulk list, which must exist. Those that need no configuration to
// exist get one.
func standOn(ctx context.Context, t *Tree, op Op, p Path) (*editor, []Delta, []string, error) {
	e := &editor{t: t, op: Merge, undo: &undo{}}
	above, err := t.schema.KeysAbove(p)
	if err != nil {
		return nil, nil, nil, err
	}
	missing, err := missingAbove(t, p)
	if err != nil || len(missing) == 0 {
		return e, nil, above, err
	}
	at := missing[0]
	node, err := t.schema.node(at)
	switch {
	case err != nil:
		return nil, nil, nil, err
	case len(missing) > 1 && node.systemCreated && op != Delete:
		return nil, nil, nil, fault.At(DataMissing, missing[1], "does not exist")
	case !node.systemCreated || op == Delete:
		return nil, nil, nil, fault.At(DataMissing, at, "does not exist")
	}
	b := &builder{ctx: ctx, merges: true}
	defer b.free()
	chain, target, err := t.requestValue(b, Merge, at, node, value{kind: objectValue})
	if err != nil {
		return nil, nil, nil, err
	}
	deltas, err := e.carryOut(at, node, chain, target)
	if err != nil {
		return nil, nil, nil, err
	}
	e.changedText()
	return e, deltas, above, nil
}

// missingAbove returns the paths of the list entries above p that do not exist, outermost first.
func missingAbove(t *Tree, p Path) (missing []Path, err error) {
	for i := range p[:max(len(p)-1, 0)] {
		if at := p[:i+1]; len(p[i].Keys) > 0 {
			if is, err := t.exists(at); err != nil {
				return nil, err
			} else if !is {
				missing = append(missing, at)
			}
		}
	}
	return missing, nil
}

// exists reports whether there is a list entry.
func (t *Tree) exists(p Path) (bool, error) {
	if t.schema.bulkStep(p) < len(p)-1 {
		at, err := t.find(p)
		return at != nil, err
	}
	list, err := t.schema.node(p)
	if err != nil {
		return false, err
	}
	keys, err := t.schema.KeysAbove(append(slices.Clip(p), Step{}))
	if err != nil {
		return false, err
	}
	above := len(keys) - len(list.keys)
	_, is := t.tables.At(list.path, keys[:above]).Get(keys[above:])
	return is, nil
}

// bodies applies what a body says about bulk lists, and returns which lists these are.
func (b *bulkEditor) bodies(bodies []bulkBody) (given map[string]bool) {
	given = map[string]bool{}
	for _, body := range bodies {
		given[body.path().ID()] = true
		if b.op == Merge && body.body.kind == nullValue && !b.fixed(body.list) {
			b.clear(body.bulkPlace)
		} else if b.isArray(body.bulkPlace, body.body) {
			b.put(body.bulkPlace, body.body.items, upsert)
		}
	}
	return given
}

// within edits the lists in an entry that exists, by what the body of the entry says about them.
func (b *bulkEditor) within(l bulkPlace, keys []string, bodies []bulkBody) {
	if !l.list.holdsBulk || len(b.errs) > 0 {
		return
	}
	if given := b.bodies(bodies); b.op == Replace {
		b.clearBelow(l.list, slices.Concat(l.above, keys), given)
	}
}

// rest is the part of an edit above bulk lists that affects them.
func (b *bulkEditor) rest(p Path, node *Node, bodies []bulkBody, deltas []Delta) {
	given := b.bodies(bodies)
	keys, err := b.t.schema.KeysAbove(append(slices.Clip(p), Step{}))
	if err != nil {
		b.fail(err)
		return
	}
	if b.op == Replace || b.op == Delete {
		b.clearBelow(node, keys, given)
	}
	for _, d := range deltas {
		if d.Op != Deleted || len(d.Path[len(d.Path)-1].Keys) == 0 {
			continue
		}
		gone, err := b.t.schema.node(d.Path)
		if err == nil && gone.holdsBulk {
			keys, err = b.t.schema.KeysAbove(append(slices.Clip(d.Path), Step{}))
			b.clearBelow(gone, keys, nil)
		}
		if err != nil {
			b.fail(err)
		}
	}
}

// clearBelow removes the entries of all bulk lists at a node that is, or is below, list entries with some keys, except
// those of the lists that were given. Lists in entries of another bulk list go with these.
func (b *bulkEditor) clearBelow(node *Node, keys []string, given map[string]bool) {
	for _, list := range b.t.schema.bulk {
		if list == node || !list.within(node) || list.parent.bulk && list.parent != node || b.fixed(list) {
			continue
		}
		for _, table := range b.t.tables.Below(list.path, keys) {
			if l := (bulkPlace{list, table.Above()}); !given[l.path().ID()] {
				b.clear(l)
			}
		}
	}
}

// whole edits a whole list.
func (b *bulkEditor) whole(l bulkPlace, v value) {
	switch {
	case b.op == Delete && b.fixed(l.list) && b.table(l).Len() > 0:
		b.fail(fault.At(InvalidValue, l.path(), "is fixed at creation and cannot be deleted"))
	case b.op == Delete, b.op == Merge && v.kind == nullValue && !b.fixed(l.list):
		b.clear(l)
	case b.isArray(l, v):
		b.put(l, v.items, strict)
	}
}

func (b *bulkEditor) isArray(l bulkPlace, v value) bool {
	if v.kind != arrayValue {
		b.fail(fault.At(InvalidValue, l.path(), "%s is given, but an array of objects is required", v.kind))
	}
	return v.kind == arrayValue
}

// entry edits one entry, or something in it.
func (b *bulkEditor) entry(l bulkPlace, p Path, i int, v value) {
	fresh, err := b.t.schema.newEntry(l.list, l.above, p[i].Keys)
	if err != nil {
		b.refuse(p, v, err)
		return
	}
	defer fresh.free()
	old, there := b.t.tables.At(l.list.path, l.above).Get(fresh.keys())
	at, itself := fresh.path(), i == len(p)-1
	var bodies []bulkBody
	if itself && l.list.holdsBulk {
		v, bodies = l.list.cutBulk(slices.Concat(l.above, fresh.keys()), v)
	}
	switch {
	case b.op == Insert:
		b.add(l, fresh, p, v)
	case !there && !itself:
		b.refuse(p, v, fault.At(DataMissing, p[:i+1], "does not exist"))
	case there && itself && b.op == Create:
		b.refuse(p, v, fault.At(DataExists, at, "exists already"))
	case !there && (b.op == Merge || b.op == Delete):
		b.refuse(p, v, fault.At(DataMissing, at, "does not exist"))
	case !there:
		b.add(l, fresh, p, v)
	case itself && b.op == Delete && b.fixed(l.list):
		b.fail(fault.At(InvalidValue, at, "is fixed at creation and cannot be deleted"))
	case itself && b.op == Delete:
		b.remove(l, old)
		return
	default:
		b.change(l, old, b.op, p, v)
	}
	if itself {
		b.within(l, fresh.keys(), bodies)
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
func (b *bulkEditor) add(l bulkPlace, fresh *newEntry, p Path, v value) {
	if b.fixed(l.list) {
		b.refuse(p, v, fixedEntry(l, fresh.keys()))
		return
	}
	it, err := fresh.fill(p, v)
	if err != nil {
		b.fail(err)
		return
	}
	b.insert(l, newBulkEntry(l.list, it))
}

func fixedEntry(l bulkPlace, keys []string) error {
	return fault.At(InvalidValue, l.at(keys), "is fixed at creation and cannot be added")
}

// insert puts a new entry into the list's table.
func (b *bulkEditor) insert(l bulkPlace, e *bulk.Entry) {
	b.t.interned.Share(e.Refs)
	if !l.list.positions {
		b.note(l, b.table(l).Set(e))
		return
	}
	changes, err := b.table(l).Insert(e)
	if err != nil {
		b.fail(fault.At(InvalidValue, l.at(e.Keys), "%v", err))
	}
	b.note(l, changes...)
}

// change edits an existing entry.
func (b *bulkEditor) change(l bulkPlace, old *bulk.Entry, op Op, p Path, v value) {
	e, err := b.t.editEntry(l.list, l.above, old, op, p, v, b.amend)
	switch {
	case err != nil:
		b.fail(err)
	case !e.Same(old):
		b.t.interned.Share(e.Refs)
		b.note(l, b.table(l).Set(e))
	}
}

// fixed reports whether the list can be given only at creation, and the node already exists.
func (b *bulkEditor) fixed(list *Node) bool { return list.initOnly && b.t.created && !b.amend }

// table returns the list's table for changes.
func (b *bulkEditor) table(l bulkPlace) *bulk.Table {
	table := b.t.tables.At(l.list.path, l.above)
	if b.own[table] {
		return table
	}
	if b.t.tables == b.before {
		b.t.tables = b.before.Clone()
	}
	table = table.Copy()
	b.t.tables.Put(table)
	b.own[table] = true
	return table
}

func (b *bulkEditor) note(l bulkPlace, changes ...bulk.Change) {
	for _, c := range changes {
		b.changes = append(b.changes, EntryChange{l.list, l.above, c})
	}
}

func (b *bulkEditor) remove(l bulkPlace, e *bulk.Entry) {
	b.note(l, b.table(l).Remove(e))
	b.clearIn(l, e)
}

// clear removes all entries.
func (b *bulkEditor) clear(l bulkPlace) {
	if b.t.tables.At(l.list.path, l.above).Len() == 0 {
		return
	}
	table := b.table(l)
	all := table.Clear()
	b.t.tables.Drop(table)
	b.note(l, all...)
	for _, c := range all {
		b.clearIn(l, c.Old)
	}
}

// clearIn removes the entries of the lists in an entry that was removed.
func (b *bulkEditor) clearIn(l bulkPlace, e *bulk.Entry) {
	for _, list := range l.list.children {
		if list.bulk {
			b.clear(bulkPlace{list, slices.Concat(l.above, e.Keys)})
		}
	}
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
		for _, id := range c.New.Refs {
			if !there(c.List, id) {
				_, is := c.Shown()
				b.dangling(bulkPlace{c.List, c.Above}, is, id)
			}
		}
	}
	if len(b.errs) > 0 || !slices.ContainsFunc(deltas, func(d Delta) bool { return d.Op != Created }) {
		return
	}
	for _, list := range b.t.schema.bulk {
		if len(list.refs) == 0 {
			continue
		}
		for _, table := range b.t.tables.Of(list.path) {
			table.Used(func(id string) bool {
				if !there(list, id) {
					b.dangling(bulkPlace{list, table.Above()}, table.Referrer(id), id)
				}
				return len(b.errs) == 0
			})
		}
	}
}

func (b *bulkEditor) dangling(l bulkPlace, e *bulk.Entry, id string) {
	ref, value := splitRef(id)
	leaf := l.list.refs[ref].leaf
	err := fault.At(InvalidValue, l.at(e.Keys).With(leaf.name),
		"refers to %q, which is not in %s", fault.Shorten(value), leaf.typ.RefersTo())
	b.fail(err.About(value))
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
