// SPDX-License-Identifier: Apache-2.0

// An edit: build the new data separately, apply it to the tree while recording the reverse, validate the whole tree,
// and undo everything if that fails.

package yang

import (
	"context"
	"errors"
	"fmt"

	"github.com/polycube/polycube/internal/fault"
)

// Op is the operation of an edit on a node.
type Op int

// The operations and the corresponding HTTP methods.
const (
	// Create creates what does not exist yet (POST). A container without presence always exists: what it is given is
	// merged into it.
	Create Op = iota
	// Replace gives the node exactly this content (PUT). Members that are fixed at creation and not given stay.
	Replace
	// Merge changes what is given and leaves the rest (PATCH). A leaf-list is one value and is replaced.
	Merge
	// Delete removes the node, or the content of a container (DELETE).
	Delete
	// Insert adds an entry at a position of a list of positions, whose entries from there on move.
	Insert
)

// String returns the name of the operation.
func (op Op) String() string {
	return [...]string{"create", "replace", "merge", "delete", "insert"}[op]
}

// Edit applies op with a JSON body to the node at p and validates the tree. On any error, including one of the
// context, the tree is unchanged. Errors in the request are [*Error].
func (t *Tree) Edit(ctx context.Context, op Op, p Path, body []byte) (*Change, error) {
	return t.edit(ctx, op, p, body, editMode{})
}

// Amend is Edit for changes by the daemon itself: it may also change what is fixed at creation, such as a port's
// tcubes, and give a list as many entries as were stored.
func (t *Tree) Amend(ctx context.Context, op Op, p Path, body []byte) (*Change, error) {
	return t.edit(ctx, op, p, body, editMode{amend: true})
}

// editMode is the kind of edit: by the daemon itself (Amend), or typed in words (EditWords).
type editMode struct{ amend, words bool }

func (t *Tree) edit(ctx context.Context, op Op, p Path, body []byte, m editMode) (*Change, error) {
	c, err := t.editUntil(ctx, op, p, body, m)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("edit %s: %w", p, ctx.Err())
	}
	return c, err
}

func (t *Tree) editUntil(ctx context.Context, op Op, p Path, body []byte, m editMode) (*Change, error) {
	if t.broken != nil {
		return nil, t.broken
	}
	t.collect()
	if op < Create || op > Insert {
		return nil, fmt.Errorf("edit %s: no operation %d", p, int(op))
	}
	node, err := t.schema.node(p)
	if err != nil {
		return nil, err
	}
	if err := editable(op, p, node); err != nil {
		return nil, err
	}
	if i := t.schema.bulkStep(p); i >= 0 {
		return t.editBulk(ctx, op, p, i, body, m)
	}
	b := &builder{ctx: ctx, trusted: m.amend, words: m.words, merges: op == Merge}
	defer b.free()
	chain, target, lists, err := t.request(b, op, p, node, body)
	if err != nil {
		return nil, err
	}
	e := &editor{t: t, op: op, amend: m.amend, undo: &undo{}}
	deltas, err := e.carryOut(p, node, chain, target)
	if err != nil {
		return nil, err
	}
	bulk := t.newBulkEditor(ctx, op, m.amend)
	if node.holdsBulk {
		bulk.rest(p, node, lists, deltas)
	}
	if bulk.check(deltas); len(bulk.errs) > 0 {
		bulk.rollback()
		return nil, e.rollback(fault.Join(bulk.errs))
	}
	e.changedText()
	return t.changed(e, bulk, deltas), nil
}

// carryOut makes the edit and validates the tree, or undoes it.
func (e *editor) carryOut(p Path, node *Node, chain []*fragment, target *fragment) ([]Delta, error) {
	t := e.t
	if err := e.undo.copyTree(t); err != nil {
		return nil, err
	}
	if err := e.run(p, node, chain, target); err != nil {
		return nil, e.rollback(err)
	}
	if t.created && e.changedNothing() {
		return nil, nil // it was valid before: the edit only concerns bulk lists, or asks for what is there
	}
	var err error
	e.undo.diff, err = t.schema.validate(&t.root)
	t.outdated(e.undo.diff)
	if err != nil {
		return nil, e.rollback(t.explain(err))
	}
	deltas, err := e.deltas()
	if err != nil {
		return nil, e.rollback(err)
	}
	return deltas, nil
}

// changedNothing reports whether neither the edit nor its validation changed a node of the tree.
func (e *editor) changedNothing() bool { return len(e.undo.records) == 0 && e.undo.diff == nil }

// editable refuses nodes that cannot be edited whatever the body.
func editable(op Op, p Path, node *Node) error {
	switch {
	case node.kind == Action:
		return fault.At(OperationNotSupported, p, "is an action, not configuration")
	case !node.config:
		return fault.At(InvalidValue, p[:len(p)-1], "%s is read-only", node.name)
	case node.key:
		return fault.At(OperationNotSupported, p, "is a key and cannot be changed")
	case len(p) == 0 && op == Delete:
		return &Error{Tag: OperationNotSupported, Message: "a cube cannot be emptied, only deleted as a whole"}
	case op == Insert && (!node.positions || !p.ToEntry()):
		return fault.At(OperationNotSupported, p, "is not an entry of a list of positions, so nothing can be inserted there")
	}
	return nil
}

// request builds the fragments of the target and its ancestors: its content for the cube, a list for a list or an
// entry of it. The parts about bulk lists are returned separately.
func (t *Tree) request(b *builder, op Op, p Path, node *Node, body []byte) ([]*fragment, *fragment, []bulkBody, error) {
	var v value
	var lists []bulkBody
	if op != Delete {
		var err error
		bounded := node
		if b.trusted {
			bounded = nil
		}
		if v, err = parse(&reader{ctx: b.ctx, words: b.words}, body, bounded, p.ToEntry()); err != nil {
			return nil, nil, nil, &Error{Tag: InvalidValue, Path: p.String(), Message: err.Error()}
		}
		if v, lists, err = cut(p, node, v); err != nil {
			return nil, nil, nil, err
		}
	}
	chain, target, err := t.requestValue(b, op, p, node, v)
	return chain, target, lists, err
}

// requestValue is request for a parsed body without bulk lists.
func (t *Tree) requestValue(b *builder, op Op, p Path, node *Node, v value) ([]*fragment, *fragment, error) {
	if op != Delete && node.kind == Leaf && v.kind == objectValue && len(v.members) == 0 {
		return nil, nil, fault.At(MissingElement, p, "the body is empty, but must be %s", node.typ.Allowed())
	}
	if len(p) == 0 {
		// the cube is not a data node: its members are tops of the builder
		b.object(nil, node, p, v)
		b.nameService(t)
		return nil, &fragment{node: node, kids: b.tops}, fault.Join(b.errs)
	}
	var chain []*fragment
	var parent *fragment
	above := t.schema.root
	for i, step := range p[:len(p)-1] {
		above = above.Child(step.Name)
		if parent = b.step(parent, above, p[:i], step.Keys); parent == nil {
			return nil, nil, fault.Join(b.errs)
		}
		chain = append(chain, parent)
	}
	target := b.target(parent, op, p, node, v)
	return chain, target, fault.Join(b.errs)
}

// nameService sets the leaf with the service of a new cube.
func (b *builder) nameService(t *Tree) {
	leaf := t.schema.root.Child("service-name")
	if t.created || leaf == nil {
		return
	}
	for _, f := range b.tops {
		if f.node == leaf {
			return
		}
	}
	b.leaf(nil, leaf, Path{{Name: leaf.name}}, value{kind: stringValue, text: t.schema.info.Name})
}

// target builds the target node of an edit.
func (b *builder) target(parent *fragment, op Op, p Path, node *Node, v value) *fragment {
	above, step := p[:len(p)-1], p[len(p)-1]
	holder := &builder{ctx: b.ctx, merges: b.merges, words: b.words}
	defer func() {
		b.errs = append(b.errs, holder.errs...)
		if parent == nil {
			b.tops = append(b.tops, holder.tops...)
		}
	}()
	switch {
	case op == Delete && len(step.Keys) == 0:
		return &fragment{node: node}
	case node.kind == LeafList && len(step.Keys) > 0:
		list := &fragment{node: node}
		holder.attach(parent, list)
		if len(v.members) > 0 || (op != Delete && v.kind != objectValue) {
			holder.fault(InvalidValue, p, "the value is in the path, the body must be empty")
		}
		if f := holder.term(parent, node, p, value{kind: stringValue, text: step.Keys[0]}); f != nil {
			f.keys = []string{termValue(f.ref)}
			list.kids = append(list.kids, f)
		}
		return list
	case node.kind == List && len(step.Keys) > 0:
		entry := holder.step(parent, node, above, step.Keys)
		if entry == nil {
			return nil
		}
		if op != Delete {
			holder.object(entry, node, p, v)
		}
		return &fragment{node: node, kids: []*fragment{entry}}
	}
	siblings := &holder.tops
	if parent != nil {
		siblings = &parent.kids
	}
	holder.member(parent, node, above, v)
	if len(*siblings) == 0 {
		return &fragment{node: node}
	}
	return (*siblings)[len(*siblings)-1]
}

// changed returns the Change of a finished edit.
func (t *Tree) changed(e *editor, bulk *bulkEditor, deltas []Delta) *Change {
	c := &Change{tree: t, before: t.version, created: t.created, deltas: deltas, undo: e.undo,
		tables: bulk.before, entries: bulk.changes}
	t.versions++
	t.version, t.created = t.versions, true
	c.after = t.version
	t.live[e.undo] = struct{}{}
	c.watch()
	return c
}

// rollback undoes the edit and returns its error.
func (e *editor) rollback(cause error) error {
	if err := e.undo.apply(e.t); err != nil {
		e.t.broken = fmt.Errorf("revert an edit, the configuration is damaged: %w", err)
		return errors.Join(cause, e.t.broken)
	}
	return cause
}
