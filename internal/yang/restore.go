// SPDX-License-Identifier: Apache-2.0

// Restoring the entries of bulk lists, which are stored apart from the rest of a configuration.

package yang

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/fault"
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
	var bodies []bulkBody // lists that were stored with the entry
	if err == nil && l.list.holdsBulk {
		v, bodies = l.list.cutBulk(slices.Concat(l.above, keys), v)
	}
	if err == nil {
		e, err = m.entry(keys, v, m.mould(v))
	}
	switch {
	case err != nil:
		b.fail(err)
	case !b.table(l).Restore(e):
		b.fail(fault.At(InvalidValue, l.at(keys), "is given twice"))
	default:
		b.t.interned.Share(e.Refs)
		b.note(l, bulk.Change{At: e.Keys, New: e})
		b.within(l, keys, bodies)
	}
}
