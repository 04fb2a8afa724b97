// SPDX-License-Identifier: Apache-2.0

// The text of a whole configuration (package printed), and what edits change of it.

package yang

import (
	"errors"

	"github.com/polycube/polycube/internal/yang/printed"
)

// Text is a whole configuration as JSON objects, without the entries of bulk lists.
type Text = printed.Text

// Text prints the configuration. It is the same text as long as the tree is the same: after an edit of entries of bulk lists,
// it costs nothing.
func (t *Tree) Text() (*Text, error) {
	if t.broken != nil {
		return nil, t.broken
	}
	return t.printed.Text(source{t})
}

// source prints the members of a tree.
type source struct{ *Tree }

func (s source) Members() []printed.Member {
	members := make([]printed.Member, len(s.schema.root.children))
	for i, n := range s.schema.root.children {
		members[i] = printed.Member{Name: n.name, List: n.config && n.kind == List}
	}
	return members
}

// items reads a member, or an entry of it.
func (s source) items(i int, what scope, keys ...string) ([]*item, error) {
	n := s.schema.root.children[i]
	if !n.config || n.kind == Action {
		return nil, nil
	}
	at, err := s.find(Path{{Name: n.name, Keys: keys}})
	if err != nil {
		return nil, err
	}
	return s.read(at, what)
}

func (s source) Value(i int) (v printed.Value, err error) {
	items, err := s.items(i, allInstances)
	value := func(defaults bool) []byte {
		p := &printer{defaults: defaults}
		if len(items) > 0 && p.shown(items[0]) {
			p.group(items)
		}
		return p.buf
	}
	return printed.Value{Full: value(true), Saved: value(false)}, err
}

func (s source) Entries(i int, f func(keys []string, v printed.Value)) error {
	items, err := s.items(i, allInstances)
	for _, it := range items {
		f(itemKeys(it), entryText(it))
	}
	return err
}

func (s source) Entry(i int, keys []string) (v printed.Value, err error) {
	items, err := s.items(i, oneNode, keys...)
	if err != nil || len(items) != 1 {
		return v, errors.Join(err, ErrNotFound)
	}
	return entryText(items[0]), nil
}

func entryText(it *item) printed.Value {
	full, saved := &printer{defaults: true}, &printer{}
	full.item(it)
	saved.item(it)
	return printed.Value{Full: full.buf, Saved: saved.buf}
}

// changedText notes what an edit, or its validation, can have changed of the text.
func (e *editor) changedText() {
	p, s := &e.t.printed, e.t.schema
	if !e.t.created {
		p.Forget()
		return
	}
	for _, r := range e.undo.records {
		switch top := r.top(s); {
		case s.conditional, r.kind == moved, top.kind != List:
			p.Member(top.index)
		case len(r.path) == 0:
			p.Removed(top.index, entryKeys(r.node, top))
		case len(r.path) == 1 && r.kind == inserted:
			p.Added(top.index, r.path[0].Keys)
		default:
			p.Entry(top.index, r.path[0].Keys)
		}
	}
	for _, c := range e.touches {
		if top := s.root.Child(c.path[0].Name); top.kind == List && len(c.path[0].Keys) > 0 && !s.conditional {
			p.Entry(top.index, c.path[0].Keys)
		} else {
			p.Member(top.index)
		}
	}
}
