// SPDX-License-Identifier: Apache-2.0

// The result of an edit: the differences, and how to revert it.

package yang

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/polycube/polycube/internal/bulk"
)

// DeltaOp is what happened to a leaf or list entry.
type DeltaOp int

// The kinds of difference.
const (
	Created DeltaOp = iota
	Replaced
	Deleted
)

// String returns the name of the kind.
func (op DeltaOp) String() string {
	return [...]string{"created", "replaced", "deleted"}[op]
}

// Delta is one difference: of a leaf, of a whole leaf-list, of an added or deleted list entry or container with
// presence (its content is not listed again), or of a whole list if the order of its entries changed.
type Delta struct {
	Op   DeltaOp
	Path Path
	// Value is the JSON of the node after the edit, with defaults; nil if it was deleted.
	Value []byte
	// Old is the JSON before the edit, nil if it was created.
	Old []byte
}

// Change is a completed edit.
type Change struct {
	tree          *Tree
	before, after uint64
	created       bool
	deltas        []Delta
	undo          *undo
	// tables are those before the edit, entries how they differ from those after it.
	tables  *bulk.Tables
	entries []EntryChange
}

// ErrNotNewest is the error of a revert if there is a newer change.
var ErrNotNewest = errors.New("a newer change must be reverted first")

// Diff returns the first differences in the order in which they were made, those of bulk lists last, and how many more
// there are than most.
func (c *Change) Diff(most int) (first []Delta, more int) {
	first = slices.Clip(c.deltas[:min(len(c.deltas), most)])
	more = len(c.deltas) - len(first)
	for _, e := range c.entries {
		if e.Moved() {
			continue
		}
		if len(first) >= most {
			more++
			continue
		}
		d := Delta{Op: Replaced, Path: entryPath(e.List, e.Above, e.At)}
		was, is := e.Shown()
		if was == nil {
			d.Op = Created
		} else {
			d.Old = []byte(was.Full)
		}
		if is == nil {
			d.Op = Deleted
		} else {
			d.Value = []byte(is.Full)
		}
		first = append(first, d)
	}
	return first, more
}

// Entries returns the differences of bulk lists in the order in which they were
// made. An entry may appear more than once.
func (c *Change) Entries() []EntryChange { return c.entries }

// Empty reports whether no value differs.
func (c *Change) Empty() bool { return len(c.deltas) == 0 && len(c.entries) == 0 }

// Revert reverts the change. Changes of a tree are reverted newest first, each at most once.
func (c *Change) Revert() error {
	t := c.tree
	if t.broken != nil {
		return t.broken
	}
	if t.version != c.after {
		return fmt.Errorf("revert: %w", ErrNotNewest)
	}
	delete(t.live, c.undo)
	if err := c.undo.apply(t); err != nil {
		t.broken = fmt.Errorf("revert a change, the configuration is damaged: %w", err)
		return t.broken
	}
	t.version, t.created, t.tables = c.before, c.created, c.tables
	return nil
}

// watch returns the memory of a change that is no longer referenced to the tree, which frees it when it is next used,
// because the garbage collector's goroutine must not touch libyang's data.
func (c *Change) watch() {
	if len(c.undo.records) == 0 && c.undo.diff == nil && c.undo.before == nil {
		return
	}
	t := c.tree
	runtime.AddCleanup(c, func(u *undo) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.dead = append(t.dead, u)
	}, c.undo)
}

// collect frees the memory of changes that are no longer referenced.
func (t *Tree) collect() {
	t.mu.Lock()
	dead := t.dead
	t.dead = nil
	t.mu.Unlock()
	for _, u := range dead {
		if _, ok := t.live[u]; ok {
			delete(t.live, u)
			u.free()
		}
	}
}

// touch is a node whose value may have changed, with its previous value.
type touch struct {
	path Path
	node *Node
	old  []byte
}

// touched records the value that the node at p had before the edit. Only the first call for a path counts.
func (e *editor) touched(p Path, node *Node, old []byte) {
	id := p.ID()
	if e.seen == nil {
		e.seen = make(map[string]int)
	}
	if _, ok := e.seen[id]; ok {
		return
	}
	e.seen[id] = len(e.touches)
	e.touches = append(e.touches, touch{path: p, node: node, old: old})
}

// deltas compares the recorded nodes with the current ones.
func (e *editor) deltas() ([]Delta, error) {
	if err := e.touchValidated(); err != nil {
		return nil, err
	}
	out := make([]Delta, 0, len(e.touches))
	whole := make(map[string]bool)
	for _, c := range e.touches {
		if covered(c.path, whole) {
			continue
		}
		now, err := e.now(c)
		if err != nil {
			return nil, err
		}
		d := Delta{Path: c.path, Value: now, Old: c.old}
		switch {
		case bytes.Equal(c.old, now) && (c.old == nil) == (now == nil):
			continue
		case c.old == nil:
			d.Op = Created
		case now == nil:
			d.Op = Deleted
		default:
			d.Op = Replaced
		}
		if c.node.kind != Leaf && c.node.kind != LeafList {
			whole[c.path.ID()] = true
		}
		out = append(out, d)
	}
	return slices.DeleteFunc(out, func(d Delta) bool { return covered(d.Path, whole) }), nil
}

// now returns the current value of a recorded node, nil if it does not exist.
func (e *editor) now(c touch) ([]byte, error) {
	at, err := e.t.find(c.path)
	if err != nil || at == nil {
		return nil, err
	}
	return e.t.render(c.path, c.node, JSONOptions{Defaults: true, Apart: true})
}

// covered reports whether an ancestor of p was added, deleted or reordered.
func covered(p Path, whole map[string]bool) bool {
	if len(whole) == 0 {
		return false
	}
	for i := range p {
		if i > 0 && whole[p[:i].ID()] {
			return true
		}
		if len(p[i].Keys) > 0 && whole[append(slices.Clone(p[:i]), Step{Name: p[i].Name}).ID()] {
			return true
		}
	}
	return false
}

// touchValidated adds the changes of validation: added and removed defaults, and nodes that a choice or a when excluded.
func (e *editor) touchValidated() error {
	buf, err := dump(e.undo.diff, allSiblings, true)
	if err != nil {
		return err
	}
	items, err := e.t.schema.decode(buf, true)
	if err != nil {
		return err
	}
	e.touchItems(Path{}, items, 'n')
	return nil
}

// touchItems walks a diff: op is the inherited operation.
func (e *editor) touchItems(p Path, items []*item, op byte) {
	for _, it := range items {
		own := op
		if it.op != 0 {
			own = it.op
		}
		n := it.node
		switch n.kind {
		case Leaf:
			if own != 'n' && !n.key {
				e.touched(p.With(n.name), n, oldLeaf(it, own))
			}
		case LeafList:
			if own != 'n' {
				e.touched(p.With(n.name), n, oldLeafList(it, items, op))
			}
		default:
			e.touchInner(p, it, own)
		}
	}
}

func (e *editor) touchInner(p Path, it *item, op byte) {
	n, at := it.node, p.With(it.node.name)
	if n.kind == List {
		at = p.With(n.name, itemKeys(it)...)
	}
	if (n.kind == List || n.presence) && op != 'n' {
		var old []byte
		if op == 'd' {
			pr := &printer{defaults: true}
			pr.object(it.kids)
			old = pr.buf
		}
		e.touched(at, n, old)
		return
	}
	e.touchItems(at, it.kids, op)
}

// oldLeaf is the value of a leaf before validation changed it.
func oldLeaf(it *item, op byte) []byte {
	switch op {
	case 'd':
		return appendScalar(nil, it.base, it.text)
	case 'r':
		return appendScalar(nil, it.base, it.original)
	}
	return nil
}

// oldLeafList is the value of a leaf-list before validation: the entries that
// it deleted. Validation adds or deletes all of them, never some.
func oldLeafList(it *item, items []*item, inherited byte) []byte {
	pr := &printer{defaults: true}
	var old []*item
	for _, i := range items {
		if i.node == it.node && (i.op == 'd' || (i.op == 0 && inherited == 'd')) {
			old = append(old, i)
		}
	}
	if old == nil {
		return nil
	}
	pr.array(old)
	return pr.buf
}
