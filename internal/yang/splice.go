// SPDX-License-Identifier: Apache-2.0

// Splitting a configuration from the entries of its bulk lists, and joining them.

package yang

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/polycube/polycube/internal/jsonscan"
)

// Restore adds the entries of a bulk list to a tree that has none, as written by [Entry.JSON] without defaults. All
// are checked again.
func (t *Tree) Restore(list *Node, entries iter.Seq[string]) error {
	if t.broken != nil {
		return t.broken
	}
	if !list.bulk {
		return fmt.Errorf("restore %s: not a bulk list", list.path)
	}
	b := t.newBulkEditor(context.Background(), Create, true)
	seen := make(map[string]bool)
	fb := &builder{ctx: b.ctx}
	defer fb.free()
	i := 0
	for text := range entries {
		v, err := parseBody(context.Background(), []byte(text), nil, false)
		if err != nil {
			b.fail(fault(InvalidValue, list.pathTo(), "element %d: %v", i, err))
			break
		}
		if keys, ok := fb.keysOf(list, list.parent.pathTo(), i, v); ok {
			b.putEntry(list, keys, v, strict, seen)
		}
		i++
		if b.errs = append(b.errs, fb.errs...); len(b.errs) > 0 {
			break
		}
	}
	if len(b.errs) == 0 {
		b.checkReferences(nil)
	}
	if len(b.errs) > 0 {
		b.rollback()
		return fmt.Errorf("restore %s: %w", list.path, join(b.errs))
	}
	return nil
}

// Saved iterates over the entries in the form that [Tree.Restore] takes.
func (t *Table) Saved() iter.Seq[string] {
	return func(yield func(string) bool) {
		t.All(func(e *Entry) bool { return yield(e.saved) })
	}
}

// Splice inserts the entries into a configuration that was printed with Apart. A configuration without bulk lists is
// returned unchanged.
func (s *Schema) Splice(apart []byte, tables map[*Node]*Table, o JSONOptions) ([]byte, error) {
	any := false
	for _, t := range tables {
		any = any || t.Len() > 0
	}
	if !any {
		return apart, nil
	}
	pr := &printer{defaults: o.Defaults}
	if err := pr.spliced(s.root, apart, tables); err != nil {
		return nil, fmt.Errorf("add the entries of large lists: %w", err)
	}
	return pr.buf, nil
}

// spliced prints the object of n.
func (p *printer) spliced(n *Node, apart []byte, tables map[*Node]*Table) error {
	members := map[string]json.RawMessage{}
	if len(apart) > 0 {
		if err := json.Unmarshal(apart, &members); err != nil {
			return err
		}
	}
	p.buf = append(p.buf, '{')
	start := len(p.buf)
	for _, c := range n.children {
		raw, given := members[c.name]
		filled := c.bulk && tables[c].Len() > 0
		below := c.holdsBulk && filledBelow(c, tables)
		if !given && !filled && !below {
			continue
		}
		if len(p.buf) > start {
			p.buf = append(p.buf, ',')
		}
		p.buf = append(jsonscan.AppendString(p.buf, c.name), ':')
		switch {
		case filled:
			p.table(tables[c])
		case below:
			if err := p.spliced(c, raw, tables); err != nil {
				return err
			}
		default:
			p.buf = append(p.buf, raw...)
		}
	}
	p.buf = append(p.buf, '}')
	return nil
}

func filledBelow(n *Node, tables map[*Node]*Table) bool {
	for list, t := range tables {
		if t.Len() > 0 && list.within(n) {
			return true
		}
	}
	return false
}
