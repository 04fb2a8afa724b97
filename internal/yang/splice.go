// SPDX-License-Identifier: Apache-2.0

// Splitting a configuration from the entries of its bulk lists, and joining them.

package yang

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/fault"
	"github.com/polycube/polycube/internal/jsonscan"
)

// Restore adds the entries of a bulk list, below list entries with some keys, to a tree that has none of them: the texts of
// [bulk.Table.Stored] without defaults. All are checked again.
func (t *Tree) Restore(list *Node, above []string, entries iter.Seq[string]) error {
	if t.broken != nil {
		return t.broken
	}
	if !list.bulk {
		return fmt.Errorf("restore %s: not a bulk list", list.path)
	}
	b := t.newBulkEditor(context.Background(), Create, true)
	l := bulkPlace{list, above}
	m := newMoulds(l)
	i := 0
	for text := range entries {
		v, err := parseBody(context.Background(), []byte(text), nil, false)
		if err != nil {
			b.fail(fault.At(InvalidValue, l.path(), "element %d: %v", i, err))
			break
		}
		b.restore(m, i, v)
		i++
		if len(b.errs) > 0 {
			break
		}
	}
	if len(b.errs) == 0 {
		b.checkReferences(nil)
	}
	if len(b.errs) > 0 {
		b.rollback()
		return fmt.Errorf("restore %s: %w", list.path, fault.Join(b.errs))
	}
	return nil
}

// restore adds an entry that was stored.
func (b *bulkEditor) restore(m *moulds, i int, v value) {
	l := m.bulkPlace
	keys, err := m.keys(i, v)
	var e *bulk.Entry
	if err == nil {
		e, err = m.entry(keys, v, m.mould(v))
	}
	switch {
	case err != nil:
		b.fail(err)
	case !b.table(l).Restore(e):
		b.fail(fault.At(InvalidValue, l.at(keys), "is given twice"))
	default:
		b.t.intern(e.Refs)
		b.note(l, bulk.Change{At: e.Keys, New: e})
	}
}

// Splice inserts the entries into a configuration that was printed with Apart. A configuration without bulk lists is
// returned unchanged.
func (s *Schema) Splice(apart []byte, tables *bulk.Tables, o JSONOptions) ([]byte, error) {
	if tables.Len() == 0 {
		return apart, nil
	}
	pr := &printer{defaults: o.Defaults}
	if err := pr.spliced(s.root, nil, apart, tables); err != nil {
		return nil, fmt.Errorf("add the entries of large lists: %w", err)
	}
	return pr.buf, nil
}

// spliced prints the object of n, which is below list entries with some keys.
func (p *printer) spliced(n *Node, above []string, apart []byte, tables *bulk.Tables) error {
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
		filled := c.bulk && tables.At(c.path, above).Len() > 0
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
			p.table(tables.At(c.path, above))
		case below && c.kind == List:
			if err := p.splicedEntries(c, above, raw, tables); err != nil {
				return err
			}
		case below:
			if err := p.spliced(c, above, raw, tables); err != nil {
				return err
			}
		default:
			p.buf = append(p.buf, raw...)
		}
	}
	p.buf = append(p.buf, '}')
	return nil
}

// splicedEntries prints the entries of a list.
func (p *printer) splicedEntries(n *Node, above []string, apart []byte, tables *bulk.Tables) error {
	var entries []json.RawMessage
	if len(apart) > 0 {
		if err := json.Unmarshal(apart, &entries); err != nil {
			return err
		}
	}
	p.buf = append(p.buf, '[')
	for i, raw := range entries {
		if i > 0 {
			p.buf = append(p.buf, ',')
		}
		v, err := parseBody(context.Background(), raw, nil, false)
		if err != nil {
			return err
		}
		keys, ok := (&builder{}).keysOf(n, nil, i, v)
		if !ok {
			return fmt.Errorf("an entry of %s has no key", n.path)
		}
		if err := p.spliced(n, slices.Concat(above, keys), raw, tables); err != nil {
			return err
		}
	}
	p.buf = append(p.buf, ']')
	return nil
}

func filledBelow(n *Node, tables *bulk.Tables) bool {
	return slices.ContainsFunc(n.schema.bulk, func(list *Node) bool { return list.within(n) && len(tables.Of(list.path)) > 0 })
}
